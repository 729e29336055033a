"""DDL is taken back on real servers: values come back by key, later changes stay, and what loses any is refused."""

from __future__ import annotations

import json

import pymysql
import pytest

from strata_cdc.errors import Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.past.undo.choice import Choice, ChosenGtids
from strata_cdc.past.undo.script import json_lines
from strata_cdc.past.undo.undo import ChangeScript
from tests.past.undo.undo_world import CREATE, ROWS, UndoWorld

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


def shown(world: UndoWorld, table: str) -> str:
    """The definition as the server shows it."""
    with world.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW CREATE TABLE {table}")
        return str(cursor.fetchone()[1])


def begun(world: UndoWorld, statements: str = CREATE + ROWS) -> str:
    """Makes tables with a mirror; the definition of shop.t."""
    world.server.run_sql(statements, "shop")
    world.publish()
    world.update()
    return shown(world, "shop.t")


def taken_back(world: UndoWorld, gtids: ChosenGtids) -> str:
    """Takes transactions back; the script."""
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert (report.conflicts, dict(report.skipped)) == ([], {}), script
    world.execute(script)
    return script


def test_a_dropped_column_comes_back_with_its_values(world: UndoWorld) -> None:
    definition = begun(world)
    world.server.run_sql("UPDATE t SET b = 20 WHERE id = 2", "shop")
    gtids = world.changed("ALTER TABLE t DROP COLUMN b")
    world.changed("INSERT INTO t VALUES (4, 'four', 4); UPDATE t SET c = 9 WHERE id = 1; DELETE FROM t WHERE id = 3")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert [one.conflict.reason for one in report.conflicts] == ["the row is not there any more"]
    assert "this is not one transaction" in script
    world.execute(script)
    assert world.rows("t", "id, b, c + 0") == [(1, 1, 9), (2, 20, 2), (4, None, 4)]
    assert shown(world, "shop.t") == definition


def test_a_column_whose_default_only_the_server_knows_comes_back(world: UndoWorld) -> None:
    definition = begun(
        world,
        "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), e ENUM('x', 'ü') "
        "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'ü' COMMENT 'it''s', "
        "g INT GENERATED ALWAYS AS (id + 1) STORED, z INT, KEY of_e (e), KEY of_both (z, e));"
        "INSERT INTO t (id, at, e) VALUES (1, '2024-01-01 00:00:00.123', 'x'), (2, '2024-01-02', 'ü');",
    )
    before = world.rows("t")
    gtids = world.changed("ALTER TABLE t DROP COLUMN at, DROP COLUMN e, DROP COLUMN g")
    taken_back(world, gtids)
    assert world.rows("t") == before
    assert {line.rstrip(",") for line in shown(world, "shop.t").splitlines()} == {
        line.rstrip(",") for line in definition.splitlines()
    }


def test_values_that_an_alter_changed_come_back_unless_others_have_changed_them(world: UndoWorld) -> None:
    definition = begun(world)
    gtids = world.changed("SET sql_mode = ''; ALTER TABLE t MODIFY a VARCHAR(3), MODIFY c DECIMAL(6,0)")
    world.changed("UPDATE t SET a = 'new' WHERE id = 3; INSERT INTO t VALUES (4, 'abc', 4, 4)")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert {one.conflict.row for one in report.conflicts} | {why for _, why in report.skipped}, script
    world.execute(script)
    assert shown(world, "shop.t") == definition
    assert world.rows("t", "id, a")[0] == (1, "one")


def test_numbers_that_became_text_of_another_form_come_back(world: UndoWorld) -> None:
    definition = begun(
        world,
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(10,4)); INSERT INTO t VALUES (1, '007', 1.2345), "
        "(2, '12', 2), (3, NULL, NULL), (4, '1', 1.5)",
    )
    before = world.rows("t")
    gtids = world.changed(
        "UPDATE t SET v = '0100' WHERE id = 2; SET sql_mode = ''; ALTER TABLE t MODIFY v INT, MODIFY d DECIMAL(9,2)"
    )
    world.changed("UPDATE t SET v = 8 WHERE id = 4")
    taken_back(world, gtids)
    assert shown(world, "shop.t") == definition
    assert world.rows("t") == sorted([*before[:3], (4, "8", before[3][2])], key=repr)


def test_changes_before_and_after_the_ddl_come_back_with_it(world: UndoWorld) -> None:
    definition = begun(world)
    before = world.rows("t")
    gtids = world.changed(
        "UPDATE t SET b = b * 10, a = 'x'; DELETE FROM t WHERE id = 1; ALTER TABLE t DROP COLUMN b, "
        "RENAME COLUMN a TO d; "
        "UPDATE t SET c = 0; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (9, 'nine', 9)"
    )
    taken_back(world, gtids)
    assert world.rows("t") == before
    assert shown(world, "shop.t") == definition


def test_ddl_that_added_is_taken_back_if_nothing_is_lost(world: UndoWorld) -> None:
    definition = begun(world)
    before = world.rows("t")
    gtids = world.changed(
        "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5, ADD COLUMN g INT GENERATED ALWAYS AS (n + 1) VIRTUAL;"
        "RENAME TABLE t TO u; CREATE TABLE made (id INT PRIMARY KEY); INSERT INTO made VALUES (1); "
        "UPDATE u SET n = 6 WHERE id = 2; ALTER TABLE u ADD KEY of_a (a)"
    )
    taken_back(world, gtids)
    assert world.rows("t") == before
    assert shown(world, "shop.t") == definition
    assert "made" not in world.server.run_sql("SHOW TABLES", "shop")


SWAPS = (
    "CREATE TABLE n LIKE t; INSERT INTO n SELECT * FROM t; RENAME TABLE t TO b_old, n TO t",
    "RENAME TABLE t TO b_old, u TO t; UPDATE t SET b = 9",
    "RENAME TABLE t TO b_old; RENAME TABLE b_old TO t; ALTER TABLE t ADD COLUMN n INT",
)


@pytest.mark.parametrize("statements", SWAPS)
def test_a_name_is_given_up_before_another_table_gets_it(world: UndoWorld, statements: str) -> None:
    definition = begun(world, CREATE + ROWS + "CREATE TABLE u LIKE t; INSERT INTO u VALUES (7, 'seven', 7, 7)")
    before = world.rows("t"), world.rows("u")
    taken_back(world, world.changed(statements))
    assert (world.rows("t"), world.rows("u")) == before
    assert shown(world, "shop.t") == definition
    assert world.server.run_sql("SHOW TABLES", "shop").split()[1:] == ["t", "u"]


def test_a_name_that_another_table_has_is_refused(world: UndoWorld) -> None:
    begun(world, CREATE + ROWS + "CREATE TABLE u LIKE t")
    swapped = world.changed("RENAME TABLE t TO x, u TO t, x TO u")
    world.publish()
    with pytest.raises(Usage, match=r"shop.t cannot be called shop.u again"):
        world.script(Choice(gtids=swapped))
    renamed = world.changed("RENAME TABLE t TO y; UPDATE y SET b = 9")
    world.publish()
    script, _ = world.script(Choice(gtids=renamed))
    world.changed("CREATE TABLE t (id INT PRIMARY KEY)")
    now = world.rows("y")
    done = world.run(script)
    assert done.returncode != 0
    assert b"1 table is called shop.t" in done.stdout + done.stderr
    assert (world.rows("y"), world.rows("t")) == (now, [])


def test_what_others_put_into_it_stays(world: UndoWorld) -> None:
    begun(world)
    gtids = world.changed("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5; CREATE TABLE made (id INT PRIMARY KEY)")
    world.publish()
    script, _ = world.script(Choice(gtids=gtids))
    world.changed("UPDATE t SET n = 6 WHERE id < 3; INSERT INTO made VALUES (1)")
    now = world.rows("t")
    for options in ((), ("--force",)):
        done = world.run(script, *options)
        assert b"2 rows of shop.t have another value in n" in done.stdout + done.stderr
        assert b"1 rows are in shop.made" in done.stdout + done.stderr
        assert world.rows("t") == now
        assert world.rows("made") == [(1,)]
    world.publish()
    _, report = world.script(Choice(gtids=gtids))
    reasons = " ".join(why for _, why in report.skipped)
    assert "2 rows have another value in n than ADD COLUMN gave" in reasons
    assert "1 row would go with the table" in reasons


REFUSED = {
    "ALTER TABLE t MODIFY c DECIMAL(9,4)": "an ALTER TABLE from decimal(9,4) to decimal(8,2) may lose a part",
    "ALTER TABLE t DROP PRIMARY KEY": "it changed the key PRIMARY",
    "ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN b INT": "there is another column b now",
    "ALTER TABLE t MODIFY b INT FIRST": "it moved columns",
    "ALTER TABLE t ENGINE = MyISAM": "more than columns and keys",
    "ALTER TABLE t DROP COLUMN id": "it changed the key PRIMARY",
}


@pytest.mark.parametrize("statements", REFUSED)
def test_what_cannot_be_taken_back_is_refused_by_name(world: UndoWorld, statements: str) -> None:
    begun(world)
    first, _, rest = statements.partition(";")
    gtids = world.changed(first)
    world.server.run_sql(rest, "shop")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert REFUSED[statements] in " ".join(why for _, why in report.skipped)
    assert "ALTER TABLE `shop`" not in script


def test_without_a_mirror_values_are_not_known(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    world.publish()
    gtids = world.changed("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN n INT")
    taken_back(world, gtids)
    assert world.rows("t", "id, b") == [(1, 1), (2, 2), (3, 3)]


def test_a_dropped_database_comes_back(world: UndoWorld) -> None:
    look = (
        "SHOW CREATE DATABASE other; SELECT table_name, column_name, column_type, collation_name FROM "
        "information_schema.columns WHERE table_schema = 'other' ORDER BY 1, 2; SELECT * FROM other.one"
    )
    world.server.run_sql(
        "DROP DATABASE IF EXISTS other; CREATE DATABASE other CHARACTER SET latin1 COLLATE latin1_german1_ci; "
        "CREATE TABLE other.one (id INT PRIMARY KEY, v VARCHAR(9)); CREATE TABLE other.two (id INT PRIMARY KEY);"
        "CREATE TABLE other.three (id INT PRIMARY KEY, v TEXT) CHARSET utf8mb4 COLLATE utf8mb4_general_ci;"
        "INSERT INTO other.one VALUES (1, 'ä'); INSERT INTO other.two VALUES (1), (2); "
        "INSERT INTO other.three VALUES (1, 'x')"
    )
    shape = world.server.run_sql(look)
    world.publish()
    gtids = world.changed("DROP DATABASE other")
    taken_back(world, gtids)
    assert world.server.run_sql(look) == shape
    assert world.rows("two", database="other") == [(1,), (2,)]


@pytest.mark.parametrize("statement", ["ALTER TABLE t TRUNCATE PARTITION p1", "ALTER TABLE t DROP PARTITION p1"])
def test_rows_of_partitions_come_back(world: UndoWorld, statement: str) -> None:
    begun(
        world,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), "
        "PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN MAXVALUE);"
        "INSERT INTO t VALUES (1, 1), (11, 1), (12, 2), (21, 1)",
    )
    before = world.rows("t")
    gtids = world.changed(f"UPDATE t SET v = v + 1; {statement}")
    world.changed("INSERT INTO t VALUES (22, 2)")
    script = taken_back(world, gtids)
    assert "partitions are not made again" in script
    assert world.rows("t") == sorted([*before, (22, 2)], key=repr)


def test_by_time_only_what_lost_values_is_taken_back(world: UndoWorld) -> None:
    begun(world)
    world.server.run_sql("DO SLEEP(1.1)")
    since = LandedStream.open(world.lake, world.name).clock + 1
    world.changed("ALTER TABLE t ADD COLUMN n INT; ALTER TABLE t DROP COLUMN b")
    world.publish()
    script, _ = world.script(Choice(since=since))
    world.execute(script)
    assert world.rows("t", "id, b, n") == [(1, 1, None), (2, 2, None), (3, 3, None)]
    assert "named by `--gtid`, they are taken back" in script


def test_tables_with_foreign_keys_are_locked_together(world: UndoWorld) -> None:
    begun(
        world,
        "CREATE TABLE p (id INT PRIMARY KEY, n INT); CREATE TABLE t (id INT PRIMARY KEY, p INT, v INT, "
        "FOREIGN KEY (p) REFERENCES p (id)); CREATE TRIGGER made AFTER UPDATE ON t FOR EACH ROW "
        "DELETE FROM seen; CREATE TABLE seen (id INT); INSERT INTO p VALUES (1, 1), (2, 2); "
        "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
    )
    before = [world.rows(table) for table in "pt"]
    gtids = world.changed("UPDATE t SET p = 2 WHERE id = 1; ALTER TABLE t DROP COLUMN v; DELETE FROM t WHERE id = 2")
    taken_back(world, gtids)
    assert [world.rows(table) for table in "pt"] == before


def test_nobody_writes_while_a_script_with_ddl_runs(world: UndoWorld) -> None:
    begun(world)
    gtids = world.changed("ALTER TABLE t DROP COLUMN b")
    world.publish()
    connection, other = world.server.connect(), world.server.connect("shop")
    with connection, other, connection.cursor() as cursor, other.cursor() as writer:
        for statement in world.opening(Choice(gtids=gtids)):
            cursor.execute(statement)
        writer.execute("SET lock_wait_timeout = 1")
        for statement in ("UPDATE t SET b = 7", "ALTER TABLE t ADD COLUMN n INT"):
            with pytest.raises(pymysql.err.MySQLError, match="Lock wait timeout"):
                writer.execute(statement)
        cursor.execute("UNLOCK TABLES")
        writer.execute("UPDATE t SET b = 7")


def test_lines_for_programs_have_the_ddl(world: UndoWorld) -> None:
    definition = begun(world)
    before = world.rows("t")
    gtids = world.changed("ALTER TABLE t DROP COLUMN b, ADD COLUMN n INT")
    world.publish()
    with ChangeScript(world.readable, Choice(gtids=gtids)) as made:
        lines = [json.loads(line) for line in json_lines(made)]
    with world.server.connect() as connection, connection.cursor() as cursor:
        for statement in (sql for line in lines for sql in (line.get("sql"), line.get("check")) if sql):
            cursor.execute(statement)
    assert world.rows("t") == before
    assert shown(world, "shop.t") == definition
    assert {"begin", "definition", "alter", "statement", "check", "end", "report"} <= {line["kind"] for line in lines}


def test_expressions_of_another_sql_mode_mean_the_same(world: UndoWorld) -> None:
    insert = 'INSERT INTO t (id, "a", "b""c`") VALUES (1, 2, 3)'
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
        cursor.execute(
            'CREATE TABLE t (id INT PRIMARY KEY, "a" INT, "b""c`" INT, g INT AS ("a" + "b""c`") STORED, '
            r"""h VARCHAR(20) AS (CONCAT('"a"\', a)), d INT DEFAULT (LENGTH('\\') + 3)) ENGINE=InnoDB"""
        )
        cursor.execute(insert)
        connection.commit()
        before = world.rows("t")
        gtids = world.changed("DROP TABLE t")
        world.publish()
        world.execute(world.script(Choice(gtids=gtids))[0])
        assert world.rows("t") == before
        cursor.execute("DELETE FROM t")
        cursor.execute(insert)
        connection.commit()
        assert world.rows("t") == before
