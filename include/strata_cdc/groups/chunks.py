"""The chunks of the merge: spans of a source's stream, cut into their transactions, and switchovers. They wait until
they are due.
Not here: what happens with them then (`rendering.py`), the order of transactions (`merge.py`), their tokens
(`batch.py`).

A span is rendered only when it is due: the position of the group that its tokens name is not known before.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.groups.group_position import inside_of
from strata_cdc.position.sets import DomainWriter
from strata_cdc.streams.decoding import StreamBatch, row_ordinals, row_seqs
from strata_cdc.streams.positions import HeldTransactions, gtid_spans_of
from strata_cdc.streams.transactions import StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import ChangeBatch
    from strata_cdc.groups.group_position import GroupPosition
    from strata_cdc.groups.switchovers import Switchover
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Span, Writer
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.streams.events import StreamTransaction
    from strata_cdc.streams.positions import Mask


class SpanTransactions:
    """The transactions of which a span has something."""

    def __init__(self, span: StreamBatch) -> None:
        """Takes a span of a source's own stream that is not empty."""
        if not isinstance(span.transactions, StreamTransactions):
            raise TypeError("a source's stream gives its transactions in batches")
        self._span, self.own = span, span.transactions
        self._row_seqs = [row_seqs(batch.batch) for batch in span.batches]
        self._unreadable_seqs = [row_seqs(rows.batch) for rows in span.unreadable]
        self.seqs: Ints = span.seqs
        """Ordinals of the transactions in the source's stream, in order; `leave_out` removes some."""
        last = int(self.seqs[-1])
        # Only the last transaction can be one of which more comes.
        self._open = None if len(span.ended) and span.ended[-1] >= last else last
        self.epoch = 0
        """The number of the switchover with which its source came, from 1; 0 for a first source."""
        self.may_be_copy = np.zeros(len(self.seqs), np.bool_)
        """For each transaction, whether it may have come from an old source: the positions of the switchover are not
        known."""

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def rows(self) -> Ints:
        """The rows of the transactions in their batch."""
        return self.seqs - self.own.batch.first_seq

    @property
    def has_commit_times(self) -> bool:
        """Whether the source's log has the times of commits (MySQL)."""
        return not any(isinstance(sid, DomainWriter) for sid in self.own.batch.sids)

    @property
    def times(self) -> Ints:
        """The commit time of each transaction, by its server's clock; of a log without such times, by the commit clock
        of the source's stream, so that the position alone decides it."""
        batch = self.own.batch
        times = batch.commit_timestamps if self.has_commit_times else batch.committed_at
        return times[self.rows]

    def held_by(self, executed: Executed) -> Mask:
        """For each transaction, whether a GTID set has it."""
        return HeldTransactions(executed).mask(self.own.batch)[self.rows]

    def gtid_spans(self) -> Iterator[tuple[Writer, Span]]:
        """Yields the GTIDs of the transactions, without those that are already marked as possible copies."""
        return gtid_spans_of(self.own.batch, self.rows[~self.may_be_copy])

    def leave_out(self, some: Mask) -> None:
        """Removes some of the transactions."""
        self.seqs, self.may_be_copy = self.seqs[~some], self.may_be_copy[~some]

    @cached_property
    def runs(self) -> Ints:
        """For each transaction, the number of its run: one server has numbered all transactions of a run
        consecutively."""
        batch = self.own.batch
        breaks = (np.diff(batch.sid_numbers, prepend=-2) != 0) | (np.diff(batch.numbers, prepend=0) != 1)
        return np.cumsum(breaks)[self.rows]

    def transaction(self, at: int) -> StreamTransaction:
        """Returns a transaction as it is in the source's own stream."""
        return self.own[int(self.seqs[at])]

    def given(self, at: int) -> int:
        """Returns how many steps the span has of a transaction of which more comes; 0 if nothing more comes."""
        return self._steps if self._open is not None and int(self.seqs[at]) == self._open else 0

    def reached(self, at: int) -> SourcePosition:
        """Returns the position of the source after what the span has of a transaction."""
        transaction, given = self.transaction(at), self.given(at)
        return inside_of(transaction, given) if given else transaction.after

    def part(self, begin: int, end: int, transactions: Mapping[int, StreamTransaction]) -> StreamBatch:
        """Returns what the span has of some of the transactions, as transactions of the group."""
        wanted = self.seqs[begin:end]
        is_some = len(wanted) < wanted[-1] - wanted[0] + 1
        part = StreamBatch(transactions)
        for batch, seqs in zip(self._span.batches, self._row_seqs, strict=True):
            kept = _some(batch, seqs, wanted, is_some=is_some)
            if kept is not None:
                part.batches.append(kept)
        for rows, seqs in zip(self._span.unreadable, self._unreadable_seqs, strict=True):
            keep = np.isin(seqs, wanted)
            if keep.any():
                part.unreadable.append(rows.chosen(keep))
        ddl = ((statement, statement.transaction.record.seq) for statement in self._span.ddl)
        part.ddl = [replace(statement, transaction=transactions[seq]) for statement, seq in ddl if seq in transactions]
        part.ended = self._span.ended[np.isin(self._span.ended, wanted)]
        return part

    def count_unreadable(self, begin: int, end: int) -> int:
        """Returns how many rows of some of the transactions cannot be read."""
        wanted = self.seqs[begin:end]
        return sum(int(np.isin(seqs, wanted).sum()) for seqs in self._unreadable_seqs)

    @cached_property
    def _steps(self) -> int:
        """How many steps of the last transaction there are."""
        seq = int(self._open or 0)
        statements = self.own[seq].statements
        steps = [ddl.number for ddl in self._span.ddl if ddl.transaction.record.seq == seq]
        for _, batch in self._span.rows:
            rows = row_ordinals(batch)[row_seqs(batch) == seq]
            steps += [statements + int(rows.max()) + 1] if len(rows) else []
        return max(steps)


def _some(batch: ChangeBatch, seqs: Ints, wanted: Ints, *, is_some: bool) -> ChangeBatch | None:
    """The rows of some transactions; None if there are none. The ordinals of the transactions ascend, and so do those
    of the rows."""
    begin, end = np.searchsorted(seqs, [wanted[0], wanted[-1] + 1]).tolist()
    if begin == end:
        return None
    rows = batch.batch.slice(begin, end - begin)
    if is_some:
        rows = rows.filter(np.isin(seqs[begin:end], wanted))
    return replace(batch, batch=rows) if rows.num_rows else None


class GroupSwitchover(Struct, frozen=True):
    """An event: new sources have taken over from old sources."""

    after: GroupPosition
    """The group's position after it."""
    name: str
    """The name in the journal."""
    epoch: int
    """How many switchovers the group has had."""
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def token(self) -> str:
        """A reader that starts with this token reads the new sources."""
        return self.after.text

    def line(self) -> bytes:
        """Returns its line."""
        line = {"token": self.token, "hop": self.name, "epoch": self.epoch, "from": self.old, "to": self.new}
        return msgspec.json.encode(line) + b"\n"


class SwitchoverChunk(Struct, frozen=True):
    """A chunk that is a switchover; it comes before everything of the new sources."""

    switchover: Switchover
    epoch: int
    """The epoch that it begins."""
    positions: Sequence[SourcePosition]
    """Where the new sources begin."""
    least: int
    """Nothing of the new sources has an earlier time (microseconds UTC, in the group's time). Tokens after the
    switchover have it as the time of the old sources, so that a reader that starts with such a token gets the same
    order."""

    def event(self, before: GroupPosition) -> GroupSwitchover:
        """Returns the event, from the group's position before it."""
        old, new = tuple(sorted(self.switchover.old)), tuple(sorted(self.switchover.new))
        ended = [replace(before.positions[name], committed_at=self.least) for name in old if name in before.positions]
        after = before
        for position in (*ended, *self.positions):
            after = after.moved(position)
        return GroupSwitchover(after, self.switchover.name, self.epoch, old, new)
