"""Streams that cannot be given: missing rows, unknown schemas, positions that nobody has any more."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import BinlogPurgedError, SchemaGapError, StatementFormatError, StrataError, Usage
from strata_cdc.position.domains import DomainSet
from strata_cdc.store.database import open_store
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from tests.mysql_server import start_server
from tests.streams.world import World, lines_of

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
LONG_AGO = "2020-01-01"


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("refusals")
    made = World(server, folder)
    server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)")
    made.land()
    made.track()
    return made


def token_in(error: StrataError) -> str:
    """The token that the error's remedy names."""
    return re.findall(r"--from (\S+?)`", error.remedy or "")[-1]


def purge(world: World) -> None:
    """What has been written is gone, and something follows it."""
    world.server.run_sql("INSERT INTO d.t SELECT MAX(a) + 10 FROM d.t; FLUSH BINARY LOGS")
    world.server.run_sql(f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'")
    world.server.run_sql("INSERT INTO d.t SELECT MAX(a) + 10 FROM d.t")


def test_rows_that_a_statement_changed_are_missing(world: World):
    world.server.run_sql(
        "INSERT INTO t VALUES (2); SET binlog_format = STATEMENT; INSERT INTO t VALUES (3);"
        "SET binlog_format = ROW; INSERT INTO t VALUES (4)",
        "d",
    )
    given = []
    with pytest.raises(StatementFormatError, match="changed by a statement") as caught:
        given += lines_of(world.stream())
    # What had been given before is there; a reader who leaves the transaction out is told how.
    assert caught.value.remedy is not None
    token = token_in(caught.value)
    assert [line["after"] for line in world.lines(token) if "op" in line] == [{"a": 4}]
    assert world.lines(token, tables=["x.*"]) == []
    # Where the statement's table is not wanted, the stream does not end.
    assert "`--table`" in caught.value.remedy
    world.lines(tables=["x.*", "d.other"])


def test_a_statement_that_names_no_table_may_have_changed_any(world: World):
    before = world.stream("now", until="now")
    assert list(before) == []
    start = before.reached()
    world.server.run_sql(
        "DELIMITER //\nCREATE FUNCTION f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA\n"
        "BEGIN INSERT INTO t VALUES (30); RETURN 1; END//\nDELIMITER ;\n"
        "INSERT INTO t VALUES (29); SET binlog_format = STATEMENT; SELECT f(); SET binlog_format = ROW;"
        "INSERT INTO t VALUES (31)",
        "d",
    )
    for tables in ([], ["d.t"], ["x.*"]):
        with pytest.raises(StatementFormatError, match="names no table") as caught:
            world.lines(start, tables=tables)
        expected = [] if tables == ["x.*"] else [{"a": 31}]
        rest = world.lines(token_in(caught.value), tables=tables)
        assert [line["after"] for line in rest if "op" in line] == expected


@pytest.mark.parametrize("mode", ["ON", "OFF"])
def test_without_gtids_too_a_reader_can_continue(tmp_path, mode):
    with start_server(tmp_path / "server", f"--gtid-mode={mode}", "--enforce-gtid-consistency=ON") as server:
        world = World(server, tmp_path)
        server.run_sql(
            "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); SET binlog_format = STATEMENT;"
            "INSERT INTO d.t VALUES (1); SET binlog_format = ROW; INSERT INTO d.t VALUES (2)"
        )
        with pytest.raises(StatementFormatError) as caught:
            world.lines()
        assert [line["after"] for line in world.lines(token_in(caught.value)) if "op" in line] == [{"a": 2}]


def test_a_stream_that_has_failed_has_reached_nothing_behind_its_fault(world: World):
    stream = world.stream()
    with pytest.raises(StatementFormatError):
        list(stream)
    reached = stream.reached()
    assert reached is not None
    with pytest.raises(StatementFormatError):
        world.lines(reached)


def test_a_gap_is_refused_with_the_command(world: World, tmp_path):
    behind = World(world.server, tmp_path)
    purge(world)
    behind.land()
    with pytest.raises(SchemaGapError, match="not known") as caught:
        behind.lines()
    assert caught.value.table == "d.t"
    assert "strata snapshot" in caught.value.remedy


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_position_of_another_kind_of_server_is_no_end_that_comes(world: World, tmp_path, has_landed):
    if not has_landed:
        world = World(world.server, tmp_path)
    said = "the source is a MySQL server, and 0-1-7 is a position of MariaDB"
    for bounds in ({"until": DomainSet.parse("0-1-7"), "follow": True}, {"start": DomainSet.parse("0-1-7")}):
        with pytest.raises(Usage, match=said):
            list(world.stream(**bounds))


def test_what_has_been_purged_is_refused_with_what_can_be_had(world: World, tmp_path):
    purge(world)
    with pytest.raises(BinlogPurgedError, match="begins after") as caught:
        world.lines("beginning")
    # No command is named that meets the same error: what is missing may have changed the tables.
    purged = re.findall(r"begins after (\S+)", caught.value.message)[0]
    with pytest.raises(BinlogPurgedError, match="begins after"):
        world.lines(purged)
    assert caught.value.remedy == "`strata land --source s` says how to land it."
    assert caught.value.earliest == "beginning"
    behind = World(world.server, tmp_path)
    behind.land()
    with pytest.raises(BinlogPurgedError, match="earliest position that can still be read is after"):
        behind.lines("")
    with pytest.raises(BinlogPurgedError, match="nowhere any more; the first"):
        behind.lines(LONG_AGO)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ON", "OFF"])
def test_a_time_of_what_has_been_purged_is_refused_where_nothing_has_landed(tmp_path, mode):
    with start_server(tmp_path / "server", f"--gtid-mode={mode}", "--enforce-gtid-consistency=ON") as server:
        world = World(server, tmp_path)
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)")
        # There never was anything before.
        assert [line["after"] for line in world.lines(LONG_AGO) if "op" in line] == [{"a": 1}]
        purge(world)
        with pytest.raises(BinlogPurgedError, match="the first that can be had was committed") as caught:
            world.lines(LONG_AGO)
        behind = World(server, tmp_path / "landed")
        behind.land()
        with pytest.raises(BinlogPurgedError) as landed:
            behind.lines(LONG_AGO)
        assert landed.value.facts().message == caught.value.facts().message
        with pytest.raises(SchemaGapError):
            world.lines(caught.value.earliest)
        assert world.lines(LONG_AGO, until="landed") == []
        server.run_sql("FLUSH BINARY LOGS")
        server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
        with pytest.raises(BinlogPurgedError, match="nothing was committed since") as caught:
            world.lines(LONG_AGO)
        assert world.lines(caught.value.earliest) == []
        if mode == "OFF":
            return
        snapshot_schemas(world.address, open_store(world.store_url), world.name)
        time.sleep(2)
        server.run_sql("INSERT INTO d.t VALUES (1000)")
        assert [line["after"] for line in world.lines(caught.value.earliest) if "op" in line] == [{"a": 1000}]
