"""A source with settings of its own, and readers of its stream. Not here: tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.protocol.limits import ServerLimits
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.store.database import open_store
from strata_cdc.streams.stream import ChangeStream
from strata_cdc.tracking.track_schema import track_landed
from tests.landing.landing import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from tests.mysql_server import MysqlServer


@dataclass
class World:
    """What a stream has to know of a source, and the steps that make it land."""

    server: MysqlServer
    folder: Path
    name: str = "s"
    lineage: str = ""
    segment_bytes: int = 20_000
    copied_from: dict[str, str] = field(default_factory=dict)
    is_sink: bool = False
    limits: ServerLimits = ServerLimits()

    @property
    def address(self) -> ServerAddress:
        return address_of(self.server, limits=self.limits)

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")

    @property
    def store_url(self) -> str:
        return f"sqlite:///{self.folder}/store.db"

    def land(self) -> None:
        land_binlog(self.address, lake=self.lake, source=self.name, segment_bytes=self.segment_bytes)

    def track(self) -> None:
        engine = open_store(self.store_url)
        track_landed(self.lake, self.name, engine)
        engine.dispose()

    def stream(self, start: Any = "beginning", **options: Any) -> ChangeStream:
        # Unless somebody asks for them: a slow machine must not change what a test reads.
        return ChangeStream(self, start, **{"heartbeat_seconds": 3600.0, **options})

    def lines(self, start: Any = "beginning", **options: Any) -> list[dict[str, Any]]:
        return list(lines_of(self.stream(start, **options)))


def lines_of(stream: ChangeStream) -> Iterator[dict[str, Any]]:
    for written in stream.written():
        yield from map(json.loads, written.splitlines())


def bare(line: dict[str, Any]) -> dict[str, Any]:
    """A line without what may differ between readers: the id of a version that the store does not have yet."""
    return {name: value for name, value in line.items() if name != "version"}
