"""The names in a landing folder as it is: some object stores list an object later than they give it by its name.
Not here: what is in the files (`landed.py`, `repair.py`).

A landing in an object store notes the name of each segment before it publishes it. A reader requests by their names
those noted ones that were not listed. On a disk a listing is exact, and nothing is noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.files.storage import read_file
from strata_cdc.files.stored import decode_stored

if TYPE_CHECKING:
    from strata_cdc.files.storage import Folder

RECENT: Final = "recent.json"
FORMAT: Final = 1
_MOST: Final = 100
"""Names that are noted, of 40 bytes; more segments than that are not published before a store lists the first."""


class _RecentSegments(Struct, frozen=True):
    segments: tuple[str, ...]
    """Ascending; the last one may not be published, nor ever be."""
    format: int = FORMAT


def note_segment(folder: Folder, name: SegmentName) -> None:
    """Notes a segment that will be published next; needs the lock of the landing.

    Raises:
        DamagedFileError: The file with the names is not as it was written.
        LakeUnavailableError: The storage refuses; the segment must not be published then.
    """
    if folder.is_local:
        return
    # Of another name with the same ordinal the segment was never published: else this one would come after it.
    others = [noted for noted in noted_segments(folder) if SegmentName.ordinal_of(noted) != name.ordinal]
    folder.write(RECENT, msgspec.json.encode(_RecentSegments(tuple(sorted([*others, str(name)]))[-_MOST:])))


def landed_names(folder: Folder, first: str = "", unfinished: list[str] | None = None) -> list[str]:
    """As `Folder.names_from`, with segments and indexes that are there although they are not listed, and without those
    that were deleted although they are listed.

    Raises:
        DamagedFileError: The file with the names is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    listed = set(folder.names_from(first, unfinished) if first else folder.names())
    if folder.is_local:
        return sorted(listed)
    if not first:
        _drop_deleted(folder, listed)
    # After the listing: then all that it has was noted.
    noted = noted_segments(folder)
    for at, name in enumerate(reversed(noted)):
        if name < first:
            break
        if name not in listed and not folder.exists(name):
            # The last one may never have been published; what is before another that is gone was deleted by age.
            if at:
                break
            continue
        listed |= {file for file in (name, f"{name}{SUFFIX}") if file in listed or folder.exists(file)}
    return sorted(listed)


def _drop_deleted(folder: Folder, listed: set[str]) -> None:
    """Leaves out segments that are listed and were deleted by age: the oldest of all."""
    for name in sorted(filter(SegmentName.is_one, listed)):
        if folder.exists(name):
            return
        listed -= {name, f"{name}{SUFFIX}"}


def noted_segments(folder: Folder) -> tuple[str, ...]:
    """The names that were noted, ascending; none in a folder in which an older version of Strata has landed.

    Raises:
        DamagedFileError: The file with the names is not as it was written.
        StoreFormatError: A newer version of Strata wrote it.
        LakeUnavailableError: The storage does not answer.
    """
    content = read_file(folder.join(RECENT))
    if content is None:
        return ()
    remedy = "Delete it: the next landing writes it anew."
    return decode_stored(content, _RecentSegments, newest=FORMAT, file=folder.join(RECENT), remedy=remedy).segments
