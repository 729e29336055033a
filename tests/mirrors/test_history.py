"""The history of a mirrored table: each version of each row, where it held; as DuckDB, polars and Spark have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import strata_cdc.mirrors
from strata_cdc.cli.main import run
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.errors import Usage
from strata_cdc.mirrors.dump.dump_table import DumpSettings, TableDump
from strata_cdc.mirrors.dump.finish import DumpSource
from strata_cdc.mirrors.follow.upkeep import compact_mirrors, vacuum_mirrors
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.mirrors.renames import Renames
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.tables.convert import state_schema
from tests.mirrors import history_check
from tests.mirrors.world import MirrorWorld
from tests.spark_session import spark
from tests.views.test_views import load_delta

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pymysql

    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

BEFORE = """
CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, note VARCHAR(20), n SMALLINT, blo BLOB, made DATETIME(6));
INSERT INTO orders VALUES (1, 'one', 1, 0x01, '2026-01-01'), (2, 'two', 2, NULL, NULL),
  (18446744073709551615, 'big', 3, 0xff, NULL), (4, 'never touched', 4, 0x04, NULL);
CREATE TABLE bag (n INT, t VARCHAR(5)); INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (NULL, NULL), (2, 'b');
CREATE TABLE uniq (u CHAR(3) NOT NULL UNIQUE, x INT); INSERT INTO uniq VALUES ('a', 1), ('b', 2);
CREATE TABLE `we'ird "na``me` (`id"` INT PRIMARY KEY, `_valid_from` INT, `v'x` JSON);
INSERT INTO `we'ird "na``me` VALUES (1, 2, '{"a": 1}'), (2, 2, NULL);
"""
LIFE: tuple[str, ...] = (
    "UPDATE orders SET note = 'uno' WHERE id = 1; UPDATE bag SET t = 'c' WHERE n = 1 LIMIT 1; "
    "UPDATE uniq SET u = 'A' WHERE u = 'a'; UPDATE `we'ird \"na``me` SET `_valid_from` = 3 WHERE `id\"` = 1",
    "SET SESSION binlog_row_image = MINIMAL; UPDATE orders SET n = n + 1 WHERE id IN (1, 2); "
    "UPDATE orders SET n = n + 1 WHERE id = 1; UPDATE bag SET t = 'x' WHERE n IS NULL; "
    "DELETE FROM bag WHERE n = 1 LIMIT 1; SET SESSION binlog_row_image = NOBLOB; "
    "UPDATE orders SET note = 'noblob' WHERE id = 18446744073709551615; SET SESSION binlog_row_image = FULL",
    "BEGIN; UPDATE orders SET id = 100 WHERE id = 1; UPDATE orders SET id = 1 WHERE id = 2; "
    "UPDATE orders SET id = 2 WHERE id = 100; INSERT INTO orders VALUES (50, 'gone at once', 0, NULL, NULL); "
    "DELETE FROM orders WHERE id = 50; COMMIT; DELETE FROM uniq WHERE u = 'b'",
    "ALTER TABLE orders RENAME COLUMN note TO remark, ADD COLUMN loyalty INT NOT NULL DEFAULT 7 FIRST; "
    "UPDATE orders SET loyalty = 8 WHERE id = 2; ALTER TABLE orders MODIFY n BIGINT, DROP COLUMN made; "
    "ALTER TABLE bag ADD COLUMN k INT DEFAULT 5; INSERT INTO bag VALUES (1, 'a', 5), (1, 'a', 6); "
    "DELETE FROM bag WHERE k = 5 AND n = 2; INSERT INTO uniq VALUES ('b', 3)",
    "DELETE FROM orders WHERE id = 18446744073709551615; INSERT INTO orders VALUES (9, 9, 'new', 9, NULL); "
    "TRUNCATE TABLE uniq; INSERT INTO uniq VALUES ('A', 7); UPDATE uniq SET x = 8",
    "INSERT INTO orders VALUES (1, 18446744073709551615, 'again', 1, 0x11); TRUNCATE TABLE bag; "
    "INSERT INTO bag VALUES (1, 'a', 5); INSERT INTO bag VALUES (1, 'a', 5); TRUNCATE TABLE uniq",
)
TABLES = ("bag", "orders", "uniq", "we'ird \"na`me")
EMPTY = "later"
"""A table that never has a row: it has neither changes nor files."""
Seen = list[tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def lived(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MirrorWorld, Seen]]:
    """Tables from before the stream, dumped, and what SELECT gave at some positions behind."""
    folder: Path = tmp_path_factory.mktemp("history")
    server.run_sql(BEFORE)
    server.run_sql("FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    world = MirrorWorld(server, folder)
    world.snapshot()
    server.run_sql(f"CREATE TABLE shop.{EMPTY} (id INT PRIMARY KEY, name VARCHAR(5))")
    world.publish()
    source = DumpSource(
        world.name, world.source.address, world.lake, SchemaStore(world.engine), world.publish, world.mode
    )
    for table in TABLES:
        TableDump(source, TableName("shop", table), DumpSettings(chunk_bytes=1 << 20, pause_seconds=0)).run()
    with server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
        yield world, [step(world, connection, statements) for statements in ("DO 0", *LIFE)]


def step(world: MirrorWorld, connection: pymysql.Connection, statements: str) -> tuple[int, dict[str, Any]]:
    with connection.cursor() as cursor:
        for statement in statements.split("; "):
            cursor.execute(statement)
        world.publish()
        report = world.update()
        assert [one for one in report.mirrors if one.error or one.behind] == []
        found = {}
        for table in TABLES:
            cursor.execute("SELECT * FROM `" + table.replace("`", "``") + "`")
            found[table] = cursor.fetchall()
    return max(one.position.seq for one in report.mirrors if one.position is not None), found


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("reader", [*history_check.READERS, history_check.by_duckdb_views])
def test_what_is_valid_at_a_position_is_what_select_gave(
    lived: tuple[MirrorWorld, Seen], reader: Any, table: str
) -> None:
    world, seen = lived
    history = history_check.opened(world, table)
    found = reader(history)
    history_check.assert_spans(found)
    assert history.begins_at.seq <= seen[0][0]
    for seq, rows in seen:
        history_check.assert_valid(history, found, seq, rows[table])


def test_versions_have_their_span(lived: tuple[MirrorWorld, Seen]) -> None:
    """What was there has no beginning, steps of a transaction are none, what TRUNCATE took has an end."""
    world, _ = lived
    found = history_check.by_duckdb(history_check.opened(world, "uniq")).to_pylist()
    shown = [(row["u"], row["x"], row["_valid_from"] is None, row["_valid_to"] is None) for row in found]
    assert sorted(shown) == sorted(
        [("a", 1, True, False), ("A", 1, False, False), ("b", 2, True, False), ("b", 3, False, False),
         ("A", 7, False, False), ("A", 8, False, False)]
    )  # fmt: skip
    orders = history_check.by_duckdb(history_check.opened(world, "orders"))
    assert "gone at once" not in orders["remark"].to_pylist()
    (untouched,) = [row for row in orders.to_pylist() if row["remark"] == "never touched"]
    assert (untouched["_valid_from_gtid"], untouched["_valid_to_gtid"]) == (None, None)


@pytest.mark.parametrize("reader", [*history_check.READERS, history_check.by_duckdb_views])
def test_a_table_that_never_had_a_row_has_no_versions(lived: tuple[MirrorWorld, Seen], reader: Any) -> None:
    world, _ = lived
    history = history_check.opened(world, EMPTY)
    found = reader(history)
    assert (found.num_rows, found.schema.names[:2]) == (0, ["id", "name"])
    history_check.assert_spans(found)


@pytest.mark.spark
def test_spark_has_the_same(lived: tuple[MirrorWorld, Seen], spark: Any) -> None:
    world, _ = lived
    for table in (*TABLES, EMPTY):
        history = history_check.opened(world, table)
        for statement in history.sql(Dialect.SPARK, Through.FILES):
            spark.sql(statement)
        rows = spark.sql(f"SELECT * FROM `{'shop__' + table.replace('`', '``')}__history`").toArrow()
        wanted = history_check.by_duckdb(history)
        assert sorted(map(repr, rows.cast(wanted.schema).to_pylist())) == sorted(map(repr, wanted.to_pylist()))


@pytest.mark.spark
def test_spark_has_a_mirror_of_mapped_columns(tmp_path: Path, spark: Any) -> None:
    """By Arrow: its Delta connector is not among what the tests need."""
    columns, key = (Column("id", "int", nullable=False), Column("a b", "text")), KeyPart("id")
    definition = TableDefinition(columns, (Key("PRIMARY", KeyKind.PRIMARY, (key,)),))
    rows = pa.Table.from_pylist([{"id": 1, "a b": "x"}, {"id": 2, "a b": None}], schema=state_schema(definition))
    name, at = TableName("shop", "kept"), MirrorPosition(0, "", 0, 1)
    made = Mirror.create(str(tmp_path), "s", name, definition, [rows], at, renames=Renames.KEEP)
    assert "columnMapping" in made.snapshot.features
    found = spark.createDataFrame(strata_cdc.mirrors.open(str(tmp_path), "s", "shop.kept").to_arrow(rows.schema.names))
    assert sorted(map(tuple, found.collect())) == [(1, "x"), (2, None)]


def test_the_command_prints_the_views(
    lived: tuple[MirrorWorld, Seen], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the engine's reader of Delta tables: the view goes on with the mirror."""
    world, _ = lived
    settings = world.folder / "strata.toml"
    settings.write_text(f'lake = "{world.lake}"\n[sources.s]\nconnection = "none"\nstore = "{world.engine.url}"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(settings))
    monkeypatch.setenv("AIRFLOW_CONN_NONE", "mysql://nobody@127.0.0.1/")
    assert run(["views", "--history"]) == 0
    said = capsys.readouterr().out
    with duckdb.connect() as connection:
        load_delta(connection)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(said)
        found = pa.table(connection.execute("SELECT * FROM shop.orders__history").arrow())
        assert found.num_rows == history_check.by_polars(history_check.opened(world, "orders")).num_rows
        world.server.run_sql("INSERT INTO orders VALUES (1, 77, 'since', 1, NULL)", "shop")
        world.publish()
        world.update()
        assert connection.execute("SELECT count(*) FROM shop.orders__history").fetchall() == [(found.num_rows + 1,)]


def test_without_its_first_files_it_is_refused(lived: tuple[MirrorWorld, Seen]) -> None:
    """The last of this file: it takes the files away."""
    world, seen = lived
    locks = MirrorLocks(world.lake, world.name, world.source.address)
    compact_mirrors(world.lake, world.name, lambda _: True, locks=locks)
    vacuum_mirrors(world.lake, world.name, lambda _: True, locks=locks, now_micros=4 * 10**15, retain_hours=0)
    for table in ("bag", "uniq"):
        try:
            history = history_check.opened(world, table)
        except Usage as error:
            assert "vacuum has deleted" in error.facts().message  # noqa: PT017  of those that have none
            continue
        found = history_check.by_polars(history)
        seq, rows = seen[-1]
        history_check.assert_valid(history, found, max(seq, history.begins_at.seq), rows[table])
