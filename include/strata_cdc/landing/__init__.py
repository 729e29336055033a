"""The landed stream of a source: a server's binlog, or files, as segments with their indexes, and how it is read.
Not here: what a segment is (`binlog/bytes/segment.py`, `binlog/events/index.py`), deleting old ones
(`pipeline/housekeep/retain_landed.py`)."""
