"""One table's mirror on its way through the stream: changes, then what happens, then changes.
Not here: the tables of a source (`update_mirrors.py`), what a DDL does to a mirror (`mirrors/turn.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata.errors import AlreadyRunningError
from strata.mirrors.apply import Applier
from strata.mirrors.changes import PublishedChanges, Span
from strata.mirrors.table import Mirror
from strata.mirrors.turn import CannotFollowError, altered, converted_rows, emptied, put_rows, refuse_unknown
from strata.schema.history.effects import EffectKind
from strata.tables.port import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from strata.jobs.mirror.happenings import Happening, Happenings, Order
    from strata.jobs.mirror.published import Published
    from strata.mirrors.modes import Mode
    from strata.mirrors.position import MirrorPosition
    from strata.schema.history.turns import Turn
    from strata.schema.model.definition import TableName


_ATTEMPTS: Final = 5


class Followed(Struct, frozen=True):
    """Where a table's mirror has come to."""

    mirror: Mirror | None
    reached: MirrorPosition | None = None
    """Up to where it equals the table; None if it stands in front of something."""
    commits: int = 0
    behind: str | None = None
    """Why it goes no further, or why there is none."""


class Follower:
    """The mirrors of a source.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        happenings: What happens to its tables.
        published: How far their changes are published.
        mode: How new mirrors take changes.
    """

    def __init__(self, lake: str, source: str, happenings: Happenings, published: Published, mode: Mode) -> None:
        self.lake = lake
        self.source = source
        self.happenings = happenings
        self.published = published
        self.mode = mode

    def follow(self, table: TableName, until: Order | None = None) -> Followed:
        """Brings the mirror of a table as far as it can be brought, or only to what happens at `until`.

        Raises:
            MirrorDivergedError: The changes do not fit the rows.
            DamagedFileError: The mirror is not whole.
            LakeUnavailableError: The storage does not answer.
        """
        for _ in range(_ATTEMPTS):
            try:
                return _Way(self, table, until).go()
            except (_OvertakenError, CommitConflictError):
                continue
        raise AlreadyRunningError(
            "others kept changing the mirror at the same time", source=self.source, table=str(table)
        )


class _NotYetError(Exception):
    """What comes next has to wait until more is published; the message says what."""


class _OvertakenError(Exception):
    """Another applier has brought the mirror past where this one was."""


class _Way:
    """One table."""

    def __init__(self, follower: Follower, table: TableName, until: Order | None) -> None:
        self._all = follower
        self._table = table
        self._until = until
        self._mirror = Mirror.open(follower.lake, follower.source, table)
        self._applier = None if self._mirror is None else Applier(self._mirror)
        self._turn: Turn | None = None
        self._lost: str | None = None
        self._commits = 0
        self._changes: PublishedChanges | None = None

    def go(self) -> Followed:
        self._lost = self._all.happenings.unlogged(self._table)
        for one in self._pending() if self._lost is None else ():
            if self._until is not None and one.order >= self._until:
                break
            if not self._can_reach(one):
                break
            try:
                self._happen(one)
            except _NotYetError as error:
                return Followed(self._mirror, None, self._commits, str(error))
        return self._end()

    def _pending(self) -> list[Happening]:
        """What has not happened to the mirror yet."""
        found = list(self._all.happenings.of(self._table))
        if self._mirror is None:
            return found
        position = self._mirror.position
        now = self._all.happenings.turn_at(self._table, position.seq, position.schema_version)
        self._turn = None if now is None else now.turn
        order = (position.seq, 1 << 62, 0) if now is None else now.order
        if self._mirror.is_dropped:
            return [one for one in found if one.order > order]
        return [one for one in found if (one.order > order if one.turn is not None else one.seq > position.seq)]

    def _can_reach(self, one: Happening) -> bool:
        """Applies the changes in front of something; False if not all of them are published."""
        if self._mirror is None or self._mirror.is_dropped or self._lost is not None:
            return True
        reach = self._all.published.reach(self._table, self._mirror.position.seq)
        self._apply(min(one.before, max(reach.seq, self._mirror.position.seq)))
        return reach.seq >= one.before

    def _apply(self, until: int) -> None:
        """Applies the published changes up to a transaction."""
        applier, span = self._applier, self._span(until)
        if applier is None or span is None:
            return
        intervals = self._all.published.intervals(self._table, span.after, until)
        if not intervals:
            return
        if self._changes is None:
            self._changes = PublishedChanges(self._all.lake, self._all.source, self._table)
        for batch in self._changes.batches(span, intervals.__contains__):
            if batch.changes.num_rows:
                self._take(applier.apply(batch.changes, self._position(batch.until)))
                if applier.mirror.position.schema_version != span.version_id:
                    raise _OvertakenError

    def _span(self, until: int) -> Span | None:
        """What is between the mirror and a transaction."""
        mirror, turn = self._mirror, self._turn
        if mirror is None or turn is None or turn.definition is None or until <= mirror.position.seq:
            return None
        return Span(mirror.position.seq, until, turn.version_id, turn.definition)

    def _position(self, seq: int, version_id: int | None = None) -> MirrorPosition:
        known = self._turn.version_id if self._turn is not None else 0
        return self._all.published.position(seq, known if version_id is None else version_id)

    def _take(self, mirror: Mirror) -> None:
        before = self._mirror
        if before is None or mirror.snapshot.version != before.snapshot.version:
            self._commits += 1
        self._mirror = mirror

    def _happen(self, one: Happening) -> None:
        try:
            self._do(one)
        except CannotFollowError as error:
            self._lost = error.facts().message
        if one.turn is not None:
            self._turn = one.turn

    def _do(self, one: Happening) -> None:
        if one.lost is not None:
            raise CannotFollowError(one.lost)
        if one.turn is not None:
            self._turn_to(one, one.turn)
        elif one.removal is not None:
            refuse_unknown(one.removal, is_empty=self._is_empty())
            self._empty(one)

    def _is_empty(self) -> bool:
        return self._mirror is not None and self._lost is None and self._mirror.snapshot.live_rows == 0

    def _empty(self, one: Happening) -> None:
        """All rows go: whatever they were, it is known from here on."""
        if self._turn is None or self._turn.definition is None:
            return
        position = self._position(one.behind)
        definition = self._turn.definition
        mirror = self._mirror
        if mirror is None or mirror.is_dropped:
            self._make(self._turn, [], position)
        elif self._applier is not None:
            self._commit(lambda at: emptied(at, position, definition))
        self._lost = None

    def _commit(self, step: Callable[[Mirror], Mirror]) -> None:
        """One commit on the newest state of the mirror, which the applier goes on from."""
        applier = self._applier
        if applier is None:
            return
        before = applier.mirror.position

        def attempt() -> None:
            if applier.mirror.position != before:
                raise _OvertakenError
            applier.mirror = step(applier.mirror)

        self._take(applier.committed(attempt))

    def _turn_to(self, one: Happening, turn: Turn) -> None:
        position = self._position(one.behind, turn.version_id)
        if turn.definition is None:
            self._gone(turn, position)
        elif turn.renamed_from is not None and turn.renamed_from != self._table:
            self._come_from(one, turn, turn.renamed_from, position)
        elif self._mirror is None or self._mirror.is_dropped:
            if turn.effect is None or turn.effect.kind is not EffectKind.NONE:
                raise CannotFollowError("its rows from before the landed stream were never dumped")
            self._make(turn, self._rows_with(one, turn), position)
        elif self._lost is None:
            self._commit(lambda at: altered(at, turn, position))

    def _gone(self, turn: Turn, position: MirrorPosition) -> None:
        """The table is dropped or has another name, or nobody knows what it is."""
        if turn.gap is not None:
            raise CannotFollowError(turn.gap)
        if self._mirror is not None and not self._mirror.is_dropped:
            self._commit(lambda at: at.dropped(position))
        self._lost = None

    def _come_from(self, one: Happening, turn: Turn, name: TableName, position: MirrorPosition) -> None:
        """The rows of another table, which has this name now."""
        found = self._all.follow(name, one.order)
        before = (
            Mirror.open(self._all.lake, self._all.source, name, lambda at: at.seq < one.seq) if found.mirror else None
        )
        if found.reached is not None and found.reached.seq < one.before:
            raise _NotYetError(f"{name}, which came to be {self._table}, is not published up to there")
        if before is None or before.is_dropped or before.stopped or found.behind:
            raise CannotFollowError(f"{name} came to be {self._table}, and {found.behind or 'has no mirror'}")
        self._make(turn, converted_rows(before, turn), position)

    def _rows_with(self, one: Happening, turn: Turn) -> Iterable[pa.Table]:
        """The rows that CREATE TABLE ... SELECT has put in the transaction that made the table."""
        if turn.definition is None or not one.is_statement:
            return
        reach = self._all.published.reach(self._table, one.before)
        if reach.seq < one.seq:
            raise _NotYetError(reach.withheld or "it is not published yet")
        changes = PublishedChanges(self._all.lake, self._all.source, self._table)
        span = Span(one.before, one.seq, turn.version_id, turn.definition)
        intervals = self._all.published.intervals(self._table, one.before, one.seq)
        for batch in changes.batches(span, intervals.__contains__):
            yield put_rows(batch.changes, turn.definition)

    def _make(self, turn: Turn, rows: Iterable[pa.Table], position: MirrorPosition) -> None:
        if turn.definition is None:
            return
        made = Mirror.create(
            self._all.lake,
            self._all.source,
            self._table,
            turn.definition,
            rows,
            position,
            mode=self._all.mode if self._mirror is None else self._mirror.mode,
            replacing=self._mirror,
        )
        self._take(made)
        self._applier = Applier(made)
        self._lost = None

    def _end(self) -> Followed:
        mirror = self._mirror
        if mirror is None:
            return Followed(None, behind=self._lost and self._needs_dump())
        if mirror.is_dropped and not self._lost:
            return Followed(mirror, mirror.position, self._commits)
        if self._lost is not None:
            if mirror.stopped != self._lost and not mirror.is_dropped:
                reason = self._lost
                self._commit(lambda at: at.stopped_for(reason))
            return Followed(self._mirror, None, self._commits, f"{self._lost}; {self._dump()}")
        return self._reach_end(mirror)

    def _reach_end(self, mirror: Mirror) -> Followed:
        reach = self._all.published.reach(self._table, mirror.position.seq)
        limit = self._until[0] - 1 if self._until is not None else reach.seq
        coming = next((one for one in self._pending() if self._until is None or one.order < self._until), None)
        until = min(reach.seq, limit, reach.seq if coming is None else coming.before)
        self._apply(until)
        position = self._position(max(until, mirror.position.seq))
        behind = reach.withheld if until < limit or reach.withheld else None
        return Followed(self._mirror, position, self._commits, behind)

    def _needs_dump(self) -> str:
        return f"{self._lost}; {self._dump()}"

    def _dump(self) -> str:
        return f"`strata dump --source {self._all.source} --table {self._table}` reads its rows"
