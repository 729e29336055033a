"""The landed stream of a source: a server's binlog, or files, as segments with their indexes, and reading it again.
Not here: what a segment is (`binlog/bytes/segment.py`, `binlog/events/index.py`), deleting old ones
(`pipeline/housekeep/retain_landed.py`)."""
