"""Change sources: the port (`port.py`) and its kinds.
Not here: landing (`landing/`), what is made of transactions (`schema/tracker/`, `changes/`)."""
