"""Spans of a source's stream cut into their transactions, which wait until they are due; hops among them.
Not here: what becomes of them then (`rendering.py`), the order of transactions (`merge.py`), their
tokens (`batch.py`).

A span is rendered when it is due, and not before: which place of the group its tokens name is known only then.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.events.batch import gtid_spans
from strata_cdc.groups.vector import NOWHERE, inside_of
from strata_cdc.streams.decoding import StreamBatch, row_ordinals, row_seqs
from strata_cdc.streams.places import Places
from strata_cdc.streams.positions import Held

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.decode import ChangeBatch
    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.vector import GroupPosition
    from strata_cdc.position.sets import GtidSet, Sid, Span
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.streams.events import TransactionPlace
    from strata_cdc.streams.positions import Mask


class SpanTransactions:
    """The transactions that one span has something of."""

    def __init__(self, span: StreamBatch) -> None:
        """Takes a span that has something, of a source's own stream."""
        if not isinstance(span.places, Places):
            raise TypeError("a source's stream gives its transactions in batches")
        self._span, self.own = span, span.places
        self._row_seqs = [row_seqs(batch.batch) for batch in span.batches]
        self._unreadable_seqs = [row_seqs(rows.batch) for rows in span.unreadable]
        ddl = [one.place.record.seq for one in span.ddl]
        seqs = [*self._row_seqs, *self._unreadable_seqs, np.array(ddl, np.int64), span.ended]
        self.seqs: Ints = _together(seqs, self.own.batch)
        """Their ordinals in the source's stream, in order; `leave_out` takes some away."""
        last = int(self.seqs[-1])
        # Only the last can be one of which more comes.
        self._open = None if len(span.ended) and span.ended[-1] >= last else last
        self.epoch = 0
        """The hop that its source came with, from 1; 0 for a first source."""
        self.may_be_copy = np.zeros(len(self.seqs), np.bool_)
        """Of each transaction: whether an old source may have given it, as nobody knows the positions of the hop."""

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def rows(self) -> Ints:
        """Which of the batch they are in."""
        return self.seqs - self.own.batch.first_seq

    @property
    def times(self) -> Ints:
        """Commit time of each, as its server's clock had it."""
        return self.own.batch.commit_timestamps[self.rows]

    def held_by(self, executed: GtidSet) -> Mask:
        """Of each, whether a GTID set has it."""
        return Held(executed).of(self.own.batch)[self.rows]

    def gtid_spans(self) -> Iterator[tuple[Sid, Span]]:
        """Their GTIDs, without those that may be copies anyway."""
        rows, batch = self.rows[~self.may_be_copy], self.own.batch
        return gtid_spans(batch.sids, batch.sid_numbers[rows], batch.numbers[rows])

    def leave_out(self, some: Mask) -> None:
        """Takes some of them away."""
        self.seqs, self.may_be_copy = self.seqs[~some], self.may_be_copy[~some]

    @cached_property
    def runs(self) -> Ints:
        """Of each the number of its run: one server has numbered all transactions of a run one behind the other."""
        batch = self.own.batch
        breaks = (np.diff(batch.sid_numbers, prepend=-2) != 0) | (np.diff(batch.numbers, prepend=0) != 1)
        return np.cumsum(breaks)[self.rows]

    def place(self, at: int) -> TransactionPlace:
        """The place of one of them in the source's own stream."""
        return self.own[int(self.seqs[at])]

    def given(self, at: int) -> int:
        """How many steps there are of a transaction of which more comes; else 0."""
        return self._steps if self._open is not None and int(self.seqs[at]) == self._open else 0

    def reached(self, at: int) -> SourcePosition:
        """Where the source is behind what there is of a transaction."""
        place, given = self.place(at), self.given(at)
        return inside_of(place, given) if given else place.after

    def part(self, begin: int, end: int, places: Mapping[int, TransactionPlace]) -> StreamBatch:
        """What some of the transactions have, at places of the group."""
        wanted = self.seqs[begin:end]
        is_some = len(wanted) < wanted[-1] - wanted[0] + 1
        part = StreamBatch(places)
        for batch, seqs in zip(self._span.batches, self._row_seqs, strict=True):
            kept = _some(batch, seqs, wanted, is_some=is_some)
            if kept is not None:
                part.batches.append(kept)
        for rows, seqs in zip(self._span.unreadable, self._unreadable_seqs, strict=True):
            keep = np.isin(seqs, wanted)
            if keep.any():
                part.unreadable.append(rows.chosen(keep))
        ddl = ((one, one.place.record.seq) for one in self._span.ddl)
        part.ddl = [replace(one, place=places[seq]) for one, seq in ddl if seq in places]
        part.ended = self._span.ended[np.isin(self._span.ended, wanted)]
        return part

    def count_unreadable(self, begin: int, end: int) -> int:
        """Rows that cannot be read, of some of the transactions."""
        wanted = self.seqs[begin:end]
        return sum(int(np.isin(seqs, wanted).sum()) for seqs in self._unreadable_seqs)

    @cached_property
    def _steps(self) -> int:
        """Of the last transaction."""
        seq = int(self._open or 0)
        statements = self.own[seq].statements
        found = [one.number for one in self._span.ddl if one.place.record.seq == seq]
        for _, batch in self._span.rows:
            rows = row_ordinals(batch)[row_seqs(batch) == seq]
            found += [statements + int(rows.max()) + 1] if len(rows) else []
        return max(found)


def _together(parts: Sequence[Ints], batch: TransactionBatch) -> Ints:
    """The ordinals of some transactions of a batch, each once, in order."""
    is_there = np.zeros(len(batch), np.bool_)
    for seqs in parts:
        is_there[seqs - batch.first_seq] = True
    return np.flatnonzero(is_there) + batch.first_seq


def _some(batch: ChangeBatch, seqs: Ints, wanted: Ints, *, is_some: bool) -> ChangeBatch | None:
    """The rows of some transactions, whose ordinals ascend as those of the rows do; None if there are none."""
    begin, end = np.searchsorted(seqs, [wanted[0], wanted[-1] + 1]).tolist()
    if begin == end:
        return None
    rows = batch.batch.slice(begin, end - begin)
    if is_some:
        rows = rows.filter(np.isin(seqs[begin:end], wanted))
    return replace(batch, batch=rows) if rows.num_rows else None


class GroupHop(Struct, frozen=True):
    """New sources have taken over from old ones."""

    place: HopPlace
    name: str
    """As the journal has it."""
    epoch: int
    """How many hops the group has had."""
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def token(self) -> str:
        """A reader that goes on from it reads the new sources."""
        return self.place.behind.text


class HopPlace:
    """Where the new sources of a hop begin."""

    def __init__(self, places: Sequence[SourcePosition], old: Collection[str], least: int) -> None:
        """Takes the places.

        Args:
            places: Where the new sources begin.
            old: Names of those that they take over from.
            least: Nothing of the new ones has an earlier time (microseconds UTC, in the group's time). Tokens behind
                the hop carry it as the old ones' time: who goes on from one has to have the same order.
        """
        self._places, self._old, self._least = places, old, least
        self.behind = NOWHERE

    def put(self, vector: GroupPosition) -> GroupPosition:
        """Takes where the group is in front of the hop; returns where it is behind it."""
        ended = [replace(vector.places[name], committed_at=self._least) for name in self._old if name in vector.places]
        for place in (*ended, *self._places):
            vector = vector.moved(place)
        self.behind = vector
        return vector


class HopPiece:
    """A hop as the one thing of a piece; it comes before anything of the new sources."""

    def __init__(self, hop: Hop, epoch: int, places: Sequence[SourcePosition], least: int) -> None:
        """Takes what a journal has, and what `HopPlace` takes."""
        self.new = tuple(sorted(hop.new))
        self._place = HopPlace(places, hop.old.keys(), least)
        self.hop = GroupHop(self._place, hop.name, epoch, tuple(sorted(hop.old)), self.new)

    def put(self, vector: GroupPosition) -> GroupPosition:
        """As `HopPlace.put`."""
        return self._place.put(vector)

    def line(self) -> bytes:
        """Its line."""
        hop = self.hop
        line = {"token": hop.token, "hop": hop.name, "epoch": hop.epoch, "from": hop.old, "to": hop.new}
        return msgspec.json.encode(line) + b"\n"
