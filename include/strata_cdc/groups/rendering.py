"""What is due of a group's sources, as lines or as events, in the group's order.
Not here: what is due (`merge.py`), lines and events of one source (`streams`)."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from strata_cdc.groups.batch import GroupPlaces
from strata_cdc.groups.batch_texts import GroupBatchTexts, GroupTexts
from strata_cdc.streams.lines import Lines, joined
from strata_cdc.streams.rendering import Rendering
from strata_cdc.streams.writing import Writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.groups.batch import GroupBatch
    from strata_cdc.streams.events import Event, TransactionPlace


class GroupBatchLines:
    """Writes what is due."""

    def __init__(self) -> None:
        self._writing: dict[str, Writing] = {}

    def write(self, stretch: GroupBatch) -> Iterator[bytes]:
        """The JSON lines of a stretch in its order, some whole ones at once."""
        parts, lines = stretch.parts(), list[Lines]()
        texts = partial(_texts, GroupBatchTexts(stretch, parts))
        for places in parts:
            writing = self._writing.setdefault(places.part.source, Writing())
            for found in writing.parts(places.span(), texts):
                # Of all that is due they are put into one order.
                found.seqs = places.ranks[places.ordinals(found.seqs)]
                lines.append(found)
        return joined(lines)


def _texts(tokens: GroupBatchTexts, places: Mapping[int, TransactionPlace], seqs: Ints) -> GroupTexts:
    if not isinstance(places, GroupPlaces):
        raise TypeError("a transaction of a group has a place in it")
    return GroupTexts(tokens, places, seqs)


class GroupBatchEvents:
    """Renders what is due."""

    def __init__(self) -> None:
        self._rendering: dict[str, Rendering] = {}

    def render(self, stretch: GroupBatch) -> Iterator[Event]:
        """The events of a stretch, in its order."""
        left = [self._by_transaction(places) for places in stretch.parts()]
        for owner in stretch.due.by_rank[0].tolist():
            yield from next(left[owner])[1]

    def _by_transaction(self, places: GroupPlaces) -> Iterator[tuple[int, Iterator[Event]]]:
        rendering = self._rendering.setdefault(places.part.source, Rendering())
        return groupby(rendering.events(places.span()), attrgetter("place.record.seq"))
