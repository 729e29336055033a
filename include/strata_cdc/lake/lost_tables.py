"""The change tables of a source that lack what the store calls published: looked for after a run, and by status and
doctor. Code that writes to a table, or reads it for a mirror, checks that table itself.
Not here: one table's look (`tables/lost.py`), a lake that is another one as a whole (`known_lake.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.clock import now_micros
from strata_cdc.counted import counted
from strata_cdc.errors import DamagedFileError, LostTableError, StoreFormatError
from strata_cdc.files.storage import read_file
from strata_cdc.files.stored import decode_stored
from strata_cdc.landing.landed import landing_folder
from strata_cdc.tables.lost import find_lost, newest_commits

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.errors import ErrorFacts


def lost_tables(source: Source, engine: sa.Engine) -> tuple[ErrorFacts, ...]:
    """What is wrong with each of them."""
    return tuple(error.facts() for error in find_lost(source.lake, source.name, newest_commits(source.name, engine)))


SEEN: Final = "tables_seen.json"
"""Beside the landed segments: when all tables were there."""
_FORMAT: Final = 1
_HOUR_MICROS: Final = 3_600_000_000


class _LastLook(Struct, frozen=True):
    at: int
    """Microseconds UTC."""
    format: int = _FORMAT


def lost_tables_if_due(source: Source, engine: sa.Engine, *, most: int = 100) -> tuple[ErrorFacts, ...]:
    """The same, at the end of a run; of a source with thousands of tables once an hour, since a file of each is looked
    for. Nothing is written to a lost table, or read from it, in between.

    Args:
        source: The source.
        engine: Its store.
        most: With so many tables at most, all are looked at by each run.
    """
    folder, now = landing_folder(source.lake, source.name), now_micros()
    if 0 <= now - _seen_at(folder.join(SEEN)) < _HOUR_MICROS:
        return ()
    known = newest_commits(source.name, engine)
    lost = tuple(error.facts() for error in find_lost(source.lake, source.name, known))
    if not lost and len(known) > most:
        folder.write(SEEN, msgspec.json.encode(_LastLook(now)))
    return lost


def _seen_at(url: str) -> int:
    content = read_file(url)
    if content is None:
        return 0
    try:
        return decode_stored(content, _LastLook, newest=_FORMAT, file=url, remedy="Nothing depends on it.").at
    except (DamagedFileError, StoreFormatError):
        return 0


def raise_if_lost(lost: Sequence[ErrorFacts]) -> None:
    """Fails if tables have lost something, so that what is left of them is not taken for all.

    Raises:
        LostTableError: There is such a table.
    """
    if lost:
        first = lost[0]
        others = f", and {counted(len(lost) - 1, 'other table')}" if len(lost) > 1 else ""
        raise LostTableError(f"{first.message}{others}", source=first.source, table=first.table, remedy=first.remedy)
