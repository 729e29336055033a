"""Makes lines or events of what is due of a group's sources, in the group's order.
Not here: what is due (`merge.py`), lines and events of one source (`streams`)."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.lines import Lines, joined
from strata_cdc.groups.batch import GroupBatch
from strata_cdc.groups.batch_tokens import GroupBatchTokens
from strata_cdc.groups.chunks import GroupSwitchover
from strata_cdc.streams.rendering import Rendering
from strata_cdc.streams.transaction_texts import texts_of_transactions, time_text
from strata_cdc.streams.writing import Writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.groups.batch import GroupTransactions
    from strata_cdc.streams.events import Event


class GroupHeartbeat(Struct, frozen=True):
    """Sent when nothing was due for a while."""

    token: str
    """The positions of all sources."""
    watermark: int | None
    """All changes before this time have been yielded: microseconds UTC, in the group's time; None: of a source nothing
    is known yet."""
    skew: int
    """How far the source that was read furthest is past the watermark (microseconds); 0 without a watermark."""
    held_by: str | None
    """The source that the watermark waits for."""
    held_since: int
    """When the watermark reached its present value: microseconds UTC, by this machine's clock."""


class GroupBatchLines:
    """Writes what is due as JSON lines."""

    def __init__(self) -> None:
        self._writing: dict[str, Writing] = {}

    def write(self, batch: GroupBatch) -> Iterator[bytes]:
        """Yields the JSON lines of a batch in its order, several whole lines at a time."""
        parts, lines = batch.parts(), list[Lines]()
        tokens = GroupBatchTokens(batch, parts)
        for located in parts:
            writing, span = self._writing.setdefault(located.part.source, Writing()), located.span()
            seqs = span.seqs
            texts = texts_of_transactions(located.chunk.own, seqs, tokens.of_part(located, seqs))
            for some in writing.lines_of(span, texts):
                # The lines of all parts are put into one order.
                lines.append(replace(some, seqs=located.ranks[located.ordinals(some.seqs)]))
        return joined(lines)


class GroupBatchEvents:
    """Makes events of what is due."""

    def __init__(self) -> None:
        self._rendering: dict[str, Rendering] = {}

    def render(self, batch: GroupBatch) -> Iterator[Event]:
        """Yields the events of a batch, in its order."""
        left = [self._by_transaction(located) for located in batch.parts()]
        for owner in batch.due.by_rank[0].tolist():
            yield from next(left[owner])[1]

    def _by_transaction(self, located: GroupTransactions) -> Iterator[tuple[int, Iterator[Event]]]:
        rendering = self._rendering.setdefault(located.part.source, Rendering())
        return groupby(rendering.events(located.span()), attrgetter("transaction.record.seq"))


def rendered(
    rendering: GroupBatchEvents, item: GroupBatch | GroupSwitchover | GroupHeartbeat
) -> Iterator[Event | GroupSwitchover | GroupHeartbeat]:
    """Yields the events of a batch, a switchover or a heartbeat."""
    if isinstance(item, GroupBatch):
        return rendering.render(item)
    return iter((item,))


def written(writing: GroupBatchLines, item: GroupBatch | GroupSwitchover | GroupHeartbeat) -> Iterator[bytes]:
    """Yields the lines of a batch, a switchover or a heartbeat."""
    if isinstance(item, GroupBatch):
        return writing.write(item)
    return iter((item.line() if isinstance(item, GroupSwitchover) else heartbeat_line(item) + b"\n",))


def heartbeat_line(heartbeat: GroupHeartbeat) -> bytes:
    """Returns the line of a heartbeat."""
    return msgspec.json.encode(
        {
            "token": heartbeat.token,
            "heartbeat": True,
            "watermark": None if heartbeat.watermark is None else time_text(heartbeat.watermark),
            "skew_seconds": round(heartbeat.skew / 1e6, 3),
            "held_by": heartbeat.held_by,
            "held_since": time_text(heartbeat.held_since),
        }
    )
