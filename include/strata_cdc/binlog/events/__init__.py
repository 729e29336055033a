"""Typed events, transactions and the transaction index.
Not here: bytes and sockets (`binlog/bytes/`), columns of rows (`changes/`)."""
