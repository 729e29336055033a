"""Connections to a server: SQL sessions, the replication protocol, and a server's own state.
Not here: the bytes of binlog files (`binlog/bytes/`)."""
