"""The first landing of a server that is idle since its binlogs were purged: the stream begins there, with nothing."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import BinlogPurgedError, SourceDivergedError
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.recorder import StreamEnd
from strata_cdc.landing.repair import rebuild_index
from tests.mariadb_server import FAMILIES, MariadbServer, start_family
from tests.mysql_server import start_server
from tests.streams.world import World
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
BY_FILE = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")


@pytest.fixture(scope="module", params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("idle"), request.param) as running:
        running.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        yield running


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> World:
    server.run_sql("INSERT INTO d.t VALUES ()")
    purge(server)
    made = World(server, tmp_path)
    made.land()
    return made


def purge(server: MysqlServer) -> None:
    server.run_sql("FLUSH BINARY LOGS")
    last = server.binlogs()[-1].name
    # MariaDB keeps a file while somebody reads it.
    wait_until(lambda: server.run_sql(f"PURGE BINARY LOGS TO '{last}'") == "" and len(server.binlogs()) == 1)


def landed(world: World) -> list[int]:
    """Transactions of each segment."""
    return [segment.summary.transactions for segment in LandedStream.open(world.lake, world.name).segments]


def test_it_lands_once_and_goes_on(world: World) -> None:
    for _ in range(2):
        world.land()
        world.track()
        assert landed(world) == [0]
        assert world.lines() == world.lines("now") == []
    world.server.run_sql("FLUSH BINARY LOGS; INSERT INTO d.t VALUES (); INSERT INTO d.t VALUES ()")
    world.land()
    world.track()
    assert landed(world) == [0, 2]
    first = LandedStream.open(world.lake, world.name).segments[0]
    known = first.summary
    rebuild_index(landing_folder(world.lake, world.name), first.name, StreamEnd())
    again = LandedStream.open(world.lake, world.name).segments[0].summary
    assert (again.executed, again.executed_before, again.first_seq) == (known.executed, known.executed, 1)


def test_what_is_purged_before_the_next_landing_is_noticed(world: World) -> None:
    world.server.run_sql("INSERT INTO d.t VALUES ()")
    purge(world.server)
    world.server.run_sql("INSERT INTO d.t VALUES ()")
    with pytest.raises(BinlogPurgedError):
        world.land()
    with pytest.raises(BinlogPurgedError):
        world.lines()
    assert landed(world) == [0]


def test_a_binlog_that_was_reset_is_noticed(world: World) -> None:
    world.server.run_sql(f"{world.server.reset_sql}; INSERT INTO d.t VALUES ()")
    with pytest.raises(SourceDivergedError):
        world.land()
    assert landed(world) == [0]


def test_a_binlog_that_was_reset_and_has_as_many_is_noticed(world: World) -> None:
    """Its newest file has the number of the one with which the stream began."""
    [segment] = LandedStream.open(world.lake, world.name).segments
    number, count = int(segment.name.binlog_file[-6:]), LandedStream.open(world.lake, world.name).executed().count()
    # A FORMAT_DESCRIPTION says in which second its file was begun.
    time.sleep(1.1)
    world.server.run_sql(world.server.reset_sql)
    world.server.run_sql("INSERT INTO d.t VALUES ();" * (count + 1) + "FLUSH BINARY LOGS;" * (number - 1))
    with pytest.raises(SourceDivergedError, match="made at another time"):
        world.land()


def test_a_quiet_server_that_purges_more_is_the_same(world: World, caplog: pytest.LogCaptureFixture) -> None:
    purge(world.server)
    world.land()
    assert landed(world) == [0]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_without_gtids_nothing_is_said_of_a_begin(tmp_path: Path) -> None:
    """Its files go without a transaction: a place in one of them would be lost."""
    with start_server(tmp_path / "server", *BY_FILE) as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        world = World(server, tmp_path)
        for _ in range(2):
            purge(server)
            world.land()
            assert landed(world) == []
        server.run_sql("INSERT INTO d.t VALUES ()")
        world.land()
        assert landed(world) == [1]


def test_the_server_stops_numbering_behind_it(world: World) -> None:
    if isinstance(world.server, MariadbServer):
        pytest.skip("MariaDB numbers all transactions")
    modes = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
    for mode in modes:
        world.server.run_sql(f"SET GLOBAL gtid_mode = {mode}; INSERT INTO d.t VALUES ()")
        world.land()
    assert sum(landed(world)) == len(modes)
