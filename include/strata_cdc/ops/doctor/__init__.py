"""What of a server's settings and grants, the store and the lake keeps a source from working."""
