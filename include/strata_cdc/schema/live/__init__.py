"""The schema of a live server, as it was at a known position.
Not here: the consequences for the history (`schema/tracker/`)."""
