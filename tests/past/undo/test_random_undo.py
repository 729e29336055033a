"""Random changes, taken back and made again on a real server: the rows are what they were, byte for byte."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc.past.undo.choice import Choice
from strata_cdc.past.undo.steps import ColumnChoice, Direction
from tests.mariadb_server import FAMILIES
from tests.past.random_types import KEYS, WIDER, RandomRows
from tests.past.undo.undo_world import SESSION, UndoWorld, fresh
from tests.seeds import are_drawn, seeds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
DDL = (
    "ALTER TABLE {t} ADD COLUMN newer INT NOT NULL DEFAULT 5 FIRST",
    "ALTER TABLE {t} CHANGE COLUMN {a} {b} {of_a}, CHANGE COLUMN {b} {a} {of_b}",
    "ALTER TABLE {t} CHANGE COLUMN {a} renamed {of_a}",
    "ALTER TABLE {t} MODIFY COLUMN {wide} {wider}",
    "RENAME TABLE {t} TO u",
)
COPIES = ("t", "kept.kept_before", "kept.kept_after")
EACH_FAMILY = True
IMAGES = ("FULL", "MINIMAL", "NOBLOB")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("turn", range(len(IMAGES) if are_drawn() else 1))
@pytest.mark.parametrize("seed", seeds())
def test_rows_are_as_before_and_then_as_after(
    server: MysqlServer, tmp_path: Path, request: pytest.FixtureRequest, key: str, turn: int, seed: int
) -> None:
    """Each key meets each image on one of three servers, each server each image; in `make soak` all of them meet."""
    family = FAMILIES.index(request.node.callspec.params["server"])
    image = IMAGES[(list(KEYS).index(key) + family + turn) % len(IMAGES)]
    fresh(server)
    world, random = UndoWorld(server, tmp_path, name="shop"), Random(f"{seed} {key} {image}")
    rows = RandomRows(random, key)
    init = f"{SESSION}, binlog_row_image = {image}"
    with server.connect("shop", init_command=init) as connection, connection.cursor() as cursor:
        cursor.execute(rows.create())
        for _ in range(8):
            attempt(cursor, rows.insert())
        keep(cursor, "kept_before")
        begin = world.marked()
        for _ in range(random.randrange(3, 12)):
            cursor.execute("BEGIN")
            for _ in range(random.choice([1, 1, 4])):
                attempt(cursor, rows.step())
            cursor.execute("COMMIT")
        keep(cursor, "kept_after")
        end = world.marked()
        if random.random() < 0.5:
            world.publish()
            world.update()
        name = alter(cursor, random, rows)
    world.publish()
    if random.random() < 0.5:
        world.update()
    columns = random.choice(list(ColumnChoice)) if image == "FULL" else ColumnChoice.CHANGED
    if begin == end:
        return  # every statement broke a key
    choice = Choice(gtids=world.between(begin, end))
    shown = ", ".join(world.exact(name).values())
    script, report = world.script(choice, columns=columns)
    assert (report.conflicts, dict(report.skipped)) == ([], {}), script
    world.execute(script)
    assert world.rows(name, shown) == world.rows("kept_before", shown, "kept"), script
    world.publish()
    script, report = world.script(choice, Direction.REDO, columns)
    assert (report.conflicts, dict(report.skipped)) == ([], {}), script
    world.execute(script)
    assert world.rows(name, shown) == world.rows("kept_after", shown, "kept"), script


def keep(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """Copies the table as it is, without logging it."""
    cursor.execute("SET sql_log_bin = 0")
    cursor.execute("CREATE DATABASE IF NOT EXISTS kept")
    cursor.execute(f"DROP TABLE IF EXISTS kept.{name}")
    cursor.execute(f"CREATE TABLE kept.{name} LIKE t")
    cursor.execute("SHOW COLUMNS FROM t")
    names = ", ".join(f"`{row[0]}`" for row in cursor.fetchall() if row[0] != "made")
    cursor.execute(f"INSERT INTO kept.{name} ({names}) SELECT {names} FROM t")
    cursor.execute("SET sql_log_bin = 1")


def attempt(cursor: pymysql.cursors.Cursor, statement: str) -> None:
    """Some statements break a key."""
    try:
        cursor.execute(statement)
    except pymysql.err.MySQLError:
        return


def alter(cursor: pymysql.cursors.Cursor, random: Random, rows: RandomRows) -> str:
    """Gives the table and its copies another definition, or none; the table's name afterwards."""
    renamed: set[str] = set()
    for statement in sorted(random.sample(DDL, random.randrange(0, 4)), key=DDL.index):
        one, other = random.sample(list(rows.columns), 2)
        wide = random.choice([name for name in rows.columns if name in WIDER] or [""])
        touched = {one, other} if "{a}" in statement else {wide} if "{wide}" in statement else set()
        if "" in touched or touched & renamed:
            continue
        renamed |= touched
        types = {"of_a": rows.columns[one][0], "of_b": rows.columns[other][0], "wider": WIDER.get(wide, "")}
        if statement.startswith("RENAME"):
            cursor.execute(statement.format(t="t"))
            return "u"
        for table in COPIES:
            cursor.execute(f"SET sql_log_bin = {int(table == 't')}")
            cursor.execute(statement.format(t=table, a=one, b=other, wide=wide, **types))
        cursor.execute("SET sql_log_bin = 1")
    return "t"
