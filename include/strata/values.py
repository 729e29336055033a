"""What frozen values have in common, whatever room they are of.
Not here: the values, and forms that are stored and read again (`to_json` of each)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

if TYPE_CHECKING:
    from msgspec import Struct


def to_plain(value: Struct) -> dict[str, Any]:
    """A value with all that is in it as JSON has it: objects, lists, texts and numbers; enums as their values."""
    found: dict[str, Any] = to_builtins(value)
    return found
