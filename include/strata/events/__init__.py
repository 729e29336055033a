"""Typed events, transactions and the transaction index.
Not here: bytes and sockets (`wire/`), columns of rows (`rows/`)."""
