"""Clocks that differ, without servers; how they are measured is in test_group_stream.py."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.binlog.protocol.server_clocks import Clocks, Server, ServerMoment, corrections
from strata_cdc.position.sets import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.mariadb_server import MariadbServer

STEP = 1_000_000
HOUR = 3_600_000_000
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def moment(ahead: int, bound: int = 100) -> ServerMoment:
    return ServerMoment(0, GtidSet(), ahead, bound)


def amounts(**ahead: int) -> Mapping[str, int]:
    return {name: one.amount for name, one in corrections({n: moment(a) for n, a in ahead.items()}, STEP).items()}


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        ({"a": 0, "b": 3_000, "c": -2_000}, {"a": 0, "b": 0, "c": 0}),
        # This machine's own clock is wrong: no matter.
        ({"a": HOUR, "b": HOUR + 3_000, "c": HOUR - 2_000}, {"a": 0, "b": 0, "c": 0}),
        ({"a": 0, "b": HOUR + 7, "c": 1}, {"a": 0, "b": HOUR, "c": 0}),
        ({"a": 5, "b": -2 * HOUR, "c": 1}, {"a": 0, "b": -2 * HOUR, "c": 0}),
        ({"a": 0, "b": 600_000}, {"a": 0, "b": STEP}),
        ({"a": 0}, {"a": 0}),
    ],
)
def test_the_middle_clock_is_that_of_the_group(ahead, expected):
    assert amounts(**ahead) == expected


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(-HOUR, HOUR), min_size=1), st.integers(1, HOUR))
def test_what_is_left_is_within_the_bound(ahead, step):
    found = corrections({name: moment(one) for name, one in ahead.items()}, step)
    middle = sorted(ahead.values())[(len(ahead) - 1) // 2]
    for name, one in found.items():
        assert abs(ahead[name] - middle - one.amount) <= min(one.bound, step // 2 + 1)
        assert one.amount % step == 0


def clocks(**ahead: int) -> Clocks:
    """Measured so, and answering so from now on."""
    found = Clocks("g", {}, STEP)
    found._ask = lambda source: moment(ahead[source])
    found.measure(sorted(ahead))
    return found


def test_a_clock_that_is_set_forward_is_measured_anew(caplog):
    found = clocks(a=0, b=0, c=0)
    now = found.now()
    assert found.translate("b", np.array([now - 5])) == [now - 5]
    found._ask = lambda source: moment(HOUR if source == "b" else 0)
    assert found.translate("b", np.array([now + HOUR])) == [now]
    assert "the clock of b is +3600.000 s away" in caplog.text


def test_a_clock_that_is_set_back_is_measured_anew():
    found = clocks(a=0, b=HOUR, c=0)
    now = found.now()
    assert found.translate("b", np.array([now + HOUR])) == [now]
    found._ask = lambda source: moment(0)
    assert found.translate("b", np.array([now + 10])) == [now + 10]


def test_an_answer_corrects_a_clock_too():
    found = clocks(a=0, b=0, c=0)
    found.note("b", moment(STEP * 5))
    assert found.in_group("b", STEP * 7) == STEP * 2
    assert found.in_server("b", STEP * 2) == STEP * 7
    found.note("b", moment(STEP * 5 + 1000))
    assert found.in_group("b", STEP * 7) == STEP * 2


@pytest.mark.parametrize("ahead", [-3 * HOUR, 3 * HOUR])
def test_the_groups_time_goes_on_when_the_middle_clock_is_set(ahead):
    """Another one is in the middle then. If the group's time went back with it, the watermark would stand for hours."""
    found = clocks(a=0, b=2 * HOUR, c=-2 * HOUR)
    now = found.now()
    found.note("a", moment(ahead))
    assert abs(found.now() - now) < STEP
    assert [found.in_group(name, now + away) for name, away in (("a", ahead), ("b", 2 * HOUR), ("c", -2 * HOUR))] == [
        now
    ] * 3


def test_the_groups_time_goes_on_over_a_hop_to_servers_with_another_time():
    found = clocks(a=0)
    now = found.now()
    found._ask = lambda _: moment(5 * HOUR)
    found.measure(["b", "c"])
    assert abs(found.now() - now) < STEP
    assert found.in_group("b", now + 5 * HOUR) == now


def test_the_groups_time_drifts_with_its_clocks():
    found = clocks(a=0, b=0, c=0)
    for at in range(1, 5):
        for name in "abc":
            found.note(name, moment(at * STEP * 6 // 10))
    assert {one.amount for one in found.corrections.values()} == {0}


@pytest.mark.mysql
def test_mariadb_logs_no_commit_times(mariadb_server: MariadbServer) -> None:
    """A transaction has the time at which its last statement began, or any time that the session sets: so the server's
    clock and position prove nothing of what comes next."""
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE times")
        cursor.execute("CREATE TABLE times.t (a INT)")
        cursor.execute("SET timestamp = 1000000000")
        cursor.execute("INSERT INTO times.t VALUES (1)")
        cursor.execute("SELECT @@GLOBAL.gtid_binlog_pos")
        [[executed]] = cursor.fetchall()
    assert (1_000_000_000).to_bytes(4, "little") + b"\xa2" in mariadb_server.binlogs()[-1].read_bytes()
    found = Server(ServerAddress.from_url(mariadb_server.url)).measure()
    assert not found.proves_idleness
    assert (str(found.executed), found.server_uuid) == (executed, "gtid_domain_id 0, server_id 1")
    assert abs(found.clock - time.time_ns() // 1000) < 10_000_000
