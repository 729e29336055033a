"""Streams that cannot be given: missing rows, unknown schemas, positions that nobody has any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import BinlogPurgedError, SchemaGapError, StatementFormatError
from tests.streams.world import World, lines_of

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("refusals")
    made = World(server, folder)
    server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)")
    made.land()
    made.track()
    return made


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
    token = caught.value.remedy.rpartition("--from ")[2].strip("`.")
    assert [line["after"] for line in world.lines(token) if "op" in line] == [{"a": 4}]
    assert world.lines(token, tables=["x.*"]) == []


def test_a_gap_is_refused_with_the_command(world: World, tmp_path):
    behind = World(world.server, tmp_path)
    purge(world)
    behind.land()
    with pytest.raises(SchemaGapError, match="not known") as caught:
        behind.lines()
    assert caught.value.table == "d.t"
    assert "strata snapshot" in caught.value.remedy


def test_what_has_been_purged_is_refused_with_what_can_be_had(world: World, tmp_path):
    purge(world)
    with pytest.raises(BinlogPurgedError, match="begins behind") as caught:
        world.lines("beginning")
    assert "strata stream --source s --from" in caught.value.remedy
    behind = World(world.server, tmp_path)
    behind.land()
    with pytest.raises(BinlogPurgedError, match="earliest that can be had is behind"):
        behind.lines("")
    with pytest.raises(BinlogPurgedError, match="nowhere any more; the first"):
        behind.lines("2020-01-01")
