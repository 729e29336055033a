"""`spark.read.format("strata")`: the rows and types of the change table and of the server, in any session; what is not
known is refused by name."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.spark_jobs.data_source import StrataSource
from strata_cdc.tables.read import read_changes
from tests.past.past_world import PastWorld, plain
from tests.past.random_types import TYPES
from tests.spark_session import spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow, pytest.mark.spark]
__all__ = ["spark"]

PUSHED = "spark.sql.python.filterPushdown.enabled"
SQL_MODE = "SET SESSION sql_mode = ''; SET SESSION time_zone = '+00:00'; "
LIFE = """
CREATE TABLE items (id INT PRIMARY KEY, price INT, state ENUM('new','sold'), `_op` INT);
INSERT INTO items VALUES (1, 100, 'new', 1), (2, 200, 'new', 2), (3, NULL, NULL, NULL);
ALTER TABLE items ADD COLUMN tag VARCHAR(10) FIRST;
ALTER TABLE items MODIFY price DECIMAL(12,2), MODIFY state ENUM('sold','new','gone');
UPDATE items SET price = price + 0.5, tag = 'x' WHERE id = 1;
INSERT INTO items VALUES ('y', 4, 400, 'gone', 4);
DELETE FROM items WHERE id = 2;
"""
LATER = """
ALTER TABLE items DROP COLUMN tag, ADD COLUMN seen DATETIME(3) NULL;
INSERT INTO items VALUES (5, 5.25, 'new', 5, '2026-02-01 10:00:00.123');
"""


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> PastWorld:
    """Two published intervals, with DDL in both, and a table with columns of every type."""
    world = PastWorld(server, tmp_path_factory.mktemp("world"), name="shop")
    server.run_sql(
        "CREATE DATABASE older; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop; "
        "CREATE TABLE older.t (id INT PRIMARY KEY); INSERT INTO older.t VALUES (1); "
        "ALTER TABLE older.t ADD COLUMN v VARCHAR(5); INSERT INTO older.t VALUES (2, 'a')"
    )
    columns = ", ".join(f"`{name}` {kind}" for name, (kind, _) in TYPES.items())
    server.run_sql(f"{SQL_MODE} CREATE TABLE every (id INT AUTO_INCREMENT PRIMARY KEY, {columns})", "shop")
    rows = itertools.zip_longest(*(values for _, values in TYPES.values()))
    filled = [
        ", ".join(value or values[0] for value, (_, values) in zip(row, TYPES.values(), strict=True)) for row in rows
    ]
    server.run_sql(SQL_MODE + "; ".join(f"INSERT INTO every VALUES (NULL, {row})" for row in filled), "shop")
    server.run_sql(f"{SQL_MODE} UPDATE every SET i = 5, v = 'ä'; DELETE FROM every WHERE id % 3 = 0", "shop")
    server.run_sql(LIFE, "shop")
    world.publish()
    server.run_sql(LATER, "shop")
    world.publish()
    settings = f'lake = "{world.lake}"\nstore = "sqlite:///{world.folder}/store.db"\n[sources.shop]\nconnection = "x"\n'
    (world.folder / "strata.toml").write_text(settings)
    return world


@pytest.fixture
def read(world: PastWorld, spark: SparkSession) -> Any:
    """Reads as a user does."""
    spark.dataSource.register(StrataSource)

    def read(table: str, **options: str) -> DataFrame:
        reader = spark.read.format("strata").option("settings", str(world.folder / "strata.toml"))
        return reader.options(table=table, **options).load()

    return read


def in_order(found: pa.Table) -> pa.Table:
    return found.sort_by([("_seq", "ascending"), ("_row", "ascending")])


@pytest.mark.parametrize("table", ["shop.every", "shop.items"])
def test_it_has_the_rows_and_types_of_the_change_table(world: PastWorld, read: Any, table: str) -> None:
    frame = read(table)
    published = in_order(read_changes(world.lake, "shop", table)).drop_columns(["_interval"])
    types = {field.name: field.dataType for field in from_arrow_schema(published.schema, prefer_timestamp_ntz=True)}
    assert {field.name for field in frame.schema} == types.keys()
    for field in frame.schema:
        if field.name != "_before":
            assert field.dataType == types[field.name], field.name
    found = in_order(frame.toArrow())
    assert found.num_rows == published.num_rows > 0
    for name in published.schema.names:
        assert found[name].to_pylist() == published[name].to_pylist(), name


def test_the_last_change_of_each_row_is_what_the_server_has(world: PastWorld, read: Any) -> None:
    changes = in_order(read("shop.items").toArrow()).to_pylist()
    rows = {(row["id"] or row["_before"]["id"]): row for row in changes}
    left = [row for row in rows.values() if row["_op"] != "delete"]
    names = ["id", "price", "state", "_op", "seen"]
    mine = sorted([plain(row["__op" if name == "_op" else name]) for name in names] for row in left)
    selected, _ = world.select("SELECT id, price, state, `_op`, seen FROM shop.items WHERE id IN (1, 4, 5)")
    changed = [row for row in mine if row[0] in {"1", "4", "5"}]
    # Rows that no later change touched have the value that they were written with: `seen` is NULL before it was added.
    assert changed == sorted([plain(value) for value in row] for row in selected)


def test_a_slice_is_a_partition(world: PastWorld, read: Any) -> None:
    assert read("shop.items").rdd.getNumPartitions() >= 3


def test_a_condition_does_not_stay(spark: SparkSession, read: Any) -> None:
    """Spark keeps readers that evaluate conditions, and would read the next query with them."""
    spark.conf.set(PUSHED, "true")
    try:
        frame = read("shop.items")
        rows = read("shop.items").toArrow().to_pylist()
        assert frame.filter("id = 1").count() == sum(row["id"] == 1 for row in rows)
        assert frame.filter("_op = 'delete'").count() == sum(row["_op"] == "delete" for row in rows)
        assert frame.count() == len(rows)
    finally:
        spark.conf.set(PUSHED, "false")


def test_columns_are_left_out_before_they_are_decoded(read: Any) -> None:
    frame = read("shop.items", columns="_seq, _row, ID, _before")
    assert frame.schema.simpleString() == "struct<_seq:bigint,_row:bigint,id:int,_before:struct<id:int>>"
    assert in_order(frame.toArrow())["id"].to_pylist() == [1, 2, 3, 1, 4, None, 5]


def test_a_schema_that_is_given_is_checked(world: PastWorld, spark: SparkSession, read: Any) -> None:
    reader = spark.read.format("strata").options(settings=str(world.folder / "strata.toml"), table="shop.items")
    assert sorted(row.id or 0 for row in reader.schema("id INT, _op STRING").load().collect()) == [0, 1, 1, 2, 3, 4, 5]
    with pytest.raises(Exception, match="no column id of type string, but int32"):
        reader.schema("id STRING").load().collect()


def test_a_range_by_position(world: PastWorld, read: Any) -> None:
    seqs = sorted({row._seq for row in read("shop.items").collect()})
    executed = [str(LandedStream.open(world.lake, "shop").executed_at(seq)) for seq in seqs]
    found = read("shop.items", since=executed[0], until=executed[2])
    assert sorted({row._seq for row in found.collect()}) == seqs[1:3]
    assert "seen" not in found.columns
    with pytest.raises(Exception, match="is later than"):
        read("shop.items", since=executed[2], until=executed[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "shop.nothing"}, "there is no such table"),
        ({"table": "shop.items", "until": "2999-01-01"}, "PastUnknownError.*the stream has landed up to"),
        ({"table": "shop.items", "columns": "id, colour"}, "there is no column colour"),
        ({"table": "shop.items", "colour": "red"}, "strata has no option colour"),
        ({"table": "shop.items", "source": "other"}, "there is no source 'other'"),
        ({"table": "items"}, "Usage"),
    ],
)
def test_what_is_not_known_is_refused_by_name(read: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        read(**options)


def test_what_has_landed_and_is_not_tracked_is_refused(world: PastWorld, read: Any) -> None:
    """There may be DDL in it."""
    rows = read("shop.items").count()
    world.server.run_sql("INSERT INTO shop.items VALUES (9, 9, 'new', 9, NULL)")
    land_binlog(world.source.address, lake=world.lake, source="shop")
    assert read("shop.items").count() == rows
    with pytest.raises(
        Exception, match=r"PastUnknownError: transaction \d+ is needed, and the stream has landed and is "
    ):
        read("shop.items", until=str(LandedStream.open(world.lake, "shop").executed()))


def test_a_frame_keeps_its_range(world: PastWorld, read: Any) -> None:
    frame = read("shop.items")
    rows = frame.count()
    world.server.run_sql("INSERT INTO shop.items VALUES (10, 9, 'new', 9, NULL)")
    world.publish()
    assert frame.count() == rows < read("shop.items").count()


def test_rows_of_an_unknown_schema_are_refused_and_those_before_are_read(world: PastWorld, read: Any) -> None:
    """The database is older than the stream, so nobody knows the character set of the new column."""
    with pytest.raises(Exception, match=r"SchemaGapError: the schema is not known .* \(source shop, table older.t"):
        read("older.t").collect()
    stream = LandedStream.open(world.lake, "shop")
    [first] = [record.seq for _, record in stream.records() if any(each.database == "older" for each in record.tables)][
        :1
    ]
    assert [row.id for row in read("older.t", until=str(stream.executed_at(first))).collect()] == [1]
