"""Tables that cannot be read, or not wholly, among others: each is named with its reason, and no other is kept back."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING

import pytest

from strata_cdc.quality.reconcile.reading import ComparisonRequest
from strata_cdc.quality.reconcile.report import ComparisonOutcome
from strata_cdc.quality.reconcile.server_rows import Pace
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

ROUNDS = int(os.environ.get("STRATA_ODD_TABLES", "0"))
"""Drawn anew; 0 for one that is always the same."""
SEEDS = tuple(random.SystemRandom().sample(range(1 << 30), ROUNDS)) or (7,)
ROWS = "(1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"
PLAIN = f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT UNSIGNED); INSERT INTO t VALUES {ROWS};"
QUIETLY = "SET sql_log_bin = 0;"
"""In front of what nobody is told of."""
LOCK = "LOCK TABLES t WRITE"
GOOD = "as any other"
MADE = {
    GOOD: (PLAIN, ""),
    "bytes that are no text": (
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET cp1251);"
        "INSERT INTO t VALUES (1, _binary x'9841');",
        "",
    ),
    "bytes that are no text, in its key": (
        "CREATE TABLE t (k VARCHAR(9) CHARACTER SET cp1251 PRIMARY KEY); INSERT INTO t VALUES (_binary x'98'), ('b');",
        "",
    ),
    "bytes that are no text, without a key": (
        "CREATE TABLE t (v VARCHAR(9) CHARACTER SET cp1251); INSERT INTO t VALUES (_binary x'98');",
        "",
    ),
    "its file was discarded": (PLAIN, "ALTER TABLE t DISCARD TABLESPACE"),
    "its file was discarded, quietly": (PLAIN, f"{QUIETLY} ALTER TABLE t DISCARD TABLESPACE"),
    "a column that is no JSON": (PLAIN, "ALTER TABLE t ADD COLUMN g JSON AS (CAST(v AS JSON)) VIRTUAL"),
    "a column out of range": (PLAIN, "ALTER TABLE t ADD COLUMN g BIGINT UNSIGNED AS (n - 2) VIRTUAL"),
    "a column out of range, quietly": (
        PLAIN,
        f"{QUIETLY} ALTER TABLE t ADD COLUMN g BIGINT UNSIGNED AS (n - 2) VIRTUAL",
    ),
    "locked": (PLAIN, LOCK),
    "of another engine": ("CREATE TABLE t (id INT) ENGINE = ARCHIVE; INSERT INTO t VALUES (1);", ""),
    "dropped, quietly": (PLAIN, f"{QUIETLY} DROP TABLE t"),
}
"""What a table is made by, and what happens to it once it is published."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("keys", [None, 10])
def test_an_odd_table_keeps_no_other_back(server: MysqlServer, tmp_path: Path, seed: int, keys: int | None) -> None:
    draw = random.Random(seed)
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more="reconcile_rows = 2")
    kinds = [*MADE, *[GOOD] * len(MADE)]
    draw.shuffle(kinds)
    tables = {f"t{number:02}": kind for number, kind in enumerate(kinds)}
    world.sql("SET sql_mode = '';" + "".join(of_table(MADE[kind][0], name) for name, kind in tables.items()))
    world.run()
    with server.connect("shop") as locker, locker.cursor() as cursor:
        for name, kind in tables.items():
            what = of_table(MADE[kind][1], name)
            if MADE[kind][1] == LOCK:
                cursor.execute(what)
            elif what:
                world.sql(what)
        found = world.compared(ComparisonRequest(keys=keys, pace=Pace(2, lock_wait_seconds=1)))
    assert set(found) == set(tables)
    for name, kind in tables.items():
        assert (found[name].outcome is ComparisonOutcome.MATCH) == (kind == GOOD), (kind, found[name])
        assert kind == GOOD or found[name].reasons or found[name].definition, kind


def of_table(text: str, name: str) -> str:
    """The statements about the table `t`, for one of another name."""
    return re.sub(r"\bt\b", name, text)
