"""Change sources: the port (`port.py`) and what stands behind it.
Not here: landing (`landing/`), what is made of transactions (`schema/tracker/`, `changes/`)."""
