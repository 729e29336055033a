"""Brings the mirrors of a source up to what is published of their tables.
Not here: one mirror's way (`follow.py`), what is published (`published.py`), the settings (`jobs/ingest.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata.counted import counted
from strata.errors import ErrorFacts, MirrorDivergedError, StrataError
from strata.events.landed import LandedStream
from strata.jobs.mirror.follow import Followed, Follower
from strata.jobs.mirror.happenings import Happenings
from strata.jobs.mirror.published import Published
from strata.mirrors.current import Confirmed, confirm
from strata.mirrors.modes import Mode
from strata.schema.history.versions import SYSTEM_DATABASES
from strata.store.own import own_database

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from strata.mirrors.position import MirrorPosition
    from strata.schema.model.definition import TableName


class MirrorOutcome(Struct, frozen=True):
    """What became of one table's mirror."""

    table: str
    """`database.table`."""
    delta_version: int | None = None
    """Of its table; None if there is no mirror."""
    rows: int = 0
    position: MirrorPosition | None = None
    """Up to where it equals the table."""
    commits: int = 0
    dropped: bool = False
    """Whether the table is gone from the server: the mirror stays as it was last."""
    behind: str | None = None
    """Why it is not where the others are."""
    error: ErrorFacts | None = None
    """What went wrong."""


class MirrorSums(Struct, frozen=True):
    """The numbers of a report, and what stands, small enough for XCom."""

    source: str
    mirrors: int
    commits: int
    behind: tuple[str, ...]
    """Tables and why."""


class MirrorReport(Struct, frozen=True):
    """What a step made of the mirrors of a source."""

    source: str
    mirrors: tuple[MirrorOutcome, ...]

    @property
    def behind(self) -> tuple[MirrorOutcome, ...]:
        """Those that are not where they should be."""
        return tuple(one for one in self.mirrors if one.behind or one.error)

    def sums(self) -> MirrorSums:
        """The numbers."""
        told = tuple(f"{one.table}: {one.error.message if one.error else one.behind}" for one in self.behind)
        return MirrorSums(self.source, len(self.mirrors), sum(one.commits for one in self.mirrors), told)

    def raise_if_wrong(self) -> None:
        """Lets nobody take a mirror that contradicts the changes for one that only waits.

        Raises:
            MirrorDivergedError: One does.
        """
        wrong = [one for one in self.mirrors if one.error]
        if wrong and wrong[0].error:
            others = f", and {counted(len(wrong) - 1, 'other mirror')}" if len(wrong) > 1 else ""
            first = wrong[0].error
            raise MirrorDivergedError(
                f"{first.message}{others}", source=self.source, table=wrong[0].table, remedy=first.remedy
            )


def update_mirrors(
    lake: str,
    source: str,
    engine: sa.Engine,
    wanted: Callable[[TableName], bool],
    *,
    mode: Mode = Mode.DELETION_VECTORS,
) -> MirrorReport:
    """Applies what is published, and the effects of DDL, to the mirrors of a source; makes those that need no dump.

    Safe to repeat, to be killed anywhere, and to run beside itself. One table's trouble holds no other.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        engine: The source's store.
        wanted: Which tables have mirrors.
        mode: How new ones take changes.

    Raises:
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The database does not answer.
    """
    stream = LandedStream.open(lake, source)
    happenings = Happenings(engine, source)
    follower = Follower(lake, source, happenings, Published(engine, source, stream), mode)
    others = SYSTEM_DATABASES | own_database(engine, stream.servers())
    tables = [table for table in happenings.tables() if table.database not in others and wanted(table)]
    outcomes, confirmed = [], {}
    for table in tables:
        outcome, current = _update(follower, table)
        if outcome is not None:
            outcomes.append(outcome)
        if current is not None:
            confirmed[str(table)] = current
    confirm(lake, source, confirmed)
    return MirrorReport(source, tuple(outcomes))


def _update(follower: Follower, table: TableName) -> tuple[MirrorOutcome | None, Confirmed | None]:
    try:
        found = follower.follow(table)
    except StrataError as error:
        if error.exit_code != 1:
            raise
        return MirrorOutcome(str(table), error=error.facts()), None
    if found.mirror is None and found.behind is None:
        return None, None
    return _outcome(table, found), _confirmed(found)


def _outcome(table: TableName, found: Followed) -> MirrorOutcome:
    mirror = found.mirror
    if mirror is None:
        return MirrorOutcome(str(table), behind=found.behind)
    return MirrorOutcome(
        table=str(table),
        delta_version=mirror.snapshot.version,
        rows=mirror.snapshot.live_rows,
        position=found.reached or mirror.position,
        commits=found.commits,
        dropped=mirror.is_dropped,
        behind=found.behind,
    )


def _confirmed(found: Followed) -> Confirmed | None:
    mirror, reached = found.mirror, found.reached
    if mirror is None or reached is None or reached.seq <= mirror.position.seq:
        return None
    return Confirmed(mirror.snapshot.version, mirror.identity, reached)
