"""The mirrors of a source listed, compacted and vacuumed.
Not here: changes of their rows (`update_mirrors.py`), the work on one (`mirrors/compact.py`)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.counted import counted
from strata_cdc.errors import AlreadyRunningError, BadData, Usage
from strata_cdc.mirrors.compact import RETAIN_HOURS, CompactionResult, compact, doomed_files, wear_of, with_log_cut
from strata_cdc.mirrors.current import position_now
from strata_cdc.mirrors.follow.blocked import blocked_by
from strata_cdc.mirrors.layout import mirror_url, mirrored_tables
from strata_cdc.mirrors.table import Mirror
from strata_cdc.tables.port import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.mirrors.compact import VacuumResult
    from strata_cdc.mirrors.lock import MirrorLocks
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.schema.model.definition import TableName

_LOG: Final = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = 0.2
"""Between two steps of a compaction: processes that wait for the lock come first."""


class ListedMirror(Struct, frozen=True):
    """A mirror as it is."""

    table: str
    url: str
    rows: int = 0
    files: int = 0
    delta_version: int | None = None
    """None if the mirror cannot be opened."""
    position: MirrorPosition | None = None
    """The position up to which it equals the table."""
    mode: str = ""
    dropped: bool = False
    stopped: str | None = None
    """Why it is blocked."""
    changed_by_others: tuple[int, ...] = ()
    """Delta versions by other programs since Strata's last commit."""
    error: str | None = None
    """Why it cannot be opened."""


class KeptUp(Struct, frozen=True):
    """What was done to one mirror's files."""

    table: str
    compacted: CompactionResult | None = None
    vacuumed: VacuumResult | None = None
    left: str | None = None
    """Why nothing was done: another process writes to the mirror, or it is not complete."""

    def summary(self) -> str | None:
        """The result in words; None if there was nothing to do."""
        if self.left is not None:
            return f"left as it is: {self.left}"
        if self.compacted is not None and self.compacted.files_before != self.compacted.files_after:
            made = counted(self.compacted.files_before, "file")
            return f"{made} made {self.compacted.files_after}, {counted(self.compacted.rows_rewritten, 'row')} written"
        if self.vacuumed is not None and self.vacuumed.files:
            return f"deleted {counted(self.vacuumed.files, 'file')} that no state needs which is still kept"
        return None

    @property
    def line(self) -> str:
        """The table and the result."""
        return f"{self.table}: {self.summary()}"


class CompactionDue(Struct, frozen=True):
    """From which state on a mirror is compacted automatically."""

    small_files: int
    dead_percent: int

    def is_reached(self, mirror: Mirror) -> bool:
        """Whether a mirror has so many small files, or so large a share of dead rows."""
        wear = wear_of(mirror)
        return wear.small_files >= self.small_files or wear.dead_rows * 100 > wear.rows * self.dead_percent


def list_mirrors(lake: str, source: str, wanted: Callable[[TableName], bool]) -> list[ListedMirror]:
    """The mirrors of a source, by name."""
    return [
        _listed(lake, opened) if isinstance(opened, Mirror) else _unopened(lake, source, table, opened)
        for table, opened in _opened(lake, source, wanted)
    ]


def _listed(lake: str, mirror: Mirror) -> ListedMirror:
    return ListedMirror(
        table=str(mirror.table),
        url=mirror.url,
        rows=mirror.snapshot.live_rows,
        files=len(mirror.snapshot.files),
        delta_version=mirror.snapshot.version,
        position=position_now(lake, mirror),
        mode=mirror.mode.value,
        dropped=mirror.is_dropped,
        stopped=mirror.stopped,
        changed_by_others=tuple(commit.version for commit in mirror.snapshot.foreign),
    )


def _unopened(lake: str, source: str, table: TableName, error: BadData) -> ListedMirror:
    message = " ".join(filter(None, (f"{error.message};" if error.remedy else error.message, error.remedy)))
    return ListedMirror(str(table), mirror_url(lake, source, table), error=message)


def mirrored(lake: str, source: str, wanted: Callable[[TableName], bool]) -> frozenset[TableName]:
    """The tables of a source that have a mirror and were not dropped.

    Raises:
        Usage: There is no such table.
        DamagedFileError: A mirror is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    mirrors = [_whole(mirror) for _, mirror in _opened(lake, source, wanted)]
    names = frozenset(mirror.table for mirror in mirrors if not mirror.is_dropped)
    if not names:
        raise Usage("there is no such mirror", source=source, remedy="`strata mirror list` lists those that there are.")
    return names


def compact_mirrors(
    lake: str, source: str, wanted: Callable[[TableName], bool], *, locks: MirrorLocks, due: CompactionDue | None = None
) -> list[KeptUp]:
    """Makes whole files of small and half-dead ones; changes no row.

    Each step holds the mirror's lock for the rows of one file. An error in one mirror stops no other.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        wanted: Which tables.
        locks: Those of the source's mirrors.
        due: Only mirrors that have reached this state; None for all.
    """
    return [
        _kept(table, opened, lambda mirror: _compacted(mirror, locks))
        for table, opened in _opened(lake, source, wanted)
        if not isinstance(opened, Mirror) or (not opened.is_dropped and (due is None or due.is_reached(opened)))
    ]


def vacuum_mirrors(
    lake: str,
    source: str,
    wanted: Callable[[TableName], bool],
    *,
    locks: MirrorLocks,
    now_micros: int,
    retain_hours: int = RETAIN_HOURS,
) -> list[KeptUp]:
    """Deletes the files that are needed only by versions that are too old. An error in one mirror stops no other."""

    def vacuumed(mirror: Mirror) -> KeptUp:
        with locks.alone(mirror.table, purpose="vacuuming this mirror"):
            doomed = doomed_files(mirror, now_micros=now_micros, retain_hours=retain_hours)
        done = doomed.delete()
        with locks.alone(mirror.table, purpose="cutting the log of this mirror"):
            done = with_log_cut(mirror, done, now_micros=now_micros)
        return KeptUp(str(mirror.table), vacuumed=done)

    return [_kept(table, opened, vacuumed) for table, opened in _opened(lake, source, wanted)]


def planned_upkeep(
    lake: str, source: str, due: CompactionDue, *, now_micros: int, retain_hours: int = RETAIN_HOURS
) -> Iterator[str]:
    """What `compact_mirrors` and `vacuum_mirrors` would do, a line for each; nothing is changed, and no lock is taken:
    a process that writes to a mirror now may have a part in it."""
    for table, opened in _opened(lake, source, lambda _: True):
        if not isinstance(opened, Mirror):
            yield f"{table}: would be left as it is: {opened.message}"
            continue
        if not opened.is_dropped and due.is_reached(opened):
            yield f"{table}: {counted(len(opened.snapshot.files), 'file')} would be compacted"
        doomed = len(doomed_files(opened, now_micros=now_micros, retain_hours=retain_hours).urls)
        if doomed:
            yield f"{table}: would delete {counted(doomed, 'file')} that no state needs which is still kept"


def _compacted(mirror: Mirror, locks: MirrorLocks) -> KeptUp:
    before, rewritten = len(mirror.snapshot.files), 0
    while True:
        with locks.alone(mirror.table, purpose="compacting this mirror"):
            mirror, step = compact(mirror)
        rewritten += step.rows_rewritten
        wear = wear_of(mirror)
        is_stuck = step.files_after >= step.files_before and not wear.dead_files
        if is_stuck or not (wear.small_files or wear.dead_files):
            return KeptUp(str(mirror.table), compacted=CompactionResult(before, len(mirror.snapshot.files), rewritten))
        time.sleep(_PAUSE_SECONDS)


def _kept(table: TableName, opened: Mirror | BadData, work: Callable[[Mirror], KeptUp]) -> KeptUp:
    try:
        done = work(_whole(opened))
    except CommitConflictError:
        done = KeptUp(str(table), left="others kept committing first")
    except AlreadyRunningError as error:
        done = KeptUp(str(table), left=error.message)
    except Exception as error:  # noqa: BLE001  one table's error must stop no other
        done = KeptUp(str(table), left=blocked_by(error, table).reason)
    line = done.summary()
    if line is not None:
        _LOG.log(logging.INFO if done.left is None else logging.WARNING, "mirror of %s: %s", done.table, line)
    return done


def _whole(opened: Mirror | BadData) -> Mirror:
    if isinstance(opened, Mirror):
        return opened
    raise opened


def _opened(
    lake: str, source: str, wanted: Callable[[TableName], bool]
) -> Iterator[tuple[TableName, Mirror | BadData]]:
    """The mirrors of some tables, or the error with which one cannot be opened."""
    for table in mirrored_tables(lake, source):
        if wanted(table):
            try:
                mirror = Mirror.open(lake, source, table)
            except BadData as error:
                yield table, error
            except Exception as error:  # noqa: BLE001  as in `_kept`
                yield table, BadData(blocked_by(error, table).reason)
            else:
                if mirror is not None:
                    yield table, mirror
