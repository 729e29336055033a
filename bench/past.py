"""How long `strata sql` takes over a table as it was, with as many changes since as it has rows.

Run it: `python -m bench.past [ROWS]` (default 1,000,000), with a real MySQL.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from strata_cdc.past.query import answer
from tests.mysql_server import start_server
from tests.past.past_world import PastWorld

QUERIES = (
    "SELECT * FROM shop.t WHERE id = 7777",
    "SELECT COUNT(*), SUM(price), MAX(name) FROM shop.t",
    "SELECT name, COUNT(*) FROM shop.t GROUP BY name",
    "SELECT * FROM shop.t",
)
ROUNDS = 4
PARTS = 4
"""The changes come in this many transactions."""


def main(rows: int) -> None:
    """Prints the seconds of each query: the first time, and the best of the others."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "mysql") as server:
        (Path(folder) / "world").mkdir()
        world = PastWorld(server, Path(folder) / "world")
        server.run_sql(
            "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(10, 2), "
            "made DATETIME, n BIGINT); SET SESSION cte_max_recursion_depth = 100000000; INSERT INTO shop.t "
            f"WITH RECURSIVE c AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM c WHERE id < {rows}) "
            "SELECT id, CONCAT('name ', id % 1000), id / 100, '2024-02-29', id FROM c"
        )
        moments = {"before all changes": server.run_sql(server.executed_sql).split("\n")[1]}
        world.publish()
        world.update()
        for part in range(PARTS):
            server.run_sql(f"UPDATE shop.t SET price = price + 1 WHERE id % {PARTS} = {part}")
            if part == PARTS // 2:
                moments["between two updates of the mirror"] = server.run_sql(server.executed_sql).split("\n")[1]
        server.run_sql("ALTER TABLE shop.t RENAME COLUMN n TO number, ADD COLUMN more INT")
        world.publish()
        world.update()
        for name, at in moments.items():
            for query in QUERIES:
                first, *others = [seconds(world, query, at) for _ in range(ROUNDS)]
                print(f"{name} | {query} | {first:.2f} s, then {min(others):.2f} s")


def seconds(world: PastWorld, query: str, at: str) -> float:
    """How long one answer takes."""
    begin = time.perf_counter()
    answer(world.readable, query, at)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
