"""How far the changes of a table are published without a gap, and the position of an ordinal in the stream.
Not here: publishing them (`pipeline/publish/`), applying them (`update_mirrors.py`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import moment_key
from strata_cdc.errors import StreamHoleError, Usage
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.full_names import full_name
from strata_cdc.store.ledgers import IntervalLedger, PublishedLedger
from strata_cdc.store.owned import owners
from strata_cdc.store.table_intervals import UNPUBLISHED, IntervalState, TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Mapping

    import sqlalchemy as sa

    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.model.definition import TableName

_WITHHELD = (*UNPUBLISHED, IntervalState.DISCARDED)


class MirrorReach(Struct, frozen=True):
    """How far a mirror can be updated."""

    seq: int
    """Ordinal of the last transaction up to which everything is published."""
    withheld: str | None = None
    """Why not up to the end of the last closed interval."""
    is_unwanted: bool = False
    """Whether the next interval will never be published, because the settings exclude the table."""
    is_discarded: bool = False
    """Whether an operator discarded the rows of the next interval: only the server has them."""


class PublishedSource:
    """What the ledger has of a source; several threads may use it.

    Args:
        engine: The source's store.
        source: The source's name.
        stream: The landed stream.
    """

    def __init__(self, engine: sa.Engine, source: str, stream: LandedStream) -> None:
        ledger = TableIntervalLedger(engine)
        withheld, uncounted = ledger.select(source, _WITHHELD), ledger.uncounted(source)
        # After them: intervals may become one meanwhile, and then this one has what was withheld of each.
        marks = IntervalLedger(engine).all(source)
        owner = owners(marks)
        closed = [interval for interval in marks if interval.last_seq > interval.after_seq]
        self._closed = sorted(closed, key=lambda interval: interval.after_seq)
        self._uncounted = frozenset(map(owner, uncounted))
        self._withheld: dict[tuple[str, str], dict[int, IntervalState]] = {}
        for part in withheld:
            self._withheld.setdefault((part.database, part.table), {})[owner(part.start)] = part.state
        self._ledger, self._source, self._stream = ledger, source, stream
        self._commits = PublishedLedger(engine)
        self._newest: Mapping[str, int] | None = None
        self._asking = Lock()
        """A store in memory has one connection, which several threads must not use at once."""
        entries = SchemaStore(engine).all_entries(source)
        self._executed = {
            entry.seq: (entry.gtid_executed, entry.committed_at) for entry in entries if entry.statement_no
        }
        self._gtids = {entry.seq: entry.gtid for entry in entries if entry.statement_no == 1 and entry.gtid}
        self._ends = {interval.last_seq: interval.gtid_executed for interval in self._closed}

    @property
    def has_server(self) -> bool:
        """Whether there is a server that a table could be read from again."""
        return self._stream.has_server

    def reach(self, table: TableName, seq: int) -> MirrorReach:
        """How far a table's changes are published after a transaction.

        Args:
            table: The table.
            seq: Ordinal of the last transaction that the mirror already has.
        """
        withheld = self._withheld.get((table.database, table.table), {})
        # After every interval that ends at `seq` or before it.
        at = bisect_right(self._closed, seq, key=lambda interval: interval.last_seq)
        for interval in self._closed[at:]:
            if interval.after_seq > seq:
                return MirrorReach(seq, f"transactions {seq + 1} to {interval.after_seq} are in no closed interval")
            if interval.start in self._uncounted:
                return MirrorReach(seq, "the rows of an interval are not counted yet; the next run does")
            state = withheld.get(interval.start)
            if state is not None:
                return MirrorReach(
                    seq,
                    _words(state, interval.start),
                    state is IntervalState.UNWANTED,
                    state is IntervalState.DISCARDED,
                )
            seq = interval.last_seq
        return MirrorReach(seq)

    def has_changes(self, table: TableName, after: int, until: int) -> bool:
        """Whether changes of a table may be published in the transactions after < seq <= until; all that these have of
        it are published."""
        last = bisect_left(self._closed, until, key=lambda interval: interval.after_seq)
        if not last or self._closed[last - 1].last_seq <= after:
            return False
        with self._asking:
            end = self._closed[last - 1].end
            newest = self._ledger.last_seq_published(self._source, (table.database, table.table), end)
        return newest is not None and newest > after

    def start_after(self, seq: int) -> int | None:
        """Start of the interval of the next transaction; None if that is in no closed interval."""
        at = bisect_right(self._closed, seq, key=lambda interval: interval.last_seq)
        return self._closed[at].start if at < len(self._closed) else None

    def end_after(self, seq: int) -> int:
        """Ordinal of the last transaction in the interval of the next transaction; of a transaction that is in no
        closed interval, the one before the next closed interval, or a number after all."""
        at = bisect_right(self._closed, seq, key=lambda interval: interval.last_seq)
        if at == len(self._closed):
            return AFTER_ALL
        return self._closed[at].last_seq if self._closed[at].after_seq <= seq else self._closed[at].after_seq

    def discarded(self, table: TableName, first: int, last: int) -> str | None:
        """Words for a table's changes that were discarded in intervals with first <= start <= last; None if none."""
        withheld = self._withheld.get((table.database, table.table), {})
        starts = [
            start for start, state in withheld.items() if state is IntervalState.DISCARDED and first <= start <= last
        ]
        return _words(IntervalState.DISCARDED, min(starts)) if starts else None

    def newest_commit(self, table: TableName) -> int | None:
        """Newest version of the change table that is in the ledger; None if there is none."""
        with self._asking:
            if self._newest is None:
                self._newest = self._commits.newest(self._source)
            return self._newest.get(full_name(table.database, table.table))

    def position(self, seq: int, version_id: int) -> MirrorPosition:
        """The position of an ordinal in the stream.

        Raises:
            StreamHoleError: Its segment was deleted because of its age, and nothing else has the position.
        """
        return MirrorPosition(seq, self._executed_at(seq), self.clock_at(seq), version_id)

    def _executed_at(self, seq: int) -> str:
        if seq in self._ends:
            return self._ends[seq]
        if seq in self._executed:
            return self._executed[seq][0]
        following = self._gtids.get(seq + 1)
        if following is not None:
            executed = parse_executed(self._executed[seq + 1][0])
            # MariaDB's GTID as a position has all numbers below, and nothing says which of them was the one before.
            if isinstance(executed, GtidSet):
                return str(executed - GtidSet.parse(following))
        return str(self._stream.executed_at(seq))

    def clock_at(self, seq: int) -> int:
        """The commit clock after a transaction, microseconds UTC; 0 if nothing has it any more."""
        if seq in self._executed:
            return self._executed[seq][1]
        try:
            return self._stream.clock_at(seq)
        except (StreamHoleError, Usage):
            return 0


def _words(state: IntervalState, start: int) -> str:
    if state is IntervalState.UNWANTED:
        return "the settings do not name the table: its changes are not published"
    if state is IntervalState.DISCARDED:
        return f"changes of the interval {moment_key(start)} were discarded, so that only the server has their rows"
    return f"changes of an interval are not published, but {state}"
