"""`strata undo` and `strata redo`: what is chosen, what others have changed, DDL between, TRUNCATE and DROP TABLE,
hostile names and values; each script is executed by a real server."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from strata_cdc.cli.main import run
from strata_cdc.clock import from_micros
from strata_cdc.errors import PastUnknownError, StrataError, Usage
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.dump.dump_table import DumpSettings
from strata_cdc.mirrors.dump.dump_tables import dump_tables
from strata_cdc.past.undo.choice import Choice, ChosenGtids
from strata_cdc.past.undo.script import json_lines
from strata_cdc.past.undo.steps import ColumnChoice, Direction
from strata_cdc.past.undo.undo import ChangeScript
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tracking.track_schema import track_landed
from tests.past.undo.undo_world import CREATE, ROWS, UndoWorld, execute_lines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
T = TableName("shop", "t")


def test_an_update_without_where_is_taken_back(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    before = world.rows("t")
    gtids = world.changed("UPDATE t SET c = 0; UPDATE t SET b = 0")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert dict(report.written) == {("shop.t", "UPDATE"): 6}
    listed = script.partition("-- of 2 transactions: ")[2].partition("\n")[0]
    assert sorted(listed.split(", ")) == gtids.text.split(",")
    world.execute(script)
    assert world.rows("t") == before


def test_columns_that_others_have_changed_since_stay(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET a = 'x', b = 0")
    world.changed("UPDATE t SET c = 99 WHERE id = 1; UPDATE t SET b = 7 WHERE id = 2; DELETE FROM t WHERE id = 3")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    world.execute(script)
    assert world.rows("t", "id, a, b, c + 0") == [(1, "one", 1, 99), (2, "x", 7, 2)]
    conflicts = {one.conflict.row: one.conflict for one in report.conflicts}
    assert set(conflicts) == {"id = 2", "id = 3"}
    second = conflicts["id = 2"]
    assert (second.column, second.expected, second.found) == ("b", "0", "7")
    assert second.by is not None
    assert second.by.what == "UPDATE"
    assert conflicts["id = 3"].by is not None
    assert conflicts["id = 3"].by.what == "DELETE"


def test_the_whole_row_is_set_only_if_nobody_has_changed_it(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET a = 'x'")
    world.changed("UPDATE t SET c = 99 WHERE id = 1")
    world.publish()
    script, report = world.script(Choice(gtids=gtids), columns=ColumnChoice.ROW)
    assert [one.conflict.column for one in report.conflicts] == ["c"]
    world.execute(script)
    assert world.rows("t", "a") == [("three",), ("two",), ("x",)]


def test_the_server_finds_conflicts_that_are_not_published(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET a = 'x'")
    world.publish()
    script, _ = world.script(Choice(gtids=gtids))
    world.changed("UPDATE t SET a = 'X' WHERE id = 2")
    now = world.rows("t")
    for options in ((), ("--force",)):
        done = world.run(script, *options)
        assert b"rolled back" in done.stdout + done.stderr
        assert b"something else: 2" in done.stdout
        assert done.returncode != 0 or options
        assert world.rows("t") == now
    connection = world.server.connect()
    with connection, connection.cursor() as cursor, pytest.raises(pymysql.err.MySQLError, match="rolled back"):
        execute_lines(cursor, script)
    assert world.rows("t") == now


def test_a_client_that_connects_again_changes_nothing(world: UndoWorld) -> None:
    """As `source undo.sql` in `mysql` does: another session, without the transaction, gets the rest of the script."""
    accident = "UPDATE t SET a = 'x' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (4, 'four', 4, 4)"
    world.server.run_sql(CREATE + ROWS, "shop")
    back = world.rows("t")
    gtids = world.changed(accident)
    world.publish()
    lines = world.script(Choice(gtids=gtids))[0].splitlines()
    now, begin = world.rows("t"), lines.index("START TRANSACTION;")
    end = next(at for at, line in enumerate(lines) if "'COMMIT'" in line)
    for lost_at in range(begin + 1, len(lines)):
        errors = [*goes_on(world, lines[:lost_at]), *goes_on(world, lines[lost_at:])]
        assert world.rows("t") == (back if lost_at > end + 2 else now), lines[lost_at]
        assert any("connection lost" in error for error in errors) or lost_at > len(lines) - 4
        if world.rows("t") == back:
            world.server.run_sql(accident, "shop")


def goes_on(world: UndoWorld, lines: list[str]) -> list[str]:
    """The errors of a session that goes on after each."""
    errors = []
    with world.server.connect() as connection, connection.cursor() as cursor:
        for line in lines:
            if not line.startswith("--"):
                try:
                    cursor.execute(line)
                except pymysql.err.MySQLError as error:
                    errors.append(str(error))
    return errors


def test_a_row_with_the_same_key_is_not_overwritten(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("DELETE FROM t WHERE id > 1")
    world.changed("INSERT INTO t VALUES (2, 'new', 0, 0)")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert [one.conflict.reason for one in report.conflicts] == ["there is another row with its key now"]
    world.execute(script)
    assert world.rows("t", "a") == [("new",), ("one",), ("three",)]


def test_a_row_that_others_gave_another_key_is_found(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET a = 'x' WHERE id = 1")
    world.changed("UPDATE t SET id = 10 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert report.conflicts == []
    world.execute(script)
    assert world.rows("t", "id, a") == [(1, "two"), (10, "one"), (3, "three")]


def test_keys_that_were_swapped_come_back(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    before = world.rows("t")
    gtids = world.changed(
        "BEGIN; UPDATE t SET id = 9 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 9;"
        "COMMIT",
    )
    after = world.rows("t")
    world.publish()
    world.execute(world.script(Choice(gtids=gtids))[0])
    assert world.rows("t") == before
    world.publish()
    world.execute(world.script(Choice(gtids=gtids), Direction.REDO)[0])
    assert world.rows("t") == after


def test_changes_of_one_second_are_told_apart(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    world.changed("UPDATE t SET b = 10 WHERE id = 1")
    second = world.changed("UPDATE t SET b = 20 WHERE id = 1")
    world.publish()
    world.execute(world.script(Choice(gtids=second))[0])
    assert (1, 10) in world.rows("t", "id, b")


def test_dropped_and_converted_columns_are_named(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET a = 'longer than five', b = 500 WHERE id = 1; UPDATE t SET c = 1.25, a = 'y'")
    world.changed(
        "ALTER TABLE t DROP COLUMN b; UPDATE t SET a = 'z'; ALTER TABLE t MODIFY c DECIMAL(9, 4), MODIFY a VARCHAR(3)",
    )
    world.changed("UPDATE t SET a = 'y'")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert "without the dropped b" in script or report.skipped, script
    reasons = " ".join(why for _, why in report.skipped)
    assert "column a: the column was varchar(20)" in reasons
    assert "varchar(3)" in reasons
    world.execute(script)


def test_values_go_through_each_alter(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET b = b + 10, c = 5.5")
    world.changed("ALTER TABLE t MODIFY b VARCHAR(10), MODIFY c DOUBLE, RENAME COLUMN a TO d")
    world.publish()
    world.execute(world.script(Choice(gtids=gtids))[0])
    assert world.rows("t") == [(1, "one", "1", 1.0), (2, "two", "2", 2.0), (3, "three", "3", 3.0)]


def test_labels_in_another_order_are_the_same_value(world: UndoWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, s SET('a', 'b', 'c'), n INT)", "shop")
    world.server.run_sql("INSERT INTO t VALUES (1, 'a,c', 0)", "shop")
    gtids = world.changed("UPDATE t SET s = 'a,b'")
    world.changed("ALTER TABLE t MODIFY s SET('c', 'b', 'a'); UPDATE t SET n = 1")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert report.conflicts == []
    world.execute(script)
    assert world.rows("t") == [(1, "c,a", 1)]
    world.publish()
    script, report = world.script(Choice(gtids=gtids), Direction.REDO)
    assert report.conflicts == []
    world.execute(script)
    assert world.rows("t") == [(1, "b,a", 1)]


def test_a_truncate_is_taken_back(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    before = world.rows("t")
    world.publish()
    world.update()
    world.server.run_sql("UPDATE t SET b = 4 WHERE id = 1; UPDATE t SET b = 1 WHERE id = 1", "shop")
    gtids = world.changed("UPDATE t SET c = 0; TRUNCATE TABLE t")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert dict(report.written) == {("shop.t", "INSERT"): 3, ("shop.t", "UPDATE"): 3}
    world.execute(script)
    assert world.rows("t") == before


def test_a_truncate_of_others_is_a_conflict(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET c = 0 WHERE id = 1; DELETE FROM t WHERE id = 2")
    world.changed("TRUNCATE TABLE t")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert len(report.conflicts) == 1
    assert "TRUNCATE TABLE t" in script
    world.execute(script)
    assert world.rows("t", "id") == [(2,)]


def test_a_dropped_table_is_made_again(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    before = world.rows("t")
    gtids = world.changed("DROP TABLE t")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert dict(report.written) == {("shop.t", "INSERT"): 3}
    world.execute(script)
    assert world.rows("t") == before


def test_changes_of_a_dropped_table_are_counted(world: UndoWorld) -> None:
    world.server.run_sql(f"{CREATE} {ROWS} CREATE TABLE o (id INT PRIMARY KEY)", "shop")
    before = world.rows("t")
    gtids = world.changed("UPDATE t SET b = 0; INSERT INTO o VALUES (1)")
    dropped = world.changed("DROP TABLE t")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert dict(report.written) == {("shop.o", "DELETE"): 1}
    assert "shop.t does not exist now: 3 changes of it are not in this script" in script
    both = ChosenGtids.parse(f"{gtids.text},{dropped.text}")
    script, _ = world.script(Choice(gtids=both))
    world.execute(script)
    assert world.rows("t") == before
    assert world.rows("o") == []


def test_tables_that_only_the_server_writes_are_skipped(world: UndoWorld) -> None:
    if "mariadb" not in world.server.program("mysql"):
        pytest.skip("MySQL has no such tables")
    world.server.run_sql("CREATE TABLE v (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING; CREATE SEQUENCE s", "shop")
    gtids = world.changed("INSERT INTO v VALUES (1, 1); UPDATE v SET a = 2; DO NEXT VALUE FOR s")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert not report.written
    assert "WITH SYSTEM VERSIONING" in script
    assert "a SEQUENCE" in script


def test_a_table_that_was_made_anew_keeps_its_rows(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET b = 0")
    world.changed(f"DROP TABLE t; {CREATE} INSERT INTO t VALUES (1, 'other', 0, 0)")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert not report.written
    assert sum(report.skipped.values()) == 3
    assert "dropped and made again" in script


def test_rows_are_chosen_by_condition_key_and_time(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET b = b * 10")
    world.publish()
    for choice in (
        Choice((T,), gtids, where="b >= 20 AND id < 3"),
        Choice((T,), gtids, keys=(("2",),)),
        Choice((T,), since=0, where="b = 20"),
        Choice((T,), gtids, where="a = 'TWO'"),
    ):
        assert world.script(choice)[1].changes == 1, choice
    with pytest.raises(Usage, match="no time is between 1970-01-01 00:00:02"):
        world.script(Choice((T,), since=2_000_000, until=1_000_000))
    with pytest.raises(Usage, match="it is not clear which changes"):
        world.script(Choice((T,)))
    with pytest.raises(Usage, match="no change is chosen"):
        world.script(Choice((T,), gtids, keys=(("77",),)))
    with pytest.raises(Usage, match="the key has 1 column "):
        world.script(Choice((T,), gtids, keys=(("1", "2"),)))


def test_changes_that_are_not_published_may_be_chosen_and_are_refused(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    world.publish()
    gtids = world.changed("UPDATE t SET b = 0")
    with pytest.raises(PastUnknownError, match="not in the landed stream"):
        world.script(Choice(gtids=gtids))
    land_binlog(world.source.address, lake=world.lake, source=world.name)
    track_landed(world.lake, world.name, world.engine)
    with pytest.raises(PastUnknownError, match="not published yet"):
        world.script(Choice(gtids=gtids))
    with pytest.raises(PastUnknownError, match="not published yet"):
        world.script(Choice(since=0, until=1 << 60))
    _, report = world.script(Choice(since=0))
    assert "are not in this script: they are not published yet" in " ".join(report.notes)
    world.publish()
    assert world.script(Choice(gtids=gtids))[1].changes == 3
    first = gtids.without([])
    assert gtids.without([first.text.replace("-4", "")] if first.of_mysql is not None else [first.text]).is_empty


def test_without_a_store_nothing_is_said_of_tables(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed("UPDATE t SET a = 'x'")
    world.publish()
    (world.folder / "store.db").unlink()
    with pytest.raises(StrataError, match="there is no store"):
        world.script(Choice(gtids=gtids, tables=(T,)))


def test_changes_are_chosen_by_the_text_of_their_statement(world: UndoWorld) -> None:
    log = "binlog_annotate_row_events" if "mariadb" in world.server.program("mysql") else "binlog_rows_query_log_events"
    world.server.run_sql(CREATE + ROWS, "shop")
    gtids = world.changed(f"SET {log} = 1; UPDATE t SET b = 10 WHERE id = 1; UPDATE t SET c = 10 WHERE id = 2")
    world.publish()
    script, report = world.script(Choice(gtids=gtids, statement="set C = 10"))
    assert dict(report.written) == {("shop.t", "UPDATE"): 1}
    world.execute(script)
    assert world.rows("t", "id, b, c + 0") == [(1, 10, 1), (2, 2, 2), (3, 3, 3)]
    gtids = world.changed(f"SET {log} = 0; UPDATE t SET b = 11 WHERE id = 1")
    world.publish()
    with pytest.raises(PastUnknownError, match="not logged"):
        world.script(Choice(gtids=gtids, statement="b = 11"))


FAMILY = """CREATE TABLE p (id INT PRIMARY KEY, n INT);
CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE d (id INT PRIMARY KEY, p INT, FOREIGN KEY (`p`) REFERENCES `shop`.`p` (`id`) ON DELETE SET NULL
  ON UPDATE CASCADE);
INSERT INTO p VALUES (1, 1), (2, 2), (3, 3); INSERT INTO c VALUES (1, 1), (2, 1), (3, 2);
INSERT INTO d VALUES (1, 1), (2, 2);"""


def test_rows_that_a_foreign_key_changed_come_back_or_are_named(world: UndoWorld) -> None:
    world.server.run_sql(FAMILY, "shop")
    before = [world.rows(table) for table in "pcd"]
    world.publish()
    is_logged = "mariadb" not in world.server.program("mysql")
    if not is_logged:
        dump_tables(world.dump_source(), [TableName("shop", "c")], DumpSettings(1 << 20, 0))
    gtids = world.changed("DELETE FROM p WHERE id = 1; UPDATE p SET id = 20 WHERE id = 2")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    world.execute(script)
    if is_logged:
        assert [world.rows(table) for table in "pcd"] == before
        assert len(report.notes) == 1
        return
    assert world.rows("p") == before[0]
    notes = " ".join(report.notes)
    assert "rows of shop.c may have been changed together with those of shop.p (ON DELETE CASCADE" in notes
    assert "rows of shop.d may" in notes
    children = [
        line.removeprefix("-- ") for line in script.splitlines() if line.startswith("-- INSERT INTO `shop`.`c`")
    ]
    assert len(children) == 2
    world.execute("".join(children))
    assert world.rows("c") == before[1]


TREE = """CREATE TABLE t (id INT PRIMARY KEY, up INT, FOREIGN KEY (UP) REFERENCES t (ID) ON DELETE CASCADE);
INSERT INTO t VALUES (9, NULL), (1, NULL), (2, 1), (3, 2), (4, 2), (5, 1), (8, NULL);"""
LINE = """CREATE TABLE t (id INT PRIMARY KEY);
CREATE TABLE u (a INT, b INT, up INT, PRIMARY KEY (a, b), FOREIGN KEY (up) REFERENCES t (id) ON DELETE CASCADE);
CREATE TABLE v (id INT PRIMARY KEY, a INT, b INT, FOREIGN KEY (a, b) REFERENCES u (a, b) ON DELETE CASCADE);
INSERT INTO t VALUES (1), (4), (7), (8), (9); INSERT INTO u VALUES (1, 1, 7), (1, 2, 7), (2, 1, 4), (3, 1, NULL);
INSERT INTO v VALUES (1, 1, 2), (2, 1, 1), (3, 2, 1), (4, 3, 1), (5, 1, NULL);"""


@pytest.mark.parametrize(("tables", "made", "changes"), [("t", TREE, 6), ("tuv", LINE, 10)], ids=["tree", "line"])
def test_rows_that_a_chain_of_foreign_keys_deleted_come_back(
    world: UndoWorld, tables: str, made: str, changes: int
) -> None:
    if "mariadb" in world.server.program("mysql"):
        pytest.skip("MariaDB does not log what foreign keys do")
    world.server.run_sql(made, "shop")
    before = [world.rows(table) for table in tables]
    deletes = "BEGIN; DELETE FROM t WHERE id < 9; INSERT INTO t (id) VALUES (10); DELETE FROM t WHERE id = 10; COMMIT"
    gtids = world.changed(deletes)
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    world.execute(script)
    assert [world.rows(table) for table in tables] == before
    assert report.changes == changes + 2


def test_what_a_foreign_key_will_delete_is_named(world: UndoWorld) -> None:
    world.server.run_sql(FAMILY, "shop")
    gtids = world.changed("INSERT INTO p VALUES (9, 9)")
    world.publish()
    _, report = world.script(Choice(gtids=gtids))
    assert "deleting rows of shop.p deletes those of shop.c that reference them, newer ones too" in report.notes


NAMES = ("t`; DROP TABLE x; -- a", 'it\'s "quoted"', "back\\slash", "*/ /*x", "new\nline", "日本 -- ü", "%s")
VALUES = (
    b"'", b'"', b"\\", b"\\'", b"\x00", b"\n\r\x1a", b"*/", b"-- ", b"`", b"%_", b"';DROP TABLE t;--", b"\xe2\x80\xa8",
    b"#", b"\xff\xfe\xc3", b"delimiter //", b"\\G", b"\xc3\xbc", b"",
)  # fmt: skip
TEXTS = tuple(one for one in VALUES if one.isascii())
MODES = ("", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH")
CHARSETS = ("utf8mb4", "latin1", "utf16", "sjis", "gbk")


@pytest.mark.parametrize("mode", MODES)
def test_hostile_names_and_values_come_back_byte_for_byte(world: UndoWorld, mode: str) -> None:
    columns = [f"`{name.replace('`', '``')}` VARBINARY(50)" for name in NAMES]
    columns += [f"c_{charset} VARCHAR(50) CHARACTER SET {charset}" for charset in CHARSETS]
    table = NAMES[0].replace("`", "``")
    shown = ", ".join(f"HEX(`{name.replace('`', '``')}`)" for name in NAMES)
    shown += ", " + ", ".join(f"HEX(c_{charset})" for charset in CHARSETS)
    random = Random(mode)
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE `{table}` (id INT PRIMARY KEY, {', '.join(columns)})")
        for number in range(12):
            values = [f"X'{(random.choice(VALUES) + random.choice(VALUES)).hex()}'" for _ in NAMES]
            values += [f"_utf8mb4 X'{random.choice(TEXTS).hex()}'" for _ in CHARSETS]
            cursor.execute(f"INSERT INTO `{table}` VALUES ({number}, {', '.join(values)})")
        cursor.execute(f"SELECT {shown} FROM `{table}` ORDER BY id")
        before = cursor.fetchall()
    statement = f"DELETE FROM `{table}` WHERE id < 6; UPDATE `{table}` SET c_latin1 = 'x', `{NAMES[1]}` = 'y'"
    gtids = world.changed(statement)
    world.publish()
    script, _ = world.script(Choice(gtids=gtids))
    world.server.run_sql(f"SET GLOBAL sql_mode = '{mode}'")
    try:
        world.execute(script)
    finally:
        world.server.run_sql("SET GLOBAL sql_mode = DEFAULT")
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {shown} FROM `{table}` ORDER BY id")
        assert cursor.fetchall() == before


def test_the_number_0_of_an_enum_is_a_key(world: UndoWorld) -> None:
    world.server.run_sql("CREATE TABLE e (k ENUM('a', 'b') PRIMARY KEY, v INT); INSERT INTO e VALUES ('a', 1)", "shop")
    before = world.rows("e", "k + 0, v")
    gtids = world.changed("SET sql_mode = ''; INSERT INTO e VALUES ('', 2); UPDATE e SET v = v + 1")
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    assert not report.skipped
    world.execute(script)
    assert world.rows("e", "k + 0, v") == before


def test_lines_for_programs_are_the_same_script(world: UndoWorld) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    before = world.rows("t")
    gtids = world.changed("UPDATE t SET c = 0")
    world.changed("UPDATE t SET c = 8 WHERE id = 3")
    world.publish()
    with ChangeScript(world.readable, Choice(gtids=gtids)) as made:
        lines = [json.loads(line) for line in json_lines(made)]
    statements = [sql for line in lines for sql in (line.get("sql"), line.get("check")) if sql]
    world.execute(";\n".join(statements) + ";\n")
    assert world.rows("t")[:2] == before[:2]
    [conflict] = [line for line in lines if line["kind"] == "conflict"]
    assert (conflict["column"], conflict["expected"], conflict["found"]) == ("c", "0.00", "8.00")
    assert lines[-1]["statements"] == 2
    assert lines[-1]["conflicts"] == 1


def test_conflicts_are_where_another_session_has_changed_the_same_columns(world: UndoWorld) -> None:
    random = Random(5)
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, d INT)", "shop")
    world.server.run_sql("INSERT INTO t VALUES " + ", ".join(f"({n}, 0, 0, 0, 0)" for n in range(40)), "shop")
    mine, others = ({n: set(random.sample("abcd", random.randrange(1, 4))) for n in range(40)} for _ in range(2))
    others = {n: columns if random.random() < 0.6 else set() for n, columns in others.items()}
    gtids = world.changed(updates(mine, 1))
    world.changed(updates(others, 2))
    world.publish()
    script, report = world.script(Choice(gtids=gtids))
    world.execute(script)
    expected = {n for n in range(40) if mine[n] & others[n]}
    assert report.conflict_count == len(expected)
    rows: list[tuple[Any, ...]] = []
    for n in range(40):
        left = dict.fromkeys(mine[n], 1) if n in expected else {}
        rows.append((n, *((left | dict.fromkeys(others[n], 2)).get(c, 0) for c in "abcd")))
    assert sorted(world.rows("t")) == rows


def updates(columns: dict[int, set[str]], value: int) -> str:
    """An UPDATE for each row."""
    return "".join(
        f"UPDATE t SET {', '.join(f'{c} = {value}' for c in sorted(names))} WHERE id = {n};"
        for n, names in columns.items()
        if names
    )


def test_the_command_prints_and_counts(
    world: UndoWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.server.run_sql(CREATE + ROWS, "shop")
    before = world.rows("t")
    gtids = world.changed("UPDATE t SET c = 0")
    world.publish()
    (tmp_path / "strata.toml").write_text(
        f'lake = "{world.lake}"\nstore = "sqlite:///{world.folder}/store.db"\n[sources.shop]\nconnection = "x"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", world.server.url)
    assert run(["undo", "--gtid", gtids.text, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "shop.t: 3 UPDATE" in shown
    assert "UPDATE `shop`" not in shown
    assert run(["undo", "--gtid", gtids.text]) == 0
    world.execute(capsys.readouterr().out)
    assert world.rows("t") == before
    assert run(["redo", "--table", "shop.t", "--gtid", gtids.text, "--format", "jsonl", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == {"shop.t": {"update": 3}}
    assert run(["undo", "--source", "shop", "--gtid-set", gtids.text, "--dry-run"]) == 0
    assert "shop.t: 3 UPDATE" in capsys.readouterr().out
    committed = f"{from_micros(LandedStream.open(world.lake, 'shop').clock):%Y-%m-%d %H:%M:%S.%f}"
    assert run(["undo", "--source", "shop", "--from", committed, "--until", committed, "--dry-run"]) == 0
    assert "shop.t: 3 UPDATE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "rows", "key"),
    [
        ("DECIMAL(7,4)", "DECIMAL(5,2)", "(1.2345, 0), (2, 0)", "1.23"),
        ("SET('a','b','c')", "SET('b','c','a')", "('a', 0), ('b', 0), ('c', 0)", "a"),
        ("CHAR(3)", "BINARY(3)", "('abc', 0), ('abd', 0)", "0x616263"),
    ],
)
def test_a_key_means_the_changes_before_a_ddl_wrote_it_in_another_way(
    world: UndoWorld, old: str, new: str, rows: str, key: str
) -> None:
    world.server.run_sql(f"CREATE TABLE k (k {old} PRIMARY KEY, n INT)", "shop")
    gtids = world.changed(f"INSERT INTO k VALUES {rows}; UPDATE k SET n = 1")
    world.changed(f"ALTER TABLE k MODIFY k {new}")
    later = world.changed("UPDATE k SET n = n + 1")
    world.publish()
    table = TableName("shop", "k")
    for chosen, changes in ((gtids, 2), (later, 1), (None, 3)):
        choice = Choice((table,), chosen, since=None if chosen else 0, keys=((key,),))
        assert world.script(choice)[1].changes == changes, chosen


def test_a_key_is_chosen_after_a_ddl_of_which_nobody_knows_what_it_made_of_keys(world: UndoWorld) -> None:
    world.server.run_sql("CREATE TABLE k (k CHAR(5) PRIMARY KEY, n INT)", "shop")
    gtids = world.changed("INSERT INTO k VALUES ('abc', 0), ('abd', 0)")
    world.changed("ALTER TABLE k MODIFY k BINARY(5)")
    later = world.changed("UPDATE k SET n = n + 1")
    world.publish()
    table, keys = TableName("shop", "k"), (("0x6162630000",),)
    assert world.script(Choice((table,), later, keys=keys))[1].changes == 1
    with pytest.raises(PastUnknownError, match="which changes are of the key 0x6162630000 is not known"):
        world.script(Choice((table,), gtids, keys=keys))
