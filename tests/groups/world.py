"""A group over real servers, with settings of its own. Not here: tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata_cdc.groups.stream import GroupStream
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.mysql_server import MysqlServer


@dataclass
class Shards:
    """A group as the settings have it, and the worlds of its sources."""

    sources: Sequence[World]
    name: str = "orders"
    max_skew: int = 2_000_000
    clock_bound: int = 1_000_000
    former: Sequence[World] = ()
    journal: str | None = None
    source_gtid_column: str | None = None
    options: dict[str, Any] = field(default_factory=lambda: {"heartbeat_seconds": 0.2})

    @classmethod
    def over(cls, servers: dict[str, MysqlServer], folder: Path) -> Shards:
        """A world for each server, named as it is; the store and the lake are each its own."""
        worlds = []
        for name, server in sorted(servers.items()):
            place = folder / name
            place.mkdir(exist_ok=True)
            worlds.append(World(server, place, name))
        return cls(worlds)

    def land(self) -> None:
        for world in self.sources:
            world.land()
            world.track()

    def stream(self, start: str = "beginning", **options: Any) -> GroupStream:
        return GroupStream(self, start, **{**self.options, **options})

    def lines(self, start: str = "beginning", **options: Any) -> list[dict[str, Any]]:
        return list(lines_of(self.stream(start, **options)))


def lines_of(stream: GroupStream) -> Iterator[dict[str, Any]]:
    for written in stream.written():
        yield from map(json.loads, written.splitlines())


def changes(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without heartbeats, and without what may differ between readers."""
    return [
        {name: value for name, value in line.items() if name != "version"} for line in lines if "heartbeat" not in line
    ]
