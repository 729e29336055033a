"""Tables of the lake compared with a real server: what is the same, what is not, and what nobody can say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.jobs.reconcile.report import Outcome, Side
from strata.schema.model.definition import TableName
from strata.tables.layout import table_url
from tests.mysql_server import start_server
from tests.reconcile.live_world import LiveWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_server(tmp_path_factory.mktemp("mysql"), "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as running:
        yield running


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> LiveWorld:
    """A source whose stream begins with an empty database."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    return LiveWorld(server, tmp_path)


def test_a_table_of_many_types_matches(world: LiveWorld) -> None:
    world.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, f FLOAT, d DOUBLE, n DECIMAL(30, 10), s VARCHAR(20) CHARACTER SET latin1,"
        " j JSON, b VARBINARY(9), e ENUM('a', 'b'), w SET('x', 'y'), y YEAR, dt DATETIME(6), ts TIMESTAMP(3) NULL,"
        " ti TIME(2), z BIT(9), g POINT, da DATE);"
        "INSERT INTO t VALUES (1, 1.23456789, 1e300, 1.5, 'ü', '{\"a\": [1, 2.50]}', x'00ff', 'b', 'x,y', 1999,"
        " '2020-01-01 01:02:03.456789', '2020-01-01', '-838:59:59', b'101', POINT(1, 2), '2020-02-29'),"
        " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);"
        "CREATE TABLE nothing (id INT PRIMARY KEY); CREATE TABLE bag (a INT, b TEXT);"
        "INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (NULL, NULL); DELETE FROM bag LIMIT 1;"
    )
    world.run()
    found = world.reconcile()
    assert {name: (one.outcome, one.compared, one.reasons) for name, one in found.items()} == {
        "bag": (Outcome.MATCH, 2, ()),
        "nothing": (Outcome.MATCH, 0, ()),
        "t": (Outcome.MATCH, 2, ()),
    }


ROWS = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');"


def doctored(world: LiveWorld, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in the only file of a change table, behind the back of everybody."""
    [file] = Path(table_url(world.lake, "s", TableName("shop", table))).glob("data/*/*.parquet")
    found = pq.ParquetFile(file).read()
    pq.write_table(change(found), file)


def cell(rows: pa.Table, column: str, at: int, value: object) -> pa.Table:
    values = rows[column].to_pylist()
    values[at] = value
    return rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), pa.array(values, rows.schema.field(column).type))


PLANTED = {
    "a row deleted from a published file": (lambda rows: rows.slice(1), Side.ONLY_SERVER, {"id": 1}),
    "a value changed in one": (lambda rows: cell(rows, "v", 2, "other"), Side.DIFFERS, {"id": 3}),
    "a key changed in one": (lambda rows: cell(rows, "id", 3, 9), Side.ONLY_LAKE, {"id": 9}),
    "a row doubled in one": (lambda rows: pa.concat_tables([rows, rows.slice(1, 1)]), Side.DOUBLED, {"id": 2}),
}


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_what_is_wrong_in_the_lake_is_named(world: LiveWorld, name: str) -> None:
    change, side, key = PLANTED[name]
    world.sql(ROWS)
    world.run()
    doctored(world, "t", change)
    found = world.said("t")
    assert found.outcome is Outcome.MISMATCH
    assert (side, key) in [(one.side, one.key) for one in found.differences]
    assert found.different == len(found.differences) <= 2
