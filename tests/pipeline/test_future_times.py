"""A server without commit times logs those of its sessions: one of the future keeps nothing from being published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.ops.doctor.check_source import check_source
from strata_cdc.pipeline.plan.closable import is_source_ahead
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from tests.mariadb_server import start_mariadb
from tests.storm.source import NAME, StormSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
FUTURE, LATER = 2_100_000_000, 2_110_000_000


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[MysqlServer]:
    """Nobody else may have its times."""
    with start_mariadb(tmp_path / "server", "11.8") as running:
        yield running


def test_rows_after_a_time_of_the_future_are_published(own_server: MysqlServer, tmp_path: Path) -> None:
    world = StormSource(own_server, tmp_path)
    own_server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (1)")
    assert published(world) == 1
    source = world.settings.source(NAME)
    assert not is_source_ahead(source)
    in_future = "SET TIMESTAMP = {}; INSERT INTO t VALUES (2); SET TIMESTAMP = DEFAULT; INSERT INTO t VALUES (3)"
    own_server.run_sql(in_future.format(FUTURE), "shop")
    assert published(world) == 3
    assert is_source_ahead(source)
    closed = len(IntervalLedger(world.engine).all(NAME))
    assert published(world) == 3
    assert len(IntervalLedger(world.engine).all(NAME)) == closed, "an idle source comes to rest"
    # What follows has the same time, and a table that it changes gets another version.
    own_server.run_sql("INSERT INTO t VALUES (4); ALTER TABLE t ADD COLUMN n INT; INSERT INTO t VALUES (5, 5)", "shop")
    assert published(world) == 5
    own_server.run_sql(f"SET TIMESTAMP = {LATER}; DELETE FROM t WHERE id = 1", "shop")
    assert published(world) == 6
    assert any(finding.name == "commit times" for finding in check_source(source))


def published(world: StormSource) -> int:
    """How many rows of the table are published after a run."""
    world.run()
    pieces = TableIntervalLedger(world.engine).select(NAME, [IntervalState.PUBLISHED], table=("shop", "t"))
    return sum(piece.published_rows for piece in pieces)
