"""Where a group is along what is due of it: the places of its transactions, whose tokens say where all sources are.
Not here: which transactions are due, and their order (`due.py`), the texts of many tokens at once (`batch_texts.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strata_cdc.groups.vector import inside_of
from strata_cdc.streams.events import TransactionPlace
from strata_cdc.streams.places import ordinals_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.groups.due import DueChunk, DueTransactions
    from strata_cdc.groups.pieces import SpanTransactions
    from strata_cdc.groups.vector import GroupPosition
    from strata_cdc.position.token_seal import StepTexts
    from strata_cdc.streams.decoding import StreamBatch

_WALK: Final = 32
"""Transactions from one place that is found by itself to the next; between them each is found from the one before. Who
asks for a few pays for half as many, who asks for all finds three in a hundred by themselves."""


class GroupBatch:
    """Transactions that are due one behind the other, without a hop between them."""

    def __init__(self, due: DueTransactions[SpanTransactions], front: GroupPosition) -> None:
        """Takes them, and where the group is in front of the first."""
        self.due, self.front = due, front
        self._walks: dict[int, list[GroupPosition]] = {}

    @cached_property
    def behind(self) -> GroupPosition:
        """Where the group is behind the last."""
        return self.at(len(self.due))

    def parts(self) -> list[GroupPlaces]:
        """The transactions of each part. They hold the stretch, which does not hold them: what has been given goes at
        once, and not when Python looks for cycles, which it does the less the fewer objects hold the many rows."""
        return [GroupPlaces(self, part, ranks) for part, ranks in zip(self.due.parts, self.due.ranks, strict=True)]

    def at(self, rank: int) -> GroupPosition:
        """Where the group is in front of a transaction, by its ordinal among these."""
        found = self.front
        for part, ranks in zip(self.due.parts, self.due.ranks, strict=True):
            count = int(np.searchsorted(ranks, rank))
            if count:
                found = found.moved(part.piece.reached(part.begin + count - 1))
        return found

    def along(self, rank: int) -> GroupPosition:
        """The same, for who asks for many of them in order."""
        first = rank // _WALK * _WALK
        walk = self._walks.get(first)
        if walk is None:
            walk = self._walks[first] = [self.at(first)]
        owners, ordinals = self.due.by_rank
        while len(walk) <= rank - first:
            before = first + len(walk) - 1
            part = self.due.parts[owners[before]]
            walk.append(walk[-1].moved(part.piece.reached(part.begin + int(ordinals[before]))))
        return walk[rank - first]


class GroupPlaces(Mapping[int, "GroupPlace"]):
    """The transactions of one part, by their ordinals in the source's stream."""

    def __init__(self, stretch: GroupBatch, part: DueChunk[SpanTransactions], ranks: Ints) -> None:
        """Takes the part, and the ordinals of its transactions in the stretch."""
        self.stretch, self.part, self.ranks = stretch, part, ranks
        self.piece = part.piece
        self.seqs = part.piece.seqs[part.begin : part.end]
        self._made: dict[int, GroupPlace] = {}

    def span(self) -> StreamBatch:
        """What they have."""
        return self.piece.part(self.part.begin, self.part.end, self)

    def ordinals(self, seqs: Ints) -> Ints:
        """Of some of them in the part, from 0."""
        return ordinals_in(self.seqs, seqs)

    def __getitem__(self, seq: int) -> GroupPlace:
        found = self._made.get(seq)
        if found is None:
            at = int(np.searchsorted(self.seqs, seq))
            if at == len(self.seqs) or self.seqs[at] != seq:
                raise KeyError(seq)
            found = self._made[seq] = GroupPlace(self, at)
        return found

    def __iter__(self) -> Iterator[int]:
        # Mostly it is the first that is wanted.
        return map(int, self.seqs)

    def __len__(self) -> int:
        return len(self.seqs)


class GroupPlace(TransactionPlace):
    """A transaction of one source of a group: its tokens say where all sources are."""

    __slots__ = ("_ordinal", "_piece", "_rank", "_stretch")

    def __init__(self, places: GroupPlaces, ordinal: int) -> None:
        """Takes where it is in a part, which holds it and is not held by it."""
        self._stretch, self._rank = places.stretch, int(places.ranks[ordinal])
        self._piece, self._ordinal = places.piece, places.part.begin + ordinal
        super().__init__(*self._piece.place(self._ordinal).made_of)

    @cached_property
    def after_text(self) -> str:
        """The group's token behind what there is of it."""
        return self._stretch.along(self._rank + 1).text

    @cached_property
    def steps(self) -> StepTexts:
        """The group's tokens in it."""
        return self._stretch.along(self._rank).inside(inside_of(self, 1))

    @property
    def shown(self) -> dict[str, Any]:
        """What lines of a source say that a hop led to."""
        return shown_of(self.epoch, may_be_copy=self.may_be_copy)

    @property
    def epoch(self) -> int:
        """The hop that its source came with, from 1; 0 for a first source."""
        return self._piece.epoch

    @property
    def may_be_copy(self) -> bool:
        """Whether an old source may have given it: nobody knows the positions of the hop."""
        return bool(self._piece.may_be_copy[self._ordinal])


def shown_of(epoch: int, *, may_be_copy: bool) -> dict[str, Any]:
    """What lines of transactions of an epoch say besides."""
    found: dict[str, Any] = {"epoch": epoch} if epoch else {}
    return {**found, "possible_duplicate": True} if may_be_copy else found
