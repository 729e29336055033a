"""Connections to a server: SQL sessions, the replication protocol, and what a server says of itself.
Not here: the bytes of binlog files (`binlog/bytes/`)."""
