"""How far each step of a source has come, and where a point of the landed stream is; the server is not queried.
Not here: groups (`groups/status.py`), what is wrong with a server's settings (`ops/doctor/`)."""
