"""Random changes with DDL between them that loses values, taken back on a real server: rows and columns as before."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.past.undo.choice import Choice
from tests.past.random_types import KEYS, RandomRows
from tests.past.undo.test_random_undo import attempt, keep
from tests.past.undo.undo_world import SESSION, UndoWorld, fresh
from tests.seeds import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
# Types whose values are known when they do not fit.
NARROWER = {
    "de": "DECIMAL(20,2)",
    "dt": "DATETIME(2)",
}
EACH_FAMILY = True


COLUMNS = (
    "SELECT column_name, column_type, collation_name, is_nullable, column_default, extra FROM "
    "information_schema.columns WHERE table_schema = 'shop' AND table_name = 't' ORDER BY ordinal_position"
)


@pytest.mark.parametrize("key", [name for name in KEYS if name not in {"none", "float"}])
@pytest.mark.parametrize("seed", seeds())
def test_columns_and_values_are_as_before(server: MysqlServer, tmp_path: Path, key: str, seed: int) -> None:
    fresh(server)
    world, random = UndoWorld(server, tmp_path, name="shop"), Random(f"{seed} {key} ddl")
    rows = RandomRows(random, key)
    with server.connect("shop", init_command=SESSION) as connection, connection.cursor() as cursor:
        cursor.execute(rows.create())
        # MariaDB 11.8 logs no generated columns of updates, so that its mirrors do not know them.
        cursor.execute("ALTER TABLE t DROP COLUMN made")
        for _ in range(8):
            attempt(cursor, rows.insert())
        keep(cursor, "kept_before")
        columns = server.run_sql(COLUMNS)
        begin = world.marked()
        gone = random.sample(list(rows.columns), 2)
        for number in range(9):
            attempt(cursor, rows.step())
            if number in {3, 6} and len(rows.columns) > 4:
                name = gone[number // 6]
                if name in NARROWER and random.random() < 0.8:
                    cursor.execute(f"ALTER TABLE t MODIFY COLUMN {name} {NARROWER[name]}")
                else:
                    cursor.execute(f"ALTER TABLE t DROP COLUMN {name}")
                    rows.columns.pop(name)
        end = world.marked()
    world.publish()
    script, report = world.script(Choice(gtids=world.between(begin, end)))
    assert (report.conflicts, dict(report.skipped)) == ([], {}), script
    world.execute(script)
    shown = ", ".join(world.exact("t").values())
    assert world.rows("t", shown) == world.rows("kept_before", shown, "kept"), script
    assert server.run_sql(COLUMNS) == columns, script
