"""Bytes of binlog files and landed segments: frames, checksums, payloads.
Not here: what an event means (`binlog/events/`), servers (`binlog/protocol/`)."""
