"""Keys that the server tells apart, and a column of the lake does not: rows under them stay apart in mirrors."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.compute as pc
import pytest

from strata_cdc.mirrors.data_files import write_rows
from strata_cdc.mirrors.dump.dump_table import DumpSettings, TableDump, TableDumped
from strata_cdc.mirrors.renames import without_invalid
from strata_cdc.schema.model.definition import TableName
from tests.mirrors import history_check
from tests.mirrors.exact_rows import mirrored, selected
from tests.mirrors.test_dump import source_of
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pymysql

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

KEYS = {
    "day": ("d DATE PRIMARY KEY", ["'0000-00-00'", "'2024-00-15'", "'2024-02-31'", "'0000-01-01'", "'2024-01-15'"]),
    "moment": (
        "d DATETIME(3) PRIMARY KEY",
        ["'0000-00-00'", "'2024-00-15 10:00:00.5'", "'2024-00-15 10:00:00.501'", "'2024-02-31'", "'2024-01-15'"],
    ),
    "stamp": ("d TIMESTAMP(2) NOT NULL, k INT, PRIMARY KEY (d, k)", ["0, 1", "0, 2", "'2024-01-15', 1"]),
    "only_unique": ("d DATE NOT NULL, UNIQUE (d)", ["'0000-00-00'", "'2024-00-15'", "'2024-01-00'"]),
    "keyless": ("d DATE, e DATETIME", ["NULL, '0000-00-00'", "'0000-00-00', NULL", "'2024-00-15', NULL"]),
    "text": ("d VARCHAR(3) CHARACTER SET cp932 PRIMARY KEY", ["x'ED40'", "x'FA5C'", "x'8754'", "x'FA4A'", "'a'"]),
    "code": ("d CHAR(2) CHARACTER SET sjis NOT NULL, UNIQUE (d)", ["x'5C'", "x'815F'", "x'5C815F'", "'a'"]),
    "label": ("d ENUM('a', '') PRIMARY KEY", ["0", "'a'", "2"]),
    "labels": ("d SET('a', '') PRIMARY KEY", ["0", "'a'", "2", "3"]),
}


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop;")
    server.run_sql("RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    return MirrorWorld(server, tmp_path)


def session(server: MysqlServer) -> pymysql.Connection:
    """One that takes any date, and an ENUM's error value."""
    return server.connect("shop", init_command="SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")


def run(connection: pymysql.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def assert_exact(world: MirrorWorld, connection: pymysql.Connection, *tables: str) -> None:
    for table in tables:
        mirror = world.mirror(table)
        assert mirror is not None, table
        assert (table, mirrored(mirror)) == (table, selected(connection, table, mirror.definition))


def test_rows_stay_apart_through_changes(world: MirrorWorld) -> None:
    with session(world.server) as connection:
        for table, (columns, values) in KEYS.items():
            run(connection, f"CREATE TABLE {table} ({columns}, n INT DEFAULT 1)")
            names = "d, k" if table == "stamp" else "d, e" if table == "keyless" else "d"
            run(connection, *(f"INSERT INTO {table} ({names}) VALUES ({one})" for one in values))
        world.publish()
        world.update()
        assert_exact(world, connection, *KEYS)
        for table, (_, values) in KEYS.items():
            first = values[0].split(", ")[0] if table == "stamp" else values[0]
            where = f"d = {first}" if table != "keyless" else "e = '0000-00-00'"
            run(connection, f"UPDATE {table} SET n = 2 WHERE {where}")
        run(connection, "DELETE FROM day WHERE d = '2024-00-15'", "UPDATE day SET d = '2024-00-15' WHERE n = 2")
        run(connection, "DELETE FROM label WHERE d = 2", "DELETE FROM labels WHERE d = 2")
        run(connection, "UPDATE only_unique SET d = '2023-00-00' WHERE d = '2024-01-00'")
        run(connection, "DELETE FROM keyless WHERE d = '2024-00-15'")
        world.publish()
        report = world.update()
        assert [one for one in report.mirrors if one.error or one.behind] == []
        assert_exact(world, connection, *KEYS)


def test_only_mirrors_that_need_it_have_another_column(world: MirrorWorld) -> None:
    with session(world.server) as connection:
        run(connection, "CREATE TABLE plain (d DATE PRIMARY KEY, t TIMESTAMP NULL)", "CREATE TABLE odd LIKE plain")
        run(connection, "INSERT INTO plain VALUES ('2024-01-01', NULL)", "INSERT INTO odd VALUES ('2024-01-01', NULL)")
        world.publish()
        world.update()
        run(connection, "INSERT INTO odd VALUES ('2024-00-15', NULL)")
        world.publish()
        world.update()
        plain, odd = world.mirror("plain"), world.mirror("odd")
        assert plain is not None
        assert odd is not None
        assert plain.schema.names == ["d", "t", "_seq"]
        assert odd.schema.names == ["d", "t", "_seq", "_invalid"]
        assert odd.to_arrow().schema.names == ["d", "t", "_seq"]
        assert plain.to_arrow(["_invalid"]).column(0).to_pylist() == [None]
        assert sorted(map(str, odd.to_arrow(["d", "_invalid"]).column("_invalid").to_pylist())) == [
            "None",
            "[('d', '2024-00-15')]",
        ]
        by_polars = pl.scan_delta(odd.url).select("d", pl.col("_invalid").is_null()).collect()
        assert set(by_polars.rows()) == {(date(2024, 1, 1), True), (None, False)}
        assert_exact(world, connection, "plain", "odd")


def test_rows_stay_apart_in_dumps(world: MirrorWorld) -> None:
    """In chunks of one row, with a change of each kind of key between the first chunk and the last."""
    with session(world.server) as connection:
        for table, (columns, values) in KEYS.items():
            run(connection, f"CREATE TABLE {table} ({columns}, n INT DEFAULT 1)")
            names = "d, k" if table == "stamp" else "d, e" if table == "keyless" else "d"
            run(connection, *(f"INSERT INTO {table} ({names}) VALUES ({one})" for one in values))
        run(connection, "CREATE TABLE many (d DATE, k INT, PRIMARY KEY (d, k))")
        days = ["0000-00-00", "2024-00-15", "0000-01-01", "2024-01-15"]
        run(connection, *(f"INSERT INTO many VALUES ('{day}', {k})" for day in days for k in range(600)))
        world.publish()

        def write(_: object) -> None:
            run(connection, "DELETE FROM many WHERE d = '2024-00-15' AND k = 7")
            run(connection, "UPDATE many SET d = '2024-00-16' WHERE d = '0000-00-00' AND k = 8")
            run(connection, "REPLACE INTO many VALUES ('0000-00-00', 9)")

        for table in [*KEYS, "many"]:
            report = dump(world, table, write if table == "many" else lambda _: None)
            assert table != "many" or (report.chunks > 1 and report.changes)
        assert_exact(world, connection, *KEYS, "many")
        run(connection, "DELETE FROM many WHERE d = '2024-00-15'", "DELETE FROM day WHERE d = '0000-00-00'")
        world.publish()
        report = world.update()
        assert [one for one in report.mirrors if one.error or one.behind] == []
        assert_exact(world, connection, *KEYS, "many")


def dump(world: MirrorWorld, table: str, tell: Callable[[object], None] = lambda _: None) -> TableDumped:
    return TableDump(source_of(world), TableName(world.database, table), DumpSettings(1, 0.0), tell).run()


def test_mirrors_of_older_versions_are_read_again_if_they_lost_values(world: MirrorWorld) -> None:
    with session(world.server) as connection:
        for table, day in (("poor", "0000-00-00"), ("rich", "2024-01-01")):
            run(connection, f"CREATE TABLE {table} (d DATETIME PRIMARY KEY)", f"INSERT INTO {table} VALUES ('{day}')")
        world.publish()
        world.update()
        for table in ("poor", "rich"):
            as_older_versions_wrote_it(world, table)
        run(connection, *(f"INSERT INTO {table} VALUES ('2024-00-15')" for table in ("poor", "rich")))
        world.publish()
        poor, rich = world.update().mirrors
        assert (poor.table, poor.needs_dump, rich.table, rich.behind) == ("shop.poor", True, "shop.rich", None)
        assert "has written d without dates" in str(poor.behind)
        assert_exact(world, connection, "rich")
        dump(world, "poor")
        assert world.update().mirrors[0].behind is None
        assert_exact(world, connection, "poor", "rich")


def test_mirrors_of_older_versions_are_read_again_if_texts_have_other_forms(world: MirrorWorld) -> None:
    with session(world.server) as connection:
        for table, text in (("poor", "ED40"), ("usual", "FA5C"), ("rich", "82A0")):
            columns = "d VARCHAR(9) CHARACTER SET cp932 PRIMARY KEY, e DATE NOT NULL"
            run(connection, f"CREATE TABLE {table} ({columns})")
            run(connection, f"INSERT INTO {table} VALUES (x'{text}', '2024-01-01')")
        world.publish()
        world.update()
        for table in ("poor", "usual", "rich"):
            as_older_versions_wrote_it(world, table, exact="1")
        run(connection, "INSERT INTO rich VALUES (x'ED40', '0000-00-00')")
        world.publish()
        found = {one.table: one for one in world.update().mirrors}
        assert {name: one.needs_dump for name, one in found.items()} == {
            "shop.poor": True,
            "shop.usual": True,
            "shop.rich": False,
        }
        dump(world, "poor")
        assert_exact(world, connection, "poor", "rich")


def test_histories_without_a_key_follow_rows_across_ddl_that_gives_them_other_texts(world: MirrorWorld) -> None:
    with session(world.server) as connection:
        run(connection, "CREATE TABLE days (d DATE)", "INSERT INTO days VALUES (NULL), ('0000-00-00'), ('2024-01-01')")
        run(connection, "CREATE TABLE labels (d ENUM('a'))", "INSERT INTO labels VALUES (0), ('a')")
        run(connection, "SET sql_mode = ''", "ALTER TABLE days MODIFY d DATE NOT NULL")
        run(connection, "ALTER TABLE labels MODIFY d ENUM('a', '')", "INSERT INTO labels VALUES (0), (2)")
        run(connection, "DELETE FROM days WHERE d = 0 LIMIT 1", "DELETE FROM labels WHERE d = 0")
        world.publish()
        world.update()
        # NULL became the zero date, and both are NULL in the lake.
        for table, wanted in (("days", [date(2024, 1, 1), None]), ("labels", ["", "a"])):
            for reader in history_check.READERS:
                found = history_check.reported(history_check.opened(world, table), reader)
                assert found is not None, table
                last = found.filter(pc.is_null(found["_valid_to_seq"]))["d"].to_pylist()
                assert (table, sorted(last, key=str)) == (table, wanted)


def as_older_versions_wrote_it(world: MirrorWorld, table: str, exact: str | None = None) -> None:
    """Without the map, and without the word that it is not needed."""
    mirror = world.mirror(table)
    assert mirror is not None
    columns = without_invalid(mirror.schema)
    plain = list(write_rows(mirror.url, columns, [mirror.to_arrow()]))
    actions = [*(file.removed(0) for file in mirror.snapshot.files.values()), *(file.added() for file in plain)]
    actions.append(mirror.metadata({"strata.exact": exact}, schema=columns))
    mirror.commit(actions, mirror.position, operation="MERGE")
