"""Every table at every GTID. Light: no numpy, no pyarrow.
Not here: rows (`changes/`), the database connection (`store/`)."""
