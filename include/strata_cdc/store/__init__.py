"""The SQL store: one database with the version table and the ledgers.
Not here: the meaning of what is stored (`schema/history/sql_store.py`, `pipeline/`)."""
