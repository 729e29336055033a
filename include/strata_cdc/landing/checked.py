"""Which indexes a landing has checked, and from which segment on the next landings look: years of history have
thousands, and a landing that finds nothing new needs the newest.
Not here: checking and repairing (`repair.py`), the landed stream (`landed.py`)."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.errors import DamagedFileError, LakeUnavailableError, StoreFormatError
from strata_cdc.files.storage import read_file
from strata_cdc.files.stored import decode_stored

if TYPE_CHECKING:
    from strata_cdc.files.storage import Folder

_LOG: Final = logging.getLogger("strata.land")
CHECKED: Final = "checked.json"
_CHECKED_FORMAT: Final = 2
"""Number of its form; 1, which had no number, can still be opened."""
NEWEST: Final = "newest.json"
_NEWEST_FORMAT: Final = 1
_REMEDY: Final = "Nothing depends on it."


class CheckedIndex(Struct, array_like=True, frozen=True):
    """An index that was checked and is correct."""

    size: int
    """Bytes of its file."""
    changed_at: int
    """Modification time of its file, by the storage's clock."""
    seen_at: int
    """When it was read, in seconds."""


class _CheckedIndexes(Struct, frozen=True):
    indexes: dict[str, CheckedIndex]
    """By segment."""
    format: int = _CHECKED_FORMAT


class NewestSegments(Struct, frozen=True):
    """From where on a landing looks until all segments are looked at again."""

    first: str
    """Name of a segment; those before it were whole when all were looked at."""
    looked_at: int
    """When all were, in seconds."""
    indexes: dict[str, CheckedIndex]
    """Those from there on, by segment."""
    oldest: str
    """Name of the first segment that there was."""
    format: int = _NEWEST_FORMAT


def read_checked(folder: Folder) -> dict[str, CheckedIndex]:
    """The indexes that were correct when all were looked at, by segment."""
    content = read_file(folder.join(CHECKED))
    if content is None:
        return {}
    former = {1: lambda text: _CheckedIndexes(msgspec.json.decode(text, type=dict[str, CheckedIndex]))}
    try:
        file = folder.join(CHECKED)
        return decode_stored(
            content, _CheckedIndexes, newest=_CHECKED_FORMAT, file=file, remedy=_REMEDY, former=former
        ).indexes
    except (DamagedFileError, StoreFormatError) as error:
        _LOG.warning("%s All indexes are checked again.", error)
        return {}


def write_checked(folder: Folder, indexes: dict[str, CheckedIndex]) -> None:
    """Stores them; that the storage refuses it costs the next landing time, and nothing else."""
    with suppress(LakeUnavailableError):
        folder.write(CHECKED, msgspec.json.encode(_CheckedIndexes(indexes)))


def read_newest(folder: Folder) -> NewestSegments | None:
    """From where on to look; None: from the beginning."""
    content = read_file(folder.join(NEWEST))
    if content is None:
        return None
    try:
        return decode_stored(content, NewestSegments, newest=_NEWEST_FORMAT, file=folder.join(NEWEST), remedy=_REMEDY)
    except (DamagedFileError, StoreFormatError) as error:
        _LOG.warning("%s All segments are looked at.", error)
        return None


def write_newest(folder: Folder, newest: NewestSegments) -> None:
    """As `write_checked`."""
    with suppress(LakeUnavailableError):
        folder.write(NEWEST, msgspec.json.encode(newest))
