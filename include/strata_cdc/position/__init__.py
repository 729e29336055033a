"""GTID sets, binlog positions and commit time: values and their order.
Not here: reading them from events (`binlog/events/`), storing them (`schema/history/sql_store.py`)."""
