"""Groups of real servers whose clocks are hours apart, and are set while they are read. The witness is the order in
which one client wrote to them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.groups.conftest import NAMES, set_clock
from tests.groups.test_group_stream import TABLE, Following, is_row
from tests.groups.world import Shards, changes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
HOUR = 3600
AHEAD = dict(zip(NAMES, (0, 3 * HOUR, -2 * HOUR), strict=True))


@pytest.fixture(scope="module")
def shards(servers: dict[str, MysqlServer], clock: Path | None, tmp_path_factory: Any) -> Iterator[Shards]:
    if clock is None:
        pytest.skip("no compiler: servers' clocks cannot be set")
    for name, server in servers.items():
        set_clock(server, AHEAD[name])
    for server in servers.values():
        server.run_sql(TABLE)
    yield Shards.over(servers, tmp_path_factory.mktemp("clocks"))
    for server in servers.values():
        set_clock(server, 0)


def write(shards: Shards, begin: int, end: int) -> None:
    """One behind the other, each to another server."""
    for number in range(begin, end):
        world = shards.sources[number % len(NAMES)]
        with world.server.connect("d") as connection, connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO t (a) VALUES ('{number}')")


def rows(lines: list[dict[str, Any]]) -> list[int]:
    return [int(line["after"]["a"]) for line in lines if "op" in line]


def test_clocks_that_are_hours_apart(shards: Shards, caplog):
    write(shards, 0, 30)
    lines = shards.lines()
    assert rows(lines) == list(range(30))
    assert "the clock of shard_b is +1" in caplog.text or "the clock of shard_b is +10800" in caplog.text
    middle = changes(lines)[40]
    assert changes(shards.lines(middle["token"])) == changes(lines)[41:]


@pytest.mark.parametrize("ahead", [2 * HOUR, -3 * HOUR])
def test_a_clock_that_is_set_while_it_is_read(shards: Shards, ahead):
    """What one server wrote keeps its order, nothing is lost, and all goes on within seconds."""
    begin = 1000 if ahead > 0 else 2000
    with Following(shards) as reader:
        write(shards, begin, begin + 9)
        reader.wait(is_row(str(begin + 8)))
        set_clock(shards.sources[0].server, ahead)
        write(shards, begin + 9, begin + 18)
        for number in range(begin + 9, begin + 18):
            reader.wait(is_row(str(number)))
    set_clock(shards.sources[0].server, 0)
    found = rows(reader.lines)
    assert sorted(found) == list(range(begin, begin + 18))
    for name in NAMES:
        mine = rows([line for line in reader.lines if line.get("source") == name])
        assert mine == sorted(mine)
