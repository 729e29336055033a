"""Streams by file whose server has begun a new file and written nothing: they end where the server does."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from strata_cdc.position.binlog_position import BinlogPosition
from tests.mysql_server import start_server
from tests.streams.world import World, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.streams.stream import ChangeStream

pytestmark = pytest.mark.mysql
ROUNDS = 6
WAIT_SECONDS = 20.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("quiet")
    with start_server(folder / "server", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF") as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        yield World(server, folder)


def rows_of(stream: ChangeStream) -> int:
    """How many rows it has, if it ends by itself."""
    late = time.monotonic() + WAIT_SECONDS
    count = 0
    for line in lines_of(stream):
        count += "after" in line
        if time.monotonic() > late:
            stream.close()
            pytest.fail("the stream does not end")
    return count


def head_of(world: World) -> BinlogPosition:
    """Where the server writes."""
    path = world.server.binlogs()[-1]
    return BinlogPosition.from_offset(path.name, path.stat().st_size)


def read(world: World, start: str, until: str | None = None) -> int:
    return rows_of(world.stream(start, until=until, heartbeat_seconds=0.1))


def test_it_ends_where_nothing_is_written_yet(world: World) -> None:
    chance, rows = random.Random(5), 0
    for _ in range(ROUNDS):
        written = chance.randint(0, 2)
        world.server.run_sql("INSERT INTO d.t VALUES ();" * written or "DO 1")
        rows += written
        if chance.random() < 0.5:
            world.land()
            world.track()
        world.server.run_sql("FLUSH BINARY LOGS;" * chance.randint(1, 3))
        head = head_of(world)
        behind = read(world, "beginning", str(head))
        assert behind == read(world, "beginning") == read(world, "beginning", "now") == rows
        assert read(world, "now") == read(world, str(head)) == read(world, str(head), str(head)) == 0
        last = world.stream("now")
        assert rows_of(last) == 0
        token = last.reached()
        assert token is not None
        assert read(world, token) == 0
        world.server.run_sql("FLUSH BINARY LOGS;" * chance.randint(0, 1) + "INSERT INTO d.t VALUES ()")
        rows += 1
        if chance.random() < 0.5:
            world.land()
            world.track()
        assert read(world, token) == 1
        assert read(world, "beginning", str(head)) == rows - 1
