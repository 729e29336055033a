"""Random changes, taken back and made again on a real server: the rows are what they were, byte for byte."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc.past.undo.choice import Choice
from strata_cdc.past.undo.steps import Columns, Direction
from tests.mariadb_server import FAMILIES, start_family
from tests.past.random_types import KEYS, RandomRows
from tests.past.undo_world import SESSION, UndoWorld, fresh
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
DDL = (
    "ALTER TABLE t ADD COLUMN newer INT NOT NULL DEFAULT 5 FIRST",
    "ALTER TABLE t MODIFY COLUMN id {id} AFTER at",
    "ALTER TABLE t CHANGE COLUMN {a} {b} {of_a}, CHANGE COLUMN {b} {a} {of_b}",
    "ALTER TABLE t CHANGE COLUMN {a} renamed {of_a}",
    "RENAME TABLE t TO u",
)


@pytest.fixture(scope="module", params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_family(tmp_path_factory.mktemp("family"), request.param) as running:
        yield running


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("seed", seeds())
def test_rows_are_as_before_and_then_as_after(
    server: MysqlServer, tmp_path: Path, key: str, image: str, seed: int
) -> None:
    fresh(server)
    world, random = UndoWorld(server, tmp_path, name="shop"), Random(f"{seed} {key} {image}")
    rows = RandomRows(random, key)
    init = f"{SESSION}, binlog_row_image = {image}"
    with server.connect("shop", init_command=init) as connection, connection.cursor() as cursor:
        cursor.execute(rows.create())
        for _ in range(8):
            attempt(cursor, rows.insert())
        shown = ", ".join(world.exact("t").values())
        before, begin = world.rows("t", shown), world.marked()
        for _ in range(random.randrange(3, 12)):
            cursor.execute("BEGIN")
            for _ in range(random.choice([1, 1, 4])):
                attempt(cursor, rows.step())
            cursor.execute("COMMIT")
        after, end = world.rows("t", shown), world.marked()
        if random.random() < 0.5:
            world.publish()
            world.update()
        name, renames = alter(cursor, random, rows)
    world.publish()
    if random.random() < 0.5:
        world.update()
    shown = renamed(shown, renames)
    columns = random.choice(list(Columns)) if image == "FULL" else Columns.CHANGED
    if begin == end:
        return  # every statement broke a key
    choice = Choice(gtids=world.between(begin, end))
    script, report = world.script(choice, columns=columns)
    assert (report.conflicts, dict(report.skipped)) == ([], {}), script
    world.execute(script)
    assert world.rows(name, shown) == before, script
    world.publish()
    script, report = world.script(choice, Direction.REDO, columns)
    assert (report.conflicts, dict(report.skipped)) == ([], {}), script
    world.execute(script)
    assert world.rows(name, shown) == after, script


def attempt(cursor: pymysql.cursors.Cursor, statement: str) -> None:
    """Some statements break a key."""
    try:
        cursor.execute(statement)
    except pymysql.err.MySQLError:
        return


def alter(cursor: pymysql.cursors.Cursor, random: Random, rows: RandomRows) -> tuple[str, dict[str, str]]:
    """Gives the table another definition, or none; its name and the names of columns afterwards."""
    name, renames = "t", {}
    for statement in random.sample(DDL[:4], random.randrange(0, 3)) + random.sample(DDL[4:], random.randrange(0, 2)):
        one, other = random.sample(list(rows.columns), 2)
        if "id" in statement and "{id}" in statement:
            continue
        if renames and "{a}" in statement:
            continue
        filled = statement.format(a=one, b=other, of_a=rows.columns[one][0], of_b=rows.columns[other][0], id="")
        cursor.execute(filled)
        if "{b}" in statement:
            renames |= {one: other, other: one}
        elif "renamed" in statement:
            renames[one] = "renamed"
        if statement.startswith("RENAME"):
            name = "u"
    return name, renames


def renamed(shown: str, renames: dict[str, str]) -> str:
    """The columns by their names of now."""
    for number, old in enumerate(renames):
        shown = shown.replace(f"`{old}`", f"`#{number}#`")
    for number, new in enumerate(renames.values()):
        shown = shown.replace(f"`#{number}#`", f"`{new}`")
    return shown
