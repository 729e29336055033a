"""Functions for frozen values of all packages.
Not here: the values, and reading stored values (`files/stored.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from msgspec import Struct


def to_plain(value: Struct) -> dict[str, Any]:
    """A value with all its content as JSON types: objects, lists, texts and numbers; enums as their values."""
    # `to_builtins` keeps tuples, which Airflow does not store as lists.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return plain
