"""How long `strata sql`, `strata row` and `strata undo` take with a table that has had as many changes as it has rows.

Run it: `python -m bench past [ROWS]` (default 1,000,000), with a real MySQL.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from strata_cdc.past.query import answer
from strata_cdc.past.rows import PastRows
from strata_cdc.past.undo.choice import Choice, ChosenGtids
from strata_cdc.past.undo.script import script_lines
from strata_cdc.past.undo.undo import ChangeScript
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.model.definition import TableName
from tests.mysql_server import start_server
from tests.past.past_world import PastWorld

if TYPE_CHECKING:
    from collections.abc import Callable

QUERIES = (
    "SELECT * FROM shop.t WHERE id = 7777",
    "SELECT COUNT(*), SUM(price), MAX(name) FROM shop.t",
    "SELECT name, COUNT(*) FROM shop.t GROUP BY name",
    "SELECT * FROM shop.t",
)
VERSIONS = (
    "SELECT * FROM shop.t FOR SYSTEM_TIME ALL WHERE id = 7777",
    "SELECT COUNT(*) FROM shop.t FOR SYSTEM_TIME ALL",
    "SELECT _gtid, COUNT(*) FROM shop.t FOR SYSTEM_TIME ALL GROUP BY _gtid",
    "SELECT * FROM shop.t FOR SYSTEM_TIME ALL",
)
TABLE = TableName("shop", "t")
BEFORE = "before all changes"
ROUNDS = 4
UNDONE = 10_000
PARTS = 4
"""The changes come in this many transactions."""


def main(arguments: list[str]) -> None:
    """Prints the seconds of each query: the first time, and the best of the others."""
    rows = int(arguments[0]) if arguments else 1_000_000
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "mysql") as server:
        (Path(folder) / "world").mkdir()
        world = PastWorld(server, Path(folder) / "world")
        server.run_sql(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(10, 2), "
            "made DATETIME, n BIGINT); SET SESSION cte_max_recursion_depth = 100000000; INSERT INTO shop.t "
            f"WITH RECURSIVE c AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM c WHERE id < {rows}) "
            "SELECT id, CONCAT('name ', id % 1000), id / 100, '2024-02-29', id FROM c"
        )
        moments = {BEFORE: server.run_sql(server.executed_sql).split("\n")[1]}
        world.publish()
        world.update()
        for part in range(PARTS):
            server.run_sql(f"UPDATE shop.t SET price = price + 1 WHERE id % {PARTS} = {part}")
            if part == PARTS // 2:
                moments["between two updates of the mirror"] = server.run_sql(server.executed_sql).split("\n")[1]
        before_accident = world.server.run_sql(server.executed_sql).split("\n")[1]
        server.run_sql(f"UPDATE shop.t SET n = 0 WHERE id % {max(1, rows // UNDONE)} = 0")
        accident = parse_executed(server.run_sql(server.executed_sql).split("\n")[1]) - parse_executed(before_accident)
        server.run_sql("ALTER TABLE shop.t RENAME COLUMN n TO number, ADD COLUMN more INT")
        world.publish()
        world.update()
        for name, at in moments.items():
            for query in QUERIES:
                show(f"{name} | {query}", partial(answer, world.readable, query, at))
        for query in VERSIONS:
            show(query, partial(answer, world.readable, query))
        questions: dict[str, Callable[[PastRows], object]] = {
            "history of a row": lambda rows: list(rows.history(TABLE, ["7777"])),
            "blame of a row": lambda rows: rows.blame(TABLE, ["7777"]),
            "differences of a row": lambda rows: list(rows.diff(TABLE, ["7777"], since=moments[BEFORE]).rows),
            "differences of all rows": lambda rows: sum(1 for _ in rows.diff(TABLE, since=moments[BEFORE]).rows),
        }
        for name, question in questions.items():
            show(name, partial(ask, world, question))
        choice = Choice((TABLE,), ChosenGtids.parse(str(accident)))
        show(f"undo of a transaction with about {UNDONE:,} rows", partial(undo, world, choice))


def ask(world: PastWorld, question: Callable[[PastRows], object]) -> None:
    """Opens the source and answers a question about its rows."""
    with PastRows(world.readable) as rows:
        question(rows)


def undo(world: PastWorld, choice: Choice) -> None:
    """Makes the script that takes changes back."""
    with ChangeScript(world.readable, choice) as script:
        for _ in script_lines(script):
            pass


def show(name: str, question: Callable[[], object]) -> None:
    """Prints how long an answer takes: the first time, and the best of the others."""
    first, *others = [seconds(question) for _ in range(ROUNDS)]
    print(f"{name} | {first:.2f} s, then {min(others):.2f} s")


def seconds(question: Callable[[], object]) -> float:
    """How long one answer takes."""
    begin = time.perf_counter()
    question()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(sys.argv[1:])
