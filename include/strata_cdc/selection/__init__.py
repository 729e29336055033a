"""Which tables and columns of a source are meant: by its settings, and by what somebody asks for.
Not here: what a pattern matches (`schema/model/patterns.py`), the settings (`config/`)."""
