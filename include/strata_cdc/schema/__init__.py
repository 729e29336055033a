"""The schema of every table at every GTID. Light: no numpy, no pyarrow.
Not here: rows (`changes/`), the database connection (`store/`)."""
