"""Ordinals: numbers of transactions in a stream, of statements and rows in a transaction.
Not here: positions that servers know (`port.py`)."""

from __future__ import annotations

from typing import Final

AFTER_ALL: Final = 1 << 62
"""After every transaction, and in a transaction after every statement and row."""
