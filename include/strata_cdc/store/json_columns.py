"""JSON in columns of the store, read by its type. A value without a number is of form 1.
Not here: the columns (`tables.py`), the values (the packages that store them)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from strata_cdc.files.stored import decode_stored

if TYPE_CHECKING:
    from msgspec import Struct

    Found = TypeVar("Found", bound=Struct)


def to_column(value: Struct) -> str:
    """The stored text of a value."""
    return msgspec.json.encode(value).decode()


def from_column(text: str, kind: type[Found], column: str) -> Found:
    """The inverse of `to_column`.

    Args:
        text: The row's text.
        kind: Type of the value.
        column: `table.column`, for errors.

    Raises:
        DamagedFileError: The text has another form; the message has the path of the wrong value.
        StoreFormatError: A newer version of Strata wrote it.
    """
    remedy = "The store was changed by hand, or is damaged: restore it from a backup."
    return decode_stored(text.encode(), kind, newest=1, file=column, remedy=remedy)
