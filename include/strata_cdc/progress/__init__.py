"""How far each step of a source has come, and where a point of the landed stream is; the server is not asked.
Not here: groups (`groups/status.py`), what a server's settings lack (`ops/doctor/`)."""
