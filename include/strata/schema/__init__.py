"""Every table at every GTID. Light: no numpy, no pyarrow.
Not here: rows (`rows/`), the database connection (`store/`)."""
