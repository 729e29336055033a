"""A script does nothing if somebody has altered a table after it was printed, and nobody can while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc.past.undo.choice import Choice
from tests.mariadb_server import MariadbServer
from tests.past.undo.undo_world import execute_lines

if TYPE_CHECKING:
    from tests.past.undo.undo_world import UndoWorld

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', 'b', 'ü') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, "
    "f ENUM('😀', '😁') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, v VARCHAR(9) CHARACTER SET latin1, "
    "at TIMESTAMP(3) NULL, g INT GENERATED ALWAYS AS (id + 1) VIRTUAL, `a``b\\\\'c` INT) ENGINE=InnoDB;"
)
ROWS = "INSERT INTO t (id, e, f, v) VALUES (1, 'a', '😀', 'x'), (2, 'b', '😁', 'y')"
ALTERS = {
    "labels": ("MODIFY e ENUM('b', 'a', 'ü') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "shop.t: e before: enum"),
    "labels that are not shown": (
        "MODIFY f ENUM('😁', '😀') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "shop.t: labels of f",
    ),
    "fewer labels that are not shown": (
        "MODIFY f ENUM('😁') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "",
    ),
    "charset": ("MODIFY v VARCHAR(9) CHARACTER SET utf8mb4", "shop.t: v before: varchar(9) latin1"),
    "collation": ("MODIFY v VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci", "latin1_german2_ci"),
    "on update": ("MODIFY at TIMESTAMP(3) NULL ON UPDATE CURRENT_TIMESTAMP(3)", "at now: timestamp(3) on update"),
    "generated": ("DROP COLUMN g, ADD COLUMN g INT", "shop.t: g before: int generated, g now: int"),
    "unsigned": ("MODIFY `a``b\\\\'c` INT UNSIGNED", "now: int unsigned"),
    "dropped": ("DROP COLUMN v", "shop.t: v before"),
    "added": ("ADD COLUMN n INT DEFAULT 5", "shop.t: n now: int"),
    "renamed": ("RENAME TO u", "doesn't exist"),
}


@pytest.mark.parametrize("alter", ALTERS)
def test_nothing_is_done_if_a_definition_differs(world: UndoWorld, alter: str) -> None:
    world.server.run_sql(f"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; {CREATE}{ROWS}", "shop")
    gtids = world.changed("DELETE FROM t WHERE id = 1; UPDATE t SET e = 'ü', f = '😀' WHERE id = 2")
    world.publish()
    script, _ = world.script(Choice(gtids=gtids))
    clause, what = ALTERS[alter]
    world.server.run_sql(
        f"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; UPDATE t SET f = '😁'; ALTER TABLE t {clause}", "shop"
    )
    table = "u" if alter == "renamed" else "t"
    now = world.rows(table)
    for options in ((), ("--force",)):
        done = world.run(script, *options)
        assert done.returncode != 0 or options
        assert what in done.stdout.decode() + done.stderr.decode()
        assert world.rows(table) == now
    connection = world.server.connect()
    with connection, connection.cursor() as cursor, pytest.raises(pymysql.err.MySQLError):
        execute_lines(cursor, script)


def test_the_same_definition_is_no_difference(world: UndoWorld) -> None:
    world.server.run_sql(f"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; {CREATE}{ROWS}", "shop")
    before = world.rows("t")
    gtids = world.changed("DELETE FROM t WHERE id = 1; UPDATE t SET e = 'ü', f = '😀' WHERE id = 2")
    world.changed("ALTER TABLE t MODIFY f ENUM('😁', '😀') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    world.publish()
    script, _ = world.script(Choice(gtids=gtids))
    world.execute(script)
    assert world.rows("t") == before


def test_no_ddl_comes_between_the_check_and_the_end(world: UndoWorld) -> None:
    world.server.run_sql(f"SET sql_mode = 'NO_BACKSLASH_ESCAPES'; {CREATE}{ROWS}", "shop")
    gtids = world.changed("UPDATE t SET e = 'ü' WHERE id = 2")
    world.publish()
    guard = world.opening(Choice(gtids=gtids))
    connection, other = world.server.connect(), world.server.connect("shop")
    with connection, other, connection.cursor() as cursor, other.cursor() as ddl:
        for statement in guard:
            cursor.execute(statement)
        ddl.execute("SET lock_wait_timeout = 1")
        for statement in ("ALTER TABLE t ADD COLUMN n INT", "RENAME TABLE t TO u", "DROP TABLE t", "TRUNCATE TABLE t"):
            with pytest.raises(pymysql.err.MySQLError, match="Lock wait timeout"):
                ddl.execute(statement)
        cursor.execute("COMMIT")
        ddl.execute("ALTER TABLE t ADD COLUMN n INT")


def test_a_primary_key_that_the_server_generated_is_known(world: UndoWorld) -> None:
    if "mariadb" in world.server.program("mysql"):
        pytest.skip("MariaDB has no such keys")
    world.server.run_sql(
        "SET sql_generate_invisible_primary_key = ON; CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (1)", "shop"
    )
    before = world.rows("t", "my_row_id, a")
    gtids = world.changed("DELETE FROM t WHERE my_row_id = 1")
    world.publish()
    script, _ = world.script(Choice(gtids=gtids))
    world.server.run_sql("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
    try:
        world.execute(script)
    finally:
        world.server.run_sql("SET GLOBAL show_gipk_in_create_table_and_information_schema = DEFAULT")
    assert world.rows("t", "my_row_id, a") == before


def test_labels_in_gb18030_beyond_the_first_plane(world: UndoWorld) -> None:
    if isinstance(world.server, MariadbServer):
        pytest.skip("MariaDB has no gb18030")
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('😀', '中'), v VARCHAR(9)) CHARSET gb18030", "shop"
    )
    world.server.run_sql("INSERT INTO t VALUES (1, '😀', '中文😀𠀀')", "shop")
    before = world.rows("t")
    gtids = world.changed("DELETE FROM t")
    world.publish()
    script, _ = world.script(Choice(gtids=gtids))
    assert world.run(script).returncode == 0
    assert world.rows("t") == before


def test_a_table_that_cannot_roll_back_gets_one_statement_or_none(world: UndoWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, a INT) ENGINE=MyISAM", "shop")
    world.server.run_sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", "shop")
    before = world.rows("t")
    several = world.changed("UPDATE t SET a = 5 WHERE id < 3")
    single = world.changed("UPDATE t SET a = 7 WHERE id = 3")
    world.publish()
    now = world.rows("t")
    script, _ = world.script(Choice(gtids=several))
    for options in ((), ("--force",)):
        done = world.run(script, *options)
        assert done.returncode != 0 or options
        assert "shop.t: ROLLBACK does nothing in its engine MyISAM" in done.stdout.decode() + done.stderr.decode()
        assert world.rows("t") == now
    world.execute(world.script(Choice(gtids=single))[0])
    assert world.rows("t") == [*now[:2], before[2]]
    world.server.run_sql("ALTER TABLE t ENGINE=InnoDB", "shop")
    world.execute(script)
    assert world.rows("t") == before
