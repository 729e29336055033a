"""Updates the mirrors of a source to what is published of their tables.
Not here: the update of one mirror (`follow.py`), what is published (`published.py`), the settings
(`pipeline/ingest.py`)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.counted import counted
from strata_cdc.errors import (
    AlreadyRunningError,
    ErrorFacts,
    LakeUnavailableError,
    LostTableError,
    MirrorDivergedError,
    StrataError,
)
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.current import ConfirmedPosition, confirm
from strata_cdc.mirrors.follow.blocked import blocked_by
from strata_cdc.mirrors.follow.follow import Follower
from strata_cdc.mirrors.follow.followed import BlockReason, FollowedSource, MirrorProgress
from strata_cdc.mirrors.follow.published import PublishedSource
from strata_cdc.mirrors.follow.schema_events import SchemaEvents
from strata_cdc.mirrors.layout import mirrored_tables
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.store.own import own_database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.mirrors.lock import MirrorLocks
    from strata_cdc.mirrors.modes import Mode
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.mirrors.renames import Renames
    from strata_cdc.schema.model.definition import TableName

    _Updated = tuple["MirrorOutcome | None", ConfirmedPosition | None]

_AT_ONCE: Final = 4
"""Tables at most, if there are as many cores. With more, each would have too little memory for its keys."""


class MirrorOutcome(Struct, frozen=True):
    """What happened to one table's mirror."""

    table: str
    """`database.table`."""
    delta_version: int | None = None
    """Version of its Delta table; None if there is no mirror."""
    rows: int = 0
    position: MirrorPosition | None = None
    """The position up to which it equals the table."""
    commits: int = 0
    dropped: bool = False
    """Whether the table no longer exists on the server: the mirror stays in its last state."""
    behind: str | None = None
    """Why it is not at the position of the others."""
    needs_dump: bool = False
    """Whether a dump of the table ends that."""
    error: ErrorFacts | None = None
    """What is wrong with it; None if it only waits."""


class MirrorSums(Struct, frozen=True):
    """The numbers of a report, and which mirrors are blocked, small enough for XCom."""

    source: str
    mirrors: int
    commits: int
    behind: tuple[str, ...]
    """Tables, and the reason of each."""


class MirrorReport(Struct, frozen=True):
    """What an update did with the mirrors of a source."""

    source: str
    outcomes: Mapping[TableName, MirrorOutcome]
    without: tuple[TableName, ...] = ()
    """Tables that were examined and correctly have no mirror: they were gone before a mirror was made."""

    @property
    def mirrors(self) -> tuple[MirrorOutcome, ...]:
        """What happened to each."""
        return tuple(self.outcomes.values())

    @property
    def behind(self) -> tuple[MirrorOutcome, ...]:
        """The mirrors that have not reached the position that they should."""
        return tuple(mirror for mirror in self.mirrors if mirror.behind)

    def sums(self) -> MirrorSums:
        """The numbers."""
        reasons = tuple(f"{waiting.table}: {waiting.behind}" for waiting in self.behind)
        return MirrorSums(self.source, len(self.mirrors), sum(mirror.commits for mirror in self.mirrors), reasons)

    @property
    def wrong(self) -> tuple[ErrorFacts, ...]:
        """What is wrong with those that do not only wait."""
        return tuple(mirror.error for mirror in self.mirrors if mirror.error)

    def raise_if_wrong(self) -> None:
        """Raises an error if a mirror contradicts the changes: it must not be mistaken for one that only waits.

        Raises:
            MirrorDivergedError: A mirror does.
        """
        raise_first(self.source, self.wrong)


def raise_first(source: str, wrong: Sequence[ErrorFacts]) -> None:
    """Raises what is wrong with the first of some mirrors, with the number of the others.

    Raises:
        MirrorDivergedError: There is such a mirror.
    """
    if wrong:
        first = wrong[0]
        others = f", and {counted(len(wrong) - 1, 'other mirror')}" if len(wrong) > 1 else ""
        raise MirrorDivergedError(
            f"{first.message}{others}", source=source, table=first.table, file=first.file, remedy=first.remedy
        )


def update_mirrors(
    lake: str,
    source: str,
    engine: sa.Engine,
    wanted: Callable[[TableName], bool],
    *,
    mode: Mode,
    locks: MirrorLocks,
    renames: Callable[[TableName], Renames],
    limits: MirrorLimits = MirrorLimits(),
) -> MirrorReport:
    """Applies what is published, and the effects of DDL, to the mirrors of a source; makes mirrors that need no dump.

    It is safe to repeat this, to kill it at any point, and to run it twice at once or during maintenance. An error in
    one table stops no other. Tables with only changes of rows are updated several at once, on as many cores. The others
    follow one by one, because rows may move from one table to another.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        engine: The source's store.
        wanted: Which tables have mirrors.
        mode: How new ones take changes.
        locks: Those of the source's mirrors.
        renames: What happens to the columns of a table that get another name.
        limits: How large their files and commits become.

    Raises:
        LakeUnavailableError: The storage does not answer.
        LostTableError: A part of a change table was deleted; all other mirrors are updated.
        StoreUnavailableError: The database does not answer.
    """
    stream = LandedStream.open(lake, source)
    schema_events = SchemaEvents(engine, source)
    published = PublishedSource(engine, source, stream)
    followed = FollowedSource(lake, lake, source, schema_events, published, mode, locks, renames, limits)
    follower, updates = Follower(followed), _TableUpdates(followed)
    others = SYSTEM_DATABASES | own_database(engine, stream.servers())
    tables = [table for table in schema_events.tables() if table.database not in others and wanted(table)]
    outcomes: dict[TableName, MirrorOutcome] = {}
    confirmed, without = {}, []
    done = _by_changes(follower, updates, tables)
    for table in tables:
        outcome, current = done.get(table) or updates.update(follower.follow, table) or (None, None)
        if outcome is None:
            without.append(table)
        else:
            outcomes[table] = outcome
        if current is not None:
            confirmed[str(table)] = current
    confirm(lake, source, confirmed)
    updates.raise_if_refused()
    return MirrorReport(source, outcomes, tuple(without))


def _by_changes(follower: Follower, updates: _TableUpdates, tables: Sequence[TableName]) -> dict[TableName, _Updated]:
    """Updates those with only changes of rows, several at once; raises the first error that ends all updates."""
    at_once = min(_AT_ONCE, os.cpu_count() or 1, len(tables))
    if at_once < 2:
        return {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="mirror") as pool:
        follow = partial(follower.follow_changes, at_once=at_once)
        running = [(table, pool.submit(updates.update, follow, table)) for table in tables]
        try:
            outcomes = [(table, future.result()) for table, future in running]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return {table: progress for table, progress in outcomes if progress is not None}


class _TableUpdates:
    """The mirrors of a source, each updated whatever happens to the others; several threads may use it."""

    def __init__(self, followed: FollowedSource) -> None:
        self._followed = followed
        self._refused: list[StrataError] = []

    def update(self, follow: Callable[[TableName], MirrorProgress | None], table: TableName) -> _Updated | None:
        """What happened to one mirror; None if it must be updated in another way.

        Raises:
            LakeUnavailableError: The storage does not answer for any table.
            StoreUnavailableError: The database does not answer.
        """
        try:
            progress = follow(table)
        except AlreadyRunningError as error:
            progress = MirrorProgress(None, blocked=BlockReason(error.message))
        except (LakeUnavailableError, LostTableError) as error:
            mirrored_tables(self._followed.lake, self._followed.source)
            self._refused.append(error.located(source=self._followed.source, table=str(table)))
            progress = MirrorProgress(None, blocked=BlockReason(error.message))
        except Exception as error:  # noqa: BLE001  one table's error must stop no other
            is_there = self._followed.schema_events.is_there(table)
            progress = MirrorProgress(None, blocked=replace(blocked_by(error, table), needs_dump=is_there))
        if progress is None:
            return None
        if progress.mirror is None and progress.blocked is None:
            return None, None
        return _outcome(table, progress), _confirmed(progress)

    def raise_if_refused(self) -> None:
        """Raises the first table's error if the storage refused its files or has lost them; call it after all updates.

        Raises:
            LakeUnavailableError: The storage refused files.
            LostTableError: A part of its change table was deleted.
        """
        if self._refused:
            raise min(self._refused, key=lambda error: error.table or "")


def _outcome(table: TableName, progress: MirrorProgress) -> MirrorOutcome:
    mirror, blocked, outcome = progress.mirror, progress.blocked, MirrorOutcome(str(table))
    if blocked is not None:
        outcome = replace(outcome, behind=blocked.text, needs_dump=blocked.needs_dump, error=blocked.error)
    if mirror is None:
        return outcome
    return replace(
        outcome,
        delta_version=mirror.snapshot.version,
        rows=mirror.snapshot.live_rows,
        position=progress.reached or mirror.position,
        commits=progress.commits,
        dropped=mirror.is_dropped,
    )


def _confirmed(progress: MirrorProgress) -> ConfirmedPosition | None:
    mirror, reached = progress.mirror, progress.reached
    if mirror is None or reached is None or reached.seq <= mirror.position.seq:
        return None
    return ConfirmedPosition(mirror.snapshot.version, mirror.identity, reached)
