"""What frozen values have in common, whatever room they are of.
Not here: the values, and reading what is stored (`files/stored.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from msgspec import Struct


def to_plain(value: Struct) -> dict[str, Any]:
    """A value with all that is in it as JSON has it: objects, lists, texts and numbers; enums as their values."""
    # `to_builtins` leaves tuples, which Airflow does not store as lists.
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return found
