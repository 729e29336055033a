"""The merge of a group as one would write it down, a transaction at a time: the witness of the one by columns."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class _Source:
    epoch: int
    newest: int
    proved: int = 0
    waiting: list[tuple[int, int]] = field(default_factory=list)
    has_ended: bool = False

    @property
    def frontier(self) -> int:
        return self.waiting[0][0] if self.waiting else max(self.newest, self.proved)


class PlainMerge:
    """Numbers in; what is due out, source by source."""

    def __init__(self) -> None:
        self.sources: dict[str, _Source] = {}

    def add(self, source: str, *, epoch: int = 0, least: int = 0) -> None:
        self.sources[source] = _Source(epoch, least)

    def arrive(self, source: str, times: list[int], piece: range) -> None:
        one = self.sources[source]
        for time, number in zip(times, piece, strict=True):
            one.newest = max(one.newest, one.proved, time)
            one.waiting.append((one.newest, number))

    def prove(self, source: str, time: int) -> None:
        self.sources[source].proved = max(self.sources[source].proved, time)

    def finish(self, source: str) -> None:
        self.sources[source].has_ended = True

    @property
    def watermark(self) -> int | None:
        return min((one.frontier for _, one in self._open()), default=None)

    def due(self) -> list[tuple[str, int]]:
        """The first of all is due as long as it waits; nothing can come in front of it."""
        found = []
        while sources := self._open():
            name, first = min(sources, key=lambda one: (one[1].frontier, one[1].epoch, one[0]))
            if not first.waiting:
                break
            found.append((name, first.waiting.pop(0)[1]))
        return found

    def _open(self) -> list[tuple[str, _Source]]:
        return [(name, one) for name, one in self.sources.items() if one.waiting or not one.has_ended]
