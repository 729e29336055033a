"""Stored values: the JSON of a Struct with the number of its form, decoded with its type.
Not here: what is stored (each package has its own Structs), files and folders (`storage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from strata_cdc.errors import DamagedFileError, StoreFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Found = TypeVar("Found")


class _FormatNumber(Struct):
    format: int = 1


def decode_stored(
    content: bytes,
    kind: type[Found],
    *,
    newest: int,
    file: str,
    remedy: str,
    former: Mapping[int, Callable[[bytes], Found]] | None = None,
) -> Found:
    """Reads a stored value, in any form so far.

    Args:
        content: What was stored; no number in it means form 1.
        kind: The Struct. It reads the newest form, and each older form that `former` does not name.
        newest: The form that this version writes.
        file: Path or URL, for errors.
        remedy: How to make the file again.
        former: Readers of older forms that are different.

    Raises:
        DamagedFileError: It is incomplete, or has another form; the message has the path of the wrong value.
        StoreFormatError: A newer version of Strata wrote it.
    """
    try:
        number = msgspec.json.decode(content, type=_FormatNumber).format
        if number > newest:
            raise StoreFormatError(
                f"the file has format {number}, this version reads up to {newest}",
                file=file,
                remedy="Install the version of Strata that wrote it, or a newer one.",
            )
        if former and number in former:
            return former[number](content)
        return msgspec.json.decode(content, type=kind)
    # Deep nesting raises a RecursionError.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(
            f"the file has been changed since it was written: {error}", file=file, remedy=remedy
        ) from None


def take_stored(value: Any, kind: type[Found], *, newest: int, file: str, remedy: str) -> Found:
    """As `decode_stored`, for a value that another program has stored and decoded: an XCom, an event of Airflow.

    Args:
        value: Plain JSON: objects, lists, texts and numbers.
        kind: As in `decode_stored`, like the other arguments.
        newest: The form that this version writes.
        file: What it is, for errors.
        remedy: How to make it again.

    Raises:
        DamagedFileError: It has another form; the message has the path of the wrong value.
        StoreFormatError: A newer version of Strata wrote it.
    """
    return decode_stored(msgspec.json.encode(value), kind, newest=newest, file=file, remedy=remedy)
