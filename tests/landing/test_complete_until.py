"""Up to which time everything that a server had committed has landed, though it has committed nothing since."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from strata_cdc.landing.land_state import read_state
from strata_cdc.landing.landed import LandedStream
from tests.landing.landing import following, land
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.landing.land_state import CompleteUntil
    from tests.mariadb_server import MariadbServer
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

TABLE = "DROP DATABASE IF EXISTS d; CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)"
CLOCK = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"


def complete(folder: Path) -> CompleteUntil | None:
    state = read_state(str(folder), "s")
    assert state is not None
    return state.complete


def test_an_idle_server_is_complete_up_to_its_clock(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(TABLE)
    land(server, tmp_path)
    clocks = []
    for _ in range(2):
        clocks.append(int(server.run_sql(CLOCK).split()[-1]))
        land(server, tmp_path)
        until = complete(tmp_path)
        assert until is not None
        assert clocks[-1] < until.time < int(server.run_sql(CLOCK).split()[-1])
        assert until.seq == LandedStream.open(str(tmp_path), "s").last_seq
    server.run_sql("INSERT INTO d.t VALUES ()")
    land(server, tmp_path)
    later = complete(tmp_path)
    assert later is not None
    assert later.seq == until.seq + 1
    assert later.time > until.time


def test_what_commits_just_now_is_not_passed_over(server: MysqlServer, tmp_path: Path) -> None:
    """A transaction owns its GTID before it is in gtid_executed: it may have an earlier time than the clock shows."""
    server.run_sql(TABLE)
    land(server, tmp_path)
    with closing(server.connect("d")) as session, session.cursor() as cursor:
        cursor.execute("SET gtid_next = '3e11fa47-71ca-11e1-9e33-c80aa9429562:1'")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES ()")
        land(server, tmp_path)
        assert complete(tmp_path) is None
        cursor.execute("COMMIT")
        cursor.execute("SET gtid_next = 'AUTOMATIC'")
    land(server, tmp_path)
    assert complete(tmp_path) is not None


def test_who_follows_asks_again_while_nothing_comes(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(TABLE)
    with following(server, tmp_path) as follower:
        follower.wait_for(lambda: follower.seen and follower.seen[-1].complete)
        first = follower.seen[-1].complete
        wait_until(lambda: follower.seen[-1].complete.time > first.time, seconds=30)
    assert complete(tmp_path) is not None


def test_mariadb_does_not_show_it(mariadb_server: MariadbServer, tmp_path: Path) -> None:
    """A statement that began earlier may commit later, with the time at which it began."""
    mariadb_server.run_sql(TABLE)
    land(mariadb_server, tmp_path)
    assert complete(tmp_path) is None
