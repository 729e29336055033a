"""Tables of the lake compared with a real server: what is the same, what is not, and what nobody can say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.jobs import ingest
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
    field = rows.schema.field(column)
    return rows.set_column(rows.schema.get_field_index(column), field, pa.array(values, field.type))


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


UNLOGGED = {
    "a value": ("UPDATE t SET v = 'x' WHERE id = 2", Side.DIFFERS, {"id": 2}),
    "a row more": ("INSERT INTO t VALUES (7, 'x')", Side.ONLY_SERVER, {"id": 7}),
    "a row less": ("DELETE FROM t WHERE id = 4", Side.ONLY_LAKE, {"id": 4}),
}


@pytest.mark.parametrize("name", sorted(UNLOGGED))
def test_what_the_server_did_without_its_binlog_is_named(world: LiveWorld, name: str) -> None:
    statement, side, key = UNLOGGED[name]
    world.sql(ROWS)
    world.run()
    world.sql(f"SET sql_log_bin = 0; {statement}")
    [one] = world.said("t").differences
    assert (one.side, one.key) == (side, key)
    if side is Side.DIFFERS:
        assert (one.lake, one.server) == ({"v": "b"}, {"v": "x"})


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER TABLE t ADD COLUMN extra INT", "+ column extra"),
        ("ALTER TABLE t MODIFY v VARCHAR(12)", "~ column v"),
        ("DROP TABLE t", "- the table"),
        ("ALTER TABLE t DROP PRIMARY KEY", "- key"),
    ],
)
def test_a_table_altered_without_the_binlog_is_named(world: LiveWorld, statement: str, said: str) -> None:
    world.sql(ROWS)
    world.run()
    world.sql(f"SET sql_log_bin = 0; {statement}")
    found = world.said("t")
    assert found.outcome is Outcome.MISMATCH
    assert found.definition[0].startswith(said)


def test_what_changed_behind_the_published_rows_is_left_out_and_counted(world: LiveWorld) -> None:
    world.sql(ROWS)
    world.run()
    world.sql("UPDATE t SET v = 'x' WHERE id = 2; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (9, 'n')")
    found = world.said("t")
    assert (found.outcome, found.compared, found.changed) == (Outcome.MATCH, 2, 3)
    assert "3 changes are landed and not published" in found.reasons[0]
    world.run()
    assert (world.said("t").compared, world.said("t").changed) == (4, 0)


INCONCLUSIVE = {
    "nothing is published": (None, "UPDATE t SET v = 'x'", "landed and not published"),
    "a DDL behind what is published": (ROWS, "UPDATE t SET v = 'x'; ALTER TABLE t ADD COLUMN n INT", "behind what is"),
    "no key, and rows behind": (
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES (2)",
        "no primary key, and 1 rows changed",
    ),
    "a server without transactions": ("CREATE TABLE t (a INT PRIMARY KEY) ENGINE = MyISAM", "", "engine is MyISAM"),
    "part of a table truncated": (
        "CREATE TABLE t (a INT PRIMARY KEY) PARTITION BY HASH (a) PARTITIONS 2; INSERT INTO t VALUES (1), (2);"
        "ALTER TABLE t TRUNCATE PARTITION p0",
        "",
        "no log says which",
    ),
    "a zero date as a key": (
        "SET sql_mode = ''; CREATE TABLE t (d DATE PRIMARY KEY); INSERT INTO t VALUES ('0000-00-00')",
        "",
        "no calendar has",
    ),
}


@pytest.mark.parametrize("name", sorted(INCONCLUSIVE))
def test_what_nobody_can_say_is_inconclusive(world: LiveWorld, name: str) -> None:
    before, after, said = INCONCLUSIVE[name]
    world.sql(before or f"{ROWS} CREATE TABLE other (id INT)")
    if before is not None:
        world.run()
    else:
        ingest.land("s", settings=world.settings)
        ingest.track("s", settings=world.settings)
    world.sql(after)
    found = world.said("t")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert said in found.reasons[0]


def test_a_server_that_does_not_number_is_inconclusive(world: LiveWorld) -> None:
    world.sql(ROWS)
    world.run()
    world.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    try:
        found = world.said("t")
    finally:
        world.sql("SET GLOBAL gtid_mode = ON")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "does not number" in found.reasons[0]


def test_rows_from_before_the_stream_are_not_covered(world: LiveWorld) -> None:
    world.sql(f"{ROWS} INSERT INTO t VALUES (5, 'e'), (6, 'f'); FLUSH BINARY LOGS;")
    world.sql("PURGE BINARY LOGS TO 'binlog.000002'")
    world.sql("UPDATE t SET v = 'x' WHERE id = 2; DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (9, 'n')")
    world.sql("SET binlog_row_image = MINIMAL; UPDATE t SET v = 'y' WHERE id = 6; UPDATE t SET v = 'z' WHERE id = 9")
    world.run()
    found = world.said("t")
    assert (found.outcome, found.compared, found.not_covered) == (Outcome.MATCH, 2, 4)
    # What was deleted and is there again is no row from before the stream.
    world.sql("SET sql_log_bin = 0; INSERT INTO t VALUES (3, 'c'); UPDATE t SET v = 'q' WHERE id = 2")
    found = world.said("t")
    assert found.outcome is Outcome.MISMATCH
    assert {(one.side, one.key["id"]) for one in found.differences} == {(Side.ONLY_SERVER, 3), (Side.DIFFERS, 2)}


def test_a_truncated_table_is_whole_from_there_on(world: LiveWorld) -> None:
    world.sql(f"{ROWS} FLUSH BINARY LOGS;")
    world.sql("PURGE BINARY LOGS TO 'binlog.000002'")
    world.sql("TRUNCATE t; INSERT INTO t VALUES (1, 'a')")
    world.run()
    assert (world.said("t").outcome, world.said("t").not_covered) == (Outcome.MATCH, 0)
    world.sql("SET sql_log_bin = 0; INSERT INTO t VALUES (3, 'c')")
    assert world.said("t").outcome is Outcome.MISMATCH
