"""Which tables and columns of a source are meant: by its settings, and by a request.
Not here: what a pattern matches (`schema/model/patterns.py`), the settings (`config/`)."""
