"""The positions of a group in what is due of it: its transactions, whose tokens have the positions of all
sources.
Not here: which transactions are due, and their order (`merged.py`), many tokens at once (`batch_tokens.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from strata_cdc.changes.texts import ListedTexts
from strata_cdc.streams.events import StreamTransaction
from strata_cdc.streams.transactions import ordinals_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.groups.chunks import SpanTransactions
    from strata_cdc.groups.group_position import GroupPosition
    from strata_cdc.groups.merged import MergedChunk, MergedTransactions
    from strata_cdc.position.token_seal import StepTexts
    from strata_cdc.streams.decoding import StreamBatch

_WALK: Final = 32
"""Every 32nd position is computed on its own; the positions between are computed from the position before. A request
for a few positions computes 16 on average for each; a request for all computes three in a hundred on their own."""


class GroupBatch:
    """Consecutive due transactions, without a switchover between them."""

    def __init__(self, due: MergedTransactions[SpanTransactions], front: GroupPosition) -> None:
        """Takes the transactions, and the group's position before the first of them."""
        self.due, self.front = due, front
        self._walks: dict[int, list[GroupPosition]] = {}

    @cached_property
    def end(self) -> GroupPosition:
        """The group's position after the last transaction."""
        return self.at(len(self.due))

    def parts(self) -> list[GroupTransactions]:
        """The transactions of each part. They refer to the batch, and the batch does not refer to them: so what has
        been yielded is freed at once, and not only when Python searches for cycles. It searches rarely if few objects
        hold the many rows."""
        return [
            GroupTransactions(self, part, ranks) for part, ranks in zip(self.due.parts, self.due.ranks, strict=True)
        ]

    def at(self, rank: int) -> GroupPosition:
        """Returns the group's position before a transaction, by the transaction's ordinal in the batch."""
        position = self.front
        for part, ranks in zip(self.due.parts, self.due.ranks, strict=True):
            count = int(np.searchsorted(ranks, rank))
            if count:
                position = position.moved(part.chunk.reached(part.begin + count - 1))
        return position

    def along(self, rank: int) -> GroupPosition:
        """Returns the same; faster if many are requested in order."""
        first = rank // _WALK * _WALK
        walk = self._walks.get(first)
        if walk is None:
            walk = self._walks[first] = [self.at(first)]
        owners, ordinals = self.due.by_rank
        while len(walk) <= rank - first:
            before = first + len(walk) - 1
            part = self.due.parts[owners[before]]
            walk.append(walk[-1].moved(part.chunk.reached(part.begin + int(ordinals[before]))))
        return walk[rank - first]


class GroupTransactions(Mapping[int, "GroupTransaction"]):
    """The transactions of one part, by ordinal in the source's stream."""

    def __init__(self, batch: GroupBatch, part: MergedChunk[SpanTransactions], ranks: Ints) -> None:
        """Takes the batch, the part, and the ordinals of the part's transactions in the batch."""
        self.batch, self.part, self.ranks = batch, part, ranks
        self.chunk = part.chunk
        self.seqs = part.chunk.seqs[part.begin : part.end]
        self._made: dict[int, GroupTransaction] = {}

    def span(self) -> StreamBatch:
        """The rows, DDL and ends of the transactions."""
        return self.chunk.part(self.part.begin, self.part.end, self)

    def ordinals(self, seqs: Ints) -> Ints:
        """Returns the ordinals of some transactions in the part, from 0."""
        return ordinals_in(self.seqs, seqs)

    def more_keys(self, seqs: Ints) -> ListedTexts | None:
        """Returns more keys of the lines of some transactions, as JSON after other keys, if their source came with a
        switchover; None: no line has any."""
        marked = self.chunk.may_be_copy[self.part.begin + self.ordinals(seqs)]
        if not self.chunk.epoch and not marked.any():
            return None
        shown = [_shown(self.chunk.epoch, may_be_copy=is_copy) for is_copy in (False, True)]
        texts = [b",%b" % msgspec.json.encode(keys)[1:-1] if keys else b"" for keys in shown]
        return ListedTexts([texts[mark] for mark in marked.tolist()])

    def __getitem__(self, seq: int) -> GroupTransaction:
        transaction = self._made.get(seq)
        if transaction is None:
            at = int(np.searchsorted(self.seqs, seq))
            if at == len(self.seqs) or self.seqs[at] != seq:
                raise KeyError(seq)
            transaction = self._made[seq] = GroupTransaction(self, at)
        return transaction

    def __iter__(self) -> Iterator[int]:
        # In most cases only the first is needed.
        return map(int, self.seqs)

    def __len__(self) -> int:
        return len(self.seqs)


class GroupTransaction(StreamTransaction):
    """A transaction of one source of a group: its tokens have the positions of all sources."""

    __slots__ = ("_chunk", "_group_batch", "_ordinal", "_rank")

    def __init__(self, located: GroupTransactions, ordinal: int) -> None:
        """Takes the part, and the transaction's ordinal in it. The part refers to them, none of them to it."""
        self._group_batch, self._rank = located.batch, int(located.ranks[ordinal])
        self._chunk, self._ordinal = located.chunk, located.part.begin + ordinal
        super().__init__(*self._chunk.transaction(self._ordinal).made_of)

    @cached_property
    def after_text(self) -> str:
        """The group's token after what there is of the transaction."""
        return self._group_batch.along(self._rank + 1).text

    @cached_property
    def steps(self) -> StepTexts:
        """The group's tokens inside the transaction."""
        return self._group_batch.along(self._rank).inside(self.inside)

    @property
    def shown(self) -> dict[str, Any]:
        """More keys of the lines of a source that came with a switchover."""
        return _shown(self.epoch, may_be_copy=self.may_be_copy)

    @property
    def epoch(self) -> int:
        """The number of the switchover with which its source came, from 1; 0 for a first source."""
        return self._chunk.epoch

    @property
    def may_be_copy(self) -> bool:
        """Whether it may have come from an old source: the positions of the switchover are not known."""
        return bool(self._chunk.may_be_copy[self._ordinal])


def _shown(epoch: int, *, may_be_copy: bool) -> dict[str, Any]:
    """Returns more keys of the lines of an epoch's transactions."""
    shown: dict[str, Any] = {"epoch": epoch} if epoch else {}
    return {**shown, "possible_duplicate": True} if may_be_copy else shown
