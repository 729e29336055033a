"""Compiled loops over bytes. They handle only numbers, and report by status codes.
Not here: errors, names, Arrow (`binlog/bytes/`, `changes/`)."""
