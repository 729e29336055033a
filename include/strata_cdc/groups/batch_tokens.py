"""The tokens of many transactions of a group at once. If each source that moves has numbered its transactions
consecutively, each token differs from the next in two numbers of each source.
Not here: the texts of such tokens (`changes/token_texts.py`), one token (`group_position.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata_cdc.changes.token_texts import GrowingTokens, Growth, TokensAfter, TokensInside
from strata_cdc.position.token_packed import growing, packed_source_position
from strata_cdc.streams.source_tokens import SpanTokens, joined_tokens, tokens_one_by_one
from strata_cdc.streams.transactions import MANY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.groups.batch import GroupBatch, GroupTransactions
    from strata_cdc.groups.group_position import GroupPosition
    from strata_cdc.position.token_packed import PackedSourcePosition


class _Moving(Struct, frozen=True, eq=False):
    """A source that has transactions in a segment."""

    index: int
    """Which of the packed numbers grows."""
    inside: PackedSourcePosition
    """Its position inside its first transaction of the segment."""
    before: Ints
    """How many transactions of this source come before each transaction of the segment; then, how many there are in
    all."""
    numbers: Ints
    """The number of the last executed transaction: first before all of them, then after each."""
    committed_at: Ints
    """The commit times of these transactions (microseconds UTC)."""

    def growth(self, ranks: Ints, *, inside: bool) -> Growth:
        """What changes in the tokens before some transactions of the segment, or inside them: then they are of this
        source."""
        at = self.before[ranks] + inside
        return Growth(self.index, self.numbers[at] - inside, self.committed_at[at])


class _TokenSegment(Struct, frozen=True, eq=False):
    """Transactions of a batch whose tokens have the same form."""

    begin: int
    end: int
    """Exclusive."""
    packed: Mapping[str, PackedSourcePosition] = {}
    """The packed positions of all sources before the segment, in the order of the names."""
    moving: dict[str, _Moving] | None = None
    """The sources with transactions in it; None: the tokens are made one by one."""

    def tokens(self, ranks: Ints, source: str) -> SpanTokens:
        """Returns the tokens inside and after some of the transactions.

        Args:
            ranks: Ordinals of the transactions in the batch.
            source: The source of these transactions.
        """
        packed = {**self.packed, source: (self.moving or {})[source].inside}
        inside = GrowingTokens([*packed.values()], self._growths(ranks, source))
        after = GrowingTokens([*self.packed.values()], self._growths(ranks + 1, None))
        return SpanTokens(TokensInside([inside]), TokensAfter([after]))

    def _growths(self, ranks: Ints, inside: str | None) -> dict[int, Growth]:
        """What changes in the tokens before some transactions, or inside them: then all are of the source `inside`."""
        moving = self.moving or {}
        return {
            number: moving[name].growth(ranks - self.begin, inside=name == inside)
            for number, name in enumerate(self.packed)
            if name in moving
        }


class GroupBatchTokens:
    """Makes the tokens of a batch."""

    def __init__(self, batch: GroupBatch, parts: Sequence[GroupTransactions], many: int = MANY) -> None:
        """Takes the batch, its parts, and from how many transactions on it makes columns."""
        self._batch, self._parts, self._many = batch, parts, many
        borders, met = {0, len(batch.due)}, set[str]()
        for located in parts:
            borders |= set(_borders(located, begins=located.part.source in met))
            met.add(located.part.source)
        ordered = sorted(rank for rank in borders if rank <= len(batch.due))
        self.segments = [segment for begin, end in pairwise(ordered) for segment in self._segments(begin, end)]

    def of_part(self, located: GroupTransactions, seqs: Ints) -> SpanTokens:
        """Makes the tokens of some transactions of a part of the batch.

        Args:
            located: The part.
            seqs: Ordinals of transactions in the source's stream, in order.
        """
        more_keys, ranks, tokens = located.more_keys(seqs), located.ranks[located.ordinals(seqs)], list[SpanTokens]()
        for segment in self.segments:
            some = slice(*np.searchsorted(ranks, [segment.begin, segment.end]).tolist())
            if some.start == some.stop:
                continue
            if segment.moving is None:
                tokens.append(tokens_one_by_one([located[seq] for seq in seqs[some].tolist()]))
            else:
                tokens.append(segment.tokens(ranks[some], located.part.source))
        return joined_tokens(tokens, more_keys)

    def _segments(self, begin: int, end: int, known: frozenset[str] = frozenset()) -> Iterator[_TokenSegment]:
        """Yields the segments between two borders. It cuts before and after a transaction if the source's position
        after it is not simply the position before it with one more number.

        Args:
            begin: Rank of the first transaction.
            end: Rank after the last transaction.
            known: Sources whose position did not lead up to their first transaction, and which were already cut there.
        """
        if end - begin < self._many:
            yield _TokenSegment(begin, end)
            return
        front, moving = self._batch.at(begin), dict[str, _Moving]()
        for located in self._parts:
            first, stop = np.searchsorted(located.ranks, [begin, end]).tolist()
            moving_of_source = _moving(located, range(begin, end), front) if first < stop else None
            source = located.part.source
            if isinstance(moving_of_source, _Moving):
                moving[source] = moving_of_source
            elif first < stop and (moving_of_source is not None or source not in known):
                known = known if moving_of_source is not None else known | {source}
                yield from self._cut(
                    begin, int(located.ranks[first if moving_of_source is None else moving_of_source]), end, known
                )
                return
        yield _TokenSegment(begin, end, front.packed, moving if self._is_plain(begin, end, front, moving) else None)

    def _cut(self, begin: int, rank: int, end: int, known: frozenset[str]) -> Iterator[_TokenSegment]:
        for first, stop in ((begin, rank), (rank, rank + 1), (rank + 1, end)):
            if first < stop:
                yield from self._segments(first, stop, known)

    def _is_plain(self, begin: int, end: int, front: GroupPosition, moving: Mapping[str, _Moving]) -> bool:
        """Whether the tokens of a segment can be made in columns: this needs that no source is inside a transaction."""
        count = sum(int(column.before[-1]) for column in moving.values())
        return count == end - begin and not any(packed.steps for packed in front.packed.values())


def _borders(located: GroupTransactions, *, begins: bool) -> Iterator[int]:
    """The borders at which the form of the tokens that name transactions of a part changes.

    Args:
        located: The part's transactions.
        begins: Whether the first transaction is a border, too: a segment has only one part of each source.
    """
    begin, end, ranks = located.part.begin, located.part.end, located.ranks
    if begins:
        yield int(ranks[0])
    yield from ranks[1:][np.diff(located.chunk.runs[begin:end]) != 0].tolist()
    if located.chunk.given(end - 1):
        yield from (int(ranks[-1]), int(ranks[-1]) + 1)


def _moving(positions: GroupTransactions, segment: range, front: GroupPosition) -> _Moving | int | None:
    """The transactions of a part that are in a segment, at least one. Or the ordinal of the transaction that changes
    the form of the set. Or None, if the source's position before the segment is not the position before the first
    transaction, or does not lead up to it."""
    part, chunk = positions.part, positions.chunk
    first, stop = (int(np.searchsorted(positions.ranks, rank)) for rank in (segment.start, segment.stop))
    transaction, known = chunk.transaction(part.begin + first), front.packed.get(part.source)
    gtid = transaction.record.gtid
    growth = None if gtid is None or known is None else growing(transaction.before, gtid)
    if growth is None or known is None:
        return None
    index, limit = growth
    if not _leads_up(known, packed_source_position(transaction.before), index):
        return None
    rows = chunk.rows[part.begin + first : part.begin + stop]
    numbers = chunk.own.batch.numbers[rows]
    if numbers[-1] >= limit:
        # There the interval joins the next interval.
        return first + int(np.searchsorted(numbers, limit))
    is_here = np.zeros(len(segment) + 1, np.int64)
    is_here[positions.ranks[first:stop] - segment.start + 1] = 1
    return _Moving(
        index,
        packed_source_position(transaction.inside),
        np.cumsum(is_here),
        np.append(known.numbers[index], numbers),
        np.append(known.numbers[-1], chunk.own.batch.committed_at[rows]),
    )


def _leads_up(known: PackedSourcePosition, before: PackedSourcePosition, index: int) -> bool:
    """Whether a packed position is another one except for the number that grows, and the commit time: transactions
    between them may have been excluded."""
    is_same_form = (known.form, known.uuids, known.parts) == (before.form, before.uuids, before.parts)
    return is_same_form and _fixed(known, index) == _fixed(before, index)


def _fixed(packed: PackedSourcePosition, index: int) -> tuple[int, ...]:
    return packed.numbers[:index] + packed.numbers[index + 1 : -1]
