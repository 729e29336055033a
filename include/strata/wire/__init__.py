"""Bytes: binlog files, frames, checksums, payloads, the replication client.
Not here: what an event means (`events/`)."""
