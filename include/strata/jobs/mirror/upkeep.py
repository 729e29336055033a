"""The mirrors of a source listed, compacted and vacuumed.
Not here: changes of their rows (`update_mirrors.py`), the work on one (`mirrors/compact.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata.errors import Usage
from strata.mirrors.compact import RETAIN_HOURS, compact, vacuum
from strata.mirrors.current import position_now
from strata.mirrors.layout import mirrored_tables
from strata.mirrors.table import Mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata.mirrors.compact import Compacted, Vacuumed
    from strata.mirrors.position import MirrorPosition
    from strata.schema.model.definition import TableName


class ListedMirror(Struct, frozen=True):
    """A mirror as it is."""

    table: str
    url: str
    rows: int
    files: int
    delta_version: int
    position: MirrorPosition
    """Up to where it equals the table."""
    mode: str
    dropped: bool
    stopped: str | None
    """Why it cannot go on."""
    changed_by_others: tuple[int, ...]
    """Delta versions that other programs have made since."""


class KeptUp(Struct, frozen=True):
    """What was done to one mirror's files."""

    table: str
    compacted: Compacted | None = None
    vacuumed: Vacuumed | None = None


def list_mirrors(lake: str, source: str, wanted: Callable[[TableName], bool]) -> list[ListedMirror]:
    """The mirrors of a source, by name.

    Raises:
        DamagedFileError: One is not whole.
        LakeUnavailableError: The storage does not answer.
    """
    return [
        ListedMirror(
            table=str(mirror.table),
            url=mirror.url,
            rows=mirror.snapshot.live_rows,
            files=len(mirror.snapshot.files),
            delta_version=mirror.snapshot.version,
            position=position_now(lake, mirror),
            mode=mirror.mode.value,
            dropped=mirror.is_dropped,
            stopped=mirror.stopped,
            changed_by_others=tuple(one.version for one in mirror.snapshot.foreign),
        )
        for mirror in _mirrors(lake, source, wanted)
    ]


def mirrored(lake: str, source: str, wanted: Callable[[TableName], bool]) -> frozenset[TableName]:
    """The tables of a source that have a mirror and were not dropped.

    Raises:
        Usage: There is none.
        LakeUnavailableError: The storage does not answer.
    """
    found = frozenset(mirror.table for mirror in _mirrors(lake, source, wanted) if not mirror.is_dropped)
    if not found:
        raise Usage("there is no such mirror", source=source, remedy="`strata mirror list` lists those that there are.")
    return found


def compact_mirrors(lake: str, source: str, wanted: Callable[[TableName], bool]) -> list[KeptUp]:
    """Makes whole files of small and half-dead ones; changes no row.

    Raises:
        MirrorDivergedError: Another program has changed the rows of one.
        LakeUnavailableError: The storage does not answer.
    """
    return [
        KeptUp(str(mirror.table), compacted=compact(mirror)[1])
        for mirror in _mirrors(lake, source, wanted)
        if not mirror.is_dropped
    ]


def vacuum_mirrors(
    lake: str,
    source: str,
    wanted: Callable[[TableName], bool],
    *,
    now_micros: int,
    retain_hours: int = RETAIN_HOURS,
) -> list[KeptUp]:
    """Deletes files that no version needs which is younger than some hours.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    return [
        KeptUp(str(mirror.table), vacuumed=vacuum(mirror, now_micros=now_micros, retain_hours=retain_hours))
        for mirror in _mirrors(lake, source, wanted)
    ]


def _mirrors(lake: str, source: str, wanted: Callable[[TableName], bool]) -> Iterator[Mirror]:
    for table in mirrored_tables(lake, source):
        mirror = Mirror.open(lake, source, table) if wanted(table) else None
        if mirror is not None:
            yield mirror
