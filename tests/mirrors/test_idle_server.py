"""A server that has been idle since its binlogs were purged: its mirrors are whole, and follow once it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from strata_cdc.landing.landed import LandedStream
from tests.mirrors.test_read_again import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
BEGINS = ("oldest", "snapshot")
FILLED = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');"
    "CREATE TABLE bare (a INT); INSERT INTO bare VALUES (1), (1); CREATE TABLE none (id INT PRIMARY KEY)"
)
TABLES = ("t", "bare", "none")


@pytest.fixture(params=BEGINS)
def shop(
    request: pytest.FixtureRequest,
    server: MysqlServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Shop:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    server.run_sql(FILLED, "shop")
    made = Shop(server, tmp_path, monkeypatch)
    made.set(f'land_from = "{request.param}"')
    purge(server)
    return made


def purge(server: MysqlServer) -> None:
    server.run_sql("FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")


def assert_follows(shop: Shop) -> None:
    """Traffic, and nothing, and a new file: the mirrors have what the server has."""
    shop.server.run_sql(
        "UPDATE t SET v = 'x' WHERE id = 2; DELETE FROM bare LIMIT 1; INSERT INTO none VALUES (7)", "shop"
    )
    assert run(["run"]) == 0
    shop.assert_equal(*TABLES)
    assert run(["run"]) == 0
    shop.server.run_sql("FLUSH BINARY LOGS; INSERT INTO t VALUES (9, 'z'); ALTER TABLE none ADD COLUMN b INT", "shop")
    assert run(["run"]) == 0
    shop.assert_equal(*TABLES)


@pytest.mark.parametrize("later", [False, True])
def test_a_run_makes_whole_mirrors(shop: Shop, *, later: bool) -> None:
    assert run(["run"]) == 0
    shop.assert_equal(*TABLES)
    if later:
        assert run(["run"]) == 0
        shop.server.run_sql("FLUSH BINARY LOGS")
        assert run(["run"]) == 0
        shop.assert_equal(*TABLES)
    assert_follows(shop)


def test_a_dump_makes_whole_mirrors(shop: Shop) -> None:
    assert run(["snapshot"]) == 0
    assert run(["dump"]) == 0
    shop.assert_equal(*TABLES)
    assert_follows(shop)


def test_what_is_purged_before_it_lands_is_noticed(shop: Shop) -> None:
    assert run(["snapshot"]) == 0
    assert run(["dump"]) == 0
    shop.server.run_sql("INSERT INTO t VALUES (4, 'd')", "shop")
    purge(shop.server)
    shop.server.run_sql("INSERT INTO t VALUES (5, 'e')", "shop")
    assert run(["run"]) != 0
    # Nothing is taken for what comes next.
    assert LandedStream.open(f"{shop.folder}/lake", "shop").last_seq == 0


def test_what_is_executed_before_its_binlog_was_reset_is_noticed(shop: Shop) -> None:
    assert run(["dump"]) == 0
    shop.server.run_sql("RESET BINARY LOGS AND GTIDS; INSERT INTO t VALUES (4, 'd')", "shop")
    assert run(["run"]) != 0
    assert LandedStream.open(f"{shop.folder}/lake", "shop").last_seq == 0
