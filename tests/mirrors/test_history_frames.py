"""The LazyFrame of a history gives what DuckDB's relation of it gives, whatever is selected, on disk and on an object
store."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import polars as pl
import pytest

from strata_cdc.errors import Usage
from tests.mirrors import history_check
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

KEY = "id."


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path, lake: str) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop;")
    server.run_sql("RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    server.run_sql(
        f"CREATE TABLE t (`{KEY}` INT PRIMARY KEY, n INT, d DATE NOT NULL, doc JSON, f FLOAT, g POINT);"
        "SET sql_mode = '';"
        "INSERT INTO t VALUES (1, 1, '2024-01-01', '{}', 0.1, POINT(1, 2)), (2, NULL, '0000-00-00', NULL, -0e0, NULL);"
        "INSERT INTO t (`id.`) VALUES (3), (4), (5), (6); UPDATE t SET n = 7 WHERE n IS NULL;"
        "ALTER TABLE t ADD later DECIMAL(20, 3) DEFAULT 1.5, MODIFY f DOUBLE, ADD UNIQUE (n, `id.`);"
        "UPDATE t SET n = n + `id.`; DELETE FROM t WHERE `id.` = 2; UPDATE t SET `id.` = 9 WHERE `id.` = 3",
        "shop",
    )
    world = MirrorWorld(server, tmp_path, lake_url=lake)
    world.publish()
    world.update()
    return world


def test_whatever_is_selected(world: MirrorWorld) -> None:
    history = history_check.opened(world, "t")
    whole = history.to_polars().collect()
    assert whole.schema == history.to_polars().collect_schema()
    if "://" not in world.lake:
        wanted, found = history_check.by_duckdb(history), history_check.by_polars(history)
        assert sorted(map(repr, found.cast(wanted.schema).to_pylist())) == sorted(map(repr, wanted.to_pylist()))
    random = Random(7)
    for _ in range(12):
        names = random.sample(whole.columns, random.randint(1, 4))
        below = pl.col(KEY) < random.randint(1, 9)
        rows = whole.filter(below).select(names)
        shown = history.to_polars().filter(below).select(names).collect()
        assert sorted(map(repr, shown.rows())) == sorted(map(repr, rows.rows()))
        count = random.randint(0, 5)
        first = history.to_polars().filter(below).select(names).head(count).collect()
        assert (len(first), first.columns) == (min(count, len(rows)), names)
    assert history.to_polars().select(pl.len()).collect().item() == len(whole)


def test_what_the_log_does_not_have_is_an_error(world: MirrorWorld) -> None:
    world.server.run_sql("SET sql_mode = ''; ALTER TABLE t DROP KEY n, MODIFY n VARBINARY(20)", "shop")
    world.publish()
    world.update()
    frame = history_check.opened(world, "t").to_polars()
    with pytest.raises((Usage, pl.exceptions.ComputeError), match="n: the log does not tell n was int"):
        frame.select("n").collect()
    assert set(frame.select(KEY).collect().to_series()) == {1, 2, 3, 4, 5, 6, 9}
