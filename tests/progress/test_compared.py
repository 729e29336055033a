"""What comparisons with a real server came to: stored, counted, and said by `strata status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.progress.compared import ServerComparison, server_comparison
from strata_cdc.progress.status import source_status
from strata_cdc.store.database import open_store
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer


@pytest.mark.mysql
def test_each_table_has_its_newest_comparison(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path)
    source = world.settings.source("s")
    engine = open_store(source.store_url)
    assert server_comparison(engine, "s") is None
    world.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT); INSERT INTO a VALUES (1, 1), (2, 2);")
    world.sql("CREATE TABLE b (id INT PRIMARY KEY, v INT); INSERT INTO b VALUES (1, 1);")
    world.run()
    never = server_comparison(engine, "s")
    assert never is not None
    assert (never.tables, never.never_tables) == (0, ("shop.a", "shop.b"))
    assert never.line("s") == "compared with the server: no table yet: `strata reconcile --source s`"

    world.reconcile()
    same = source_status(source, engine, now=0).compared
    assert same is not None
    assert (same.tables, same.rows, same.different_rows, same.never_tables) == (2, 3, 0, ())
    assert "3 rows of 2 tables, none differs" in same.line("s")

    world.sql("SET sql_log_bin = 0; UPDATE a SET v = 9 WHERE id = 2;")
    world.reconcile()
    different = server_comparison(engine, "s")
    assert different is not None
    assert (different.different_rows, different.different_tables) == (1, ("shop.a",))
    assert "1 differ" in different.line("s")

    world.sql("DROP TABLE a;")
    world.run()
    left = server_comparison(engine, "s")
    assert left is not None
    assert (left.tables, left.rows, left.different_tables) == (1, 1, ())


LONG_AGO, LATER = 1_700_000_000_000_000, 1_700_100_000_000_000


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        (
            ServerComparison(1, 1, 0, (), (), (), 0, LONG_AGO, LONG_AGO),
            "compared with the server: 1 row of 1 table, none differs (2023-11-14 22:13 UTC)",
        ),
        (
            ServerComparison(3, 12_000, 2, ("d.a",), (), (), 1, LONG_AGO, LATER),
            "compared with the server: 12,000 rows of 3 tables, of 1 table a sample, 2 differ, of d.a "
            "(2023-11-14 22:13 to 2023-11-16 02:00 UTC): `strata reconcile --source s`",
        ),
        (
            ServerComparison(0, 0, 0, (), ("d.a",), ("d.b", "d.c", "d.d", "d.e"), 0, 0, 0),
            "compared with the server: no table yet; cannot be compared: d.a; "
            "never compared: d.b, d.c, d.d and 1 other: `strata reconcile --source s`",
        ),
    ],
)
def test_the_line(numbers: ServerComparison, line: str) -> None:
    assert numbers.line("s") == line
