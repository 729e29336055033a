"""How far each step of a source has come, and where a point of the stream is."""
