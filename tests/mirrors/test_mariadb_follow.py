"""Mirrors that follow what a MariaDB server has logged, from its stream to SELECT: statements that change rows without
row events, and rows of the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc import mirrors
from strata_cdc.mirrors.apply_ddl import CannotFollowError
from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.mirrors.compact import compact, wear_of
from strata_cdc.mirrors.follow.schema_events import SchemaEvents
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.current_rows import NO_SEQUENCE_ROW
from tests.mariadb_server import PREFIXES, start_mariadb
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module", params=PREFIXES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param) as server:
        yield server


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET MASTER; CREATE DATABASE shop")
    return MirrorWorld(server, tmp_path)


def follow(world: MirrorWorld, *statements: str) -> dict[str, str | None]:
    """Why each mirror is behind, after these statements."""
    world.server.run_sql("; ".join(statements), "shop")
    world.publish()
    report = world.update()
    assert [mirror.error for mirror in report.mirrors if mirror.error] == []
    return {mirror.table: mirror.behind for mirror in report.mirrors}


def test_a_table_that_is_replaced_by_its_like(world):
    create = "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a TEXT)"
    follow(world, create, "INSERT INTO t VALUES (1, 'old'), (2, 'old')")
    world.assert_equal()
    follow(world, create, "INSERT INTO t VALUES (2, 'new')")
    world.assert_equal()
    follow(world, f"{create} SELECT 3 AS id, 'selected' AS a")
    world.assert_equal()
    follow(world, create)
    world.assert_equal()


@pytest.mark.parametrize(
    ("mode", "date", "is_zeroed"),
    [
        ("", "2024-02-31", False),
        ("NO_ZERO_DATE", "2024-02-31", True),
        ("NO_ZERO_DATE", "2024-00-10", False),
        ("NO_ZERO_IN_DATE", "2024-00-10", True),
        ("NO_ZERO_DATE,ALLOW_INVALID_DATES", "2024-02-31", False),
    ],
)
def test_dates_that_a_copied_table_lacks(world, mode, date, is_zeroed):
    behind = follow(
        world,
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE t (id INT PRIMARY KEY, d DATE, n INT)",
        f"INSERT INTO t VALUES (1, '{date}', 1)",
        f"SET sql_mode = '{mode}'",
        "ALTER TABLE t MODIFY n BIGINT",
    )["shop.t"]
    shown = world.server.run_sql("SELECT CAST(d AS CHAR) AS d FROM t", "shop").split()[-1]
    assert (shown != date) == is_zeroed == ("d has dates" in (behind or ""))


@pytest.mark.parametrize("image", ["FULL", "NOBLOB"])
def test_updates_beside_what_a_generated_column_is_made_of(world, image):
    """From 11 on no update logs generated columns, and under NOBLOB 10.11 logs no generated TEXT; the images before
    tell what did not change."""
    follow(
        world,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, d DATE, n INT, s INT AS (a + 1) STORED, e TEXT AS (CONCAT(d)))",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "INSERT INTO t (id, a, d, n) VALUES (1, 1, '0000-00-00', 1), (2, NULL, '0000-00-00', 2)",
    )
    set_image = f"SET binlog_row_image = {image}"
    assert follow(world, set_image, "UPDATE t SET n = n + 5, a = a, d = d") == {"shop.t": None}
    world.assert_equal()
    assert follow(world, set_image, "UPDATE t SET id = id + 10") == {"shop.t": None}
    world.assert_equal()
    # Neither the old nor the new one is a value of a DATE in Arrow.
    world.server.run_sql(f"{set_image}; SET sql_mode = 'ALLOW_INVALID_DATES'; UPDATE t SET d = '2026-02-31'", "shop")
    world.publish()
    errors = [mirror.error.message for mirror in world.update().mirrors if mirror.error]
    if image == "FULL" and "10.11" in world.server.run_sql("SELECT VERSION()"):
        assert errors == []
        world.assert_equal()
    else:
        assert [error.split(", ")[0] for error in errors] == ["updates of d lack e"]


def test_each_state_has_its_position_also_before_ddl(world):
    """A position of MariaDB has all numbers of a domain up to its newest: without a DDL's own it has none of them."""
    follow(world, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    positions = []
    for statements in (
        ["INSERT INTO t VALUES (1, 1)", "ALTER TABLE t ADD b INT"],
        ["SET gtid_domain_id = 7", "UPDATE t SET a = 2", "SET gtid_domain_id = 0", "ALTER TABLE t ADD c INT"],
        ["UPDATE t SET a = 3", "DROP TABLE t"],
    ):
        with world.server.connect("shop") as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                cursor.execute("SELECT @@GLOBAL.gtid_binlog_pos")
                positions.append(cursor.fetchone()[0])
        follow(world)
    states = [mirrors.open(world.lake, world.name, "shop.t", at).to_arrow().column("a").to_pylist() for at in positions]
    assert states == [[1], [1], [1], [2], [2], [2], [3], [3]]


def test_a_versioned_table_with_a_key(world):
    follow(
        world,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE t SET a = 5 WHERE id = 1",
    )
    world.assert_equal()
    follow(world, "UPDATE t SET id = 4 WHERE id = 1", "DELETE FROM t WHERE id = 2", "REPLACE INTO t VALUES (3, 9)")
    world.assert_equal()


@pytest.mark.parametrize("alter", ["ALTER a SET DEFAULT 4", "MODIFY e ENUM('x', 'y', 'z')"])
def test_a_transaction_that_was_prepared_before_an_alter(world, alter):
    """Over a restart, a prepared transaction keeps the locks of its rows, but not the metadata locks of its tables:
    what leaves all rows as they are may come before its XA COMMIT."""
    follow(
        world,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, e ENUM('x', 'y'))",
        "INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'x'), (3, 3, 'y')",
        "XA START 'held'",
        "INSERT INTO t VALUES (4, 4, 'y')",
        "UPDATE t SET e = 'y' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "XA END 'held'",
        "XA PREPARE 'held'",
    )
    world.server.stop()
    world.server.start_again()
    follow(world, f"ALTER TABLE t {alter}", "INSERT INTO t VALUES (5, 5, 'x')")
    follow(world, "XA COMMIT 'held'", "UPDATE t SET a = 9")
    world.assert_equal()


def test_changes_of_a_version_with_other_rows_are_an_error(world):
    """No server is known to let a statement that changes rows come between."""
    follow(
        world, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD a INT DEFAULT 7"
    )
    events, t = SchemaEvents(world.engine, world.name), TableName("shop", "t")
    mirror = world.mirror("t")
    assert events.same_rows(t, mirror.position.schema_version) == {mirror.position.schema_version}
    span = VersionRange(0, mirror.position.seq, mirror.position.schema_version, mirror.definition)
    with pytest.raises(CannotFollowError, match="schema version"):
        list(PublishedChanges(world.lake, world.name, t).batches(span))


def test_a_sequence_waits_for_a_row_that_is_logged(world):
    for statement in (
        "CREATE SEQUENCE s CACHE 2",
        "ALTER SEQUENCE s RESTART 50",
        "CREATE OR REPLACE SEQUENCE s CACHE 2",
        "ALTER SEQUENCE s MAXVALUE 1000",
    ):
        assert NO_SEQUENCE_ROW in (follow(world, statement)["shop.s"] or ""), statement
        assert follow(world, "SELECT NEXTVAL(s)")["shop.s"] is None
        world.assert_equal()


def test_minimal_images_of_a_sequence(world):
    follow(world, "CREATE SEQUENCE s START 7 INCREMENT 5 CACHE 2", "SELECT NEXTVAL(s)")
    minimal = "SET binlog_row_image = MINIMAL"
    follow(world, minimal, "SELECT NEXTVAL(s), NEXTVAL(s), NEXTVAL(s)", "SELECT SETVAL(s, 500)")
    world.assert_equal()
    # What the images lack has been changed by a statement without a row.
    altered = follow(world, "ALTER SEQUENCE s INCREMENT 3", minimal, "SELECT NEXTVAL(s), NEXTVAL(s), NEXTVAL(s)")
    assert NO_SEQUENCE_ROW in (altered["shop.s"] or "")
    assert follow(world, "SELECT SETVAL(s, 900)")["shop.s"] is None
    world.assert_equal()


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_what_a_replace_sets_to_a_default_may_be_in_no_log(world, image):
    """The server logs an update without these columns, so that the mirror keeps the old value, as a replica does. Once
    a server logs them, docs/mariadb.md has a line less."""
    follow(world, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT)", "INSERT INTO t VALUES (1, 1, 'old')")
    follow(world, f"SET binlog_row_image = {image}", "REPLACE INTO t (id, a) VALUES (1, 2)")
    mirror = world.mirror("t")
    assert mirror is not None
    assert mirror.to_arrow().select(["id", "a", "b"]).to_pylist() == [{"id": 1, "a": 2, "b": "old"}]
    assert world.server.run_sql("SELECT b IS NULL FROM shop.t").split()[-1] == "1"


@pytest.mark.parametrize("is_reversed", [False, True])
def test_files_with_and_without_odd_values_become_one(world, is_reversed):
    """In whichever order they are read: a compaction that made two small files of them again would never end."""
    follow(world, "CREATE TABLE t (id DATE PRIMARY KEY)")
    for day in ("2026-01-01", "0000-00-00"):
        follow(world, "SET sql_mode = ''", f"INSERT INTO t VALUES ('{day}')")
    mirror = world.mirror("t")
    assert mirror is not None
    if is_reversed:
        files = dict(reversed(mirror.snapshot.files.items()))
        mirror.snapshot.files.clear()
        mirror.snapshot.files.update(files)
    compacted, done = compact(mirror)
    assert (done.files_before, done.files_after) == (2, 1)
    assert wear_of(compacted).small_files == 0
    world.assert_equal()


def test_reorganized_lists_drop_rows(world):
    follow(
        world,
        "CREATE TABLE t (id INT, n INT) PARTITION BY LIST (n) "
        "(PARTITION p0 VALUES IN (1), PARTITION p1 VALUES IN (5, 6))",
        "INSERT INTO t VALUES (1, 1), (2, 5), (3, 6)",
    )
    dropped = "REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES IN (5))"
    assert follow(world, f"ALTER IGNORE TABLE t {dropped}") == {"shop.t": None}
    world.assert_equal()
    # 11.8 drops this row, too, although the new DEFAULT partition would take it.
    into = "(PARTITION p0 VALUES IN (2), PARTITION r DEFAULT)"
    [why] = follow(world, f"ALTER TABLE t REORGANIZE PARTITION p0 INTO {into}").values()
    assert "fit into no partition" in (why or "")


def test_a_partition_by_hash_is_truncated(world):
    follow(
        world,
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO t VALUES (1), (2), (3)",
    )
    [why] = follow(world, "ALTER IGNORE TABLE t TRUNCATE PARTITION p1").values()
    assert "no log says which they were" in (why or "")
    assert sorted(world.mirror("t").to_arrow()["id"].to_pylist()) == [1, 2, 3]
