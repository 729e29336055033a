"""The schema of a live server, as it was at a known position.
Not here: what follows for the history (`schema/tracker/`)."""
