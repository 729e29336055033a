"""The lake and the store of a source know each other."""
