"""Numbers only: compiled loops over bytes that report by status code.
Not here: errors, names, Arrow (`binlog/bytes/`, `changes/`)."""
