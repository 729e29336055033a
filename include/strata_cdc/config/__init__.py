"""Settings, read once at an edge.
Not here: secrets in files; secrets come from connections."""
