"""Change sources: the port (`port.py`) and what stands behind it.
Not here: landing (`jobs/land/`), what is made of transactions (`schema/tracker/`, `rows/`)."""
