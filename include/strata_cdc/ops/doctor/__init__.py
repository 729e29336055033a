"""The doctor: which of a server's settings and grants, of the store and the lake keep a source from working."""
