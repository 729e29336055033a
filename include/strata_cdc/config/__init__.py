"""Settings, read once at an edge.
Not here: secrets in files; they come from connections."""
