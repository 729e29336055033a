"""Keys that the server tells apart, and a column of the lake does not: compared, and verified, by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.pipeline import ingest
from strata_cdc.quality.reconcile.report import ComparisonOutcome
from tests.quality.live_world import LiveWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

ANY_DATE = "SET sql_mode = 'ALLOW_INVALID_DATES'; "
DAYS = ["0000-00-00", "2024-00-15", "2024-02-31", "0000-01-01", "2024-01-15"]


@pytest.fixture(params=["", 'mirrors = ["shop.*"]'], ids=["changes", "mirrors"])
def world(server: MysqlServer, tmp_path: Path, request: pytest.FixtureRequest) -> LiveWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more=request.param)
    rows = ", ".join(f"('{day}', {at}, {at % 3})" for at, day in enumerate(DAYS))
    many = ", ".join(f"('{day}', {k}, {k})" for day in DAYS for k in range(100))
    world.sql(
        f"{ANY_DATE}CREATE TABLE days (d DATE PRIMARY KEY, v INT, e ENUM('a', ''));"
        f"INSERT INTO days VALUES {rows};"
        f"CREATE TABLE moments (d DATETIME(3) PRIMARY KEY, v INT, s TIMESTAMP NOT NULL);"
        f"INSERT INTO moments SELECT d, v, IF(v, NOW(), 0) FROM days;"
        "CREATE TABLE labels (e SET('', 'b') PRIMARY KEY, v INT);"
        "INSERT INTO labels VALUES (0, 0), (1, 1), (2, 2), (3, 3);"
        f"CREATE TABLE many (d DATE, k INT, v INT, PRIMARY KEY (d, k)); INSERT INTO many VALUES {many};"
        f"CREATE TABLE bag (d DATE NOT NULL, v INT); INSERT INTO bag SELECT d, v % 2 FROM days;"
        "UPDATE days SET d = '2025-00-00' WHERE d = '2024-02-31'; UPDATE moments SET v = 9 WHERE d = '2024-00-15';"
        "DELETE FROM days WHERE d = '0000-00-00'; INSERT INTO days VALUES ('0000-00-00', 8, 2);"
    )
    world.run()
    ingest.mirror("s", settings=world.settings)
    return world


def test_rows_match_and_changes_follow(world: LiveWorld) -> None:
    for found in (world.reconcile(), {name: world.in_parts(name) for name in ("many", "bag")}):
        assert {(one.outcome, one.reasons) for one in found.values()} == {(ComparisonOutcome.MATCH, ())}
    assert world.reconcile(keys=100)["many"].outcome is ComparisonOutcome.MATCH
    for found in (world.verified_in_parts("shop.many"), world.verified_in_parts("shop.days")):
        assert {(one.outcome, one.differences) for one in found.values()} == {(ComparisonOutcome.MATCH, ())}


def test_what_differs_only_there_is_told(world: LiveWorld) -> None:
    world.sql(
        f"{ANY_DATE}SET sql_log_bin = 0; UPDATE days SET d = '2024-00-16' WHERE d = '2024-00-15';"
        "UPDATE days SET e = 0 WHERE d = '0000-00-00'; UPDATE bag SET d = '0000-00-01' WHERE d = '0000-00-00';"
        "UPDATE moments SET s = 0 WHERE v = 9;"
    )
    found = world.reconcile()
    shown = {name: [(one.key, one.lake, one.server) for one in report.differences] for name, report in found.items()}
    assert ({"d": "2024-00-15"}, {"v": 1, "e": "a"}, None) in shown["days"]
    assert ({"d": "2024-00-16"}, None, {"v": 1, "e": "a"}) in shown["days"]
    assert ({"d": "0000-00-00"}, {"e": ""}, {"e": "0"}) in shown["days"]
    assert len(shown["days"]) == 3
    assert [(key, server) for key, _, server in shown["moments"]] == [
        ({"d": "2024-00-15 00:00:00.000"}, {"s": "0000-00-00 00:00:00"})
    ]
    assert {key["d"] for key, _, _ in shown["bag"]} == {"0000-00-00", "0000-00-01"}
    assert not shown["labels"]
    assert not shown["many"]
