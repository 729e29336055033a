"""Clocks whose distance is measured near half a step of `clock_bound`: readers may correct them by one step more or
less than others, and than themselves before they were killed. The witness is when each change was made, by one true
clock; what is promised is in docs/groups.md."""

from __future__ import annotations

import os
import random
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.protocol.server_clocks import ServerMoment, corrections
from strata_cdc.groups.merge import Merge
from strata_cdc.position.sets import GtidSet
from tests.groups.conftest import set_clock
from tests.groups.test_switchovers import execute
from tests.groups.world import Shards, changes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STEP = 1000
ERROR = 30
"""How far a measurement may be off."""
SOURCES = "abc"
Change = tuple[str, int]
"""Source, and ordinal there from 0."""


class History:
    """What was written to some servers, and when in truth."""

    def __init__(self, ahead: Sequence[int], gaps: Sequence[tuple[str, int]]) -> None:
        self.ahead = dict(zip(SOURCES, ahead, strict=True))
        self.times: dict[str, list[int]] = {name: [] for name in SOURCES}
        now = 10**9
        for name, gap in gaps:
            now += gap
            self.times[name].append(now)

    def read(self, errors: Sequence[int], start: dict[str, int], arrivals: Callable[[], str]) -> list[Change]:
        """All behind some places, as one reader gives it that has measured the clocks with some errors."""
        measured = {
            name: ServerMoment(0, GtidSet(), self.ahead[name] + error, ERROR)
            for name, error in zip(SOURCES, errors, strict=True)
        }
        corrected = corrections(measured, STEP)
        merge: Merge[int] = Merge(10**12)
        left = {name: self.times[name][start[name] :] for name in SOURCES}
        for name in SOURCES:
            done = self.times[name][: start[name]]
            least = done[-1] + self.ahead[name] - corrected[name].amount if done else 0
            merge.add(name, least=least)
        given: list[Change] = []
        while not merge.is_over:
            open_ = [name for name in SOURCES if name in left]
            if open_:
                name = arrivals()
                name = name if name in left else open_[0]
                rest = left[name]
                if rest:
                    first = len(self.times[name]) - len(rest)
                    merge.arrive(name, [rest[0] + self.ahead[name] - corrected[name].amount], first)
                    left[name] = rest[1:]
                else:
                    merge.finish(name)
                    del left[name]
            for run in merge.due():
                given.extend((run.source, run.chunk) for _ in range(run.begin, run.end))
        return given

    def at(self, change: Change) -> int:
        return self.times[change[0]][change[1]]


ERRORS = st.lists(st.integers(-ERROR, ERROR), min_size=3, max_size=3)
AHEAD = st.lists(
    # Multiples of half a step, and what is next to them.
    st.builds(lambda halves, near: halves * STEP // 2 + near, st.integers(-5, 5), st.integers(-ERROR, ERROR)),
    min_size=3,
    max_size=3,
)
WRITTEN = st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, 900)), min_size=1, max_size=25)
PROMISED = STEP + 4 * ERROR + 1
"""Two clocks, each half a step from the middle one and measured against it with two errors."""


@given(AHEAD, WRITTEN, st.lists(st.tuples(ERRORS, st.integers(0, 12)), min_size=1, max_size=6), st.data())
def test_whoever_is_killed_gives_each_change_once_in_the_order_of_its_source_and_of_time(ahead, gaps, turns, data):
    """Killed behind any change, measured anew with another error each time; so is who reads all at once, twice."""
    history = History(ahead, gaps)

    def arrivals() -> str:
        return data.draw(st.sampled_from(SOURCES))

    resumed: list[Change] = []
    for at, (errors, count) in enumerate(turns):
        start = {name: sum(source == name for source, _ in resumed) for name in SOURCES}
        found = history.read(errors, start, arrivals)
        resumed += found if at == len(turns) - 1 else found[:count]
    nowhere = dict.fromkeys(SOURCES, 0)
    readings = [resumed, *(history.read(errors, nowhere, arrivals) for errors, _ in turns[:2])]
    for given_ in readings:
        assert sorted(given_) == sorted((name, at) for name in SOURCES for at in range(len(history.times[name])))
        for name in SOURCES:
            mine = [at for source, at in given_ if source == name]
            assert all(first < then for first, then in pairwise(mine))
        times = np.array([history.at(one) for one in given_])
        # No change comes behind one that was made later by more than the bound.
        assert int((np.maximum.accumulate(times) - times).max(initial=0)) <= PROMISED


@given(AHEAD, WRITTEN, ERRORS, st.integers(0, 25), st.data())
def test_the_same_corrections_give_the_same_order(ahead, gaps, errors, count, data):
    """Whatever arrives first, and wherever a reader was killed."""
    history, nowhere = History(ahead, gaps), dict.fromkeys(SOURCES, 0)

    def arrivals() -> str:
        return data.draw(st.sampled_from(SOURCES))

    whole = history.read(errors, nowhere, arrivals)
    first = whole[:count]
    start = {name: sum(source == name for source, _ in first) for name in SOURCES}
    assert [*first, *history.read(errors, start, arrivals)] == whole


@pytest.mark.mysql
def test_servers_at_half_steps_give_what_is_promised_to_whoever_is_killed(servers, clock, tmp_path):
    """The witness is when each row was written, by this machine's clock."""
    if clock is None:
        pytest.skip("no compiler: servers' clocks cannot be set")
    chance = random.Random(int(os.environ.get("STRATA_SEED", "1")))
    step, error = 2.0, 0.5
    try:
        for server, ahead in zip(servers.values(), (0, 1, -1), strict=True):
            set_clock(server, ahead)
        for server in servers.values():
            server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")
        group = Shards.over(servers, tmp_path)
        group.clock_bound = round(step * 1e6)
        written: list[tuple[float, float]] = []
        for number in range(8):
            time.sleep(chance.choice((0.0, 0.1, 0.7)))
            begun = time.monotonic()
            execute(chance.choice(list(servers.values())), f"INSERT INTO d.t VALUES ({number})")
            written.append((begun, time.monotonic()))
        whole = changes(group.lines())
        readings = [whole]
        for _ in range(2):
            at = chance.randrange(len(whole))
            readings.append(whole[: at + 1] + changes(group.lines(whole[at]["token"])))
    finally:
        for server in servers.values():
            set_clock(server, 0)
    for lines in readings:
        rows = [(line["source"], line["after"]["id"]) for line in lines if "op" in line]
        assert sorted(number for _, number in rows) == list(range(len(written)))
        for name in servers:
            mine = [number for source, number in rows if source == name]
            assert mine == sorted(mine)
        begun, ended = np.array([written[number] for _, number in rows]).T
        # None comes behind one that was made later by more than the bound.
        assert float((np.maximum.accumulate(begun) - ended).max()) <= step + error
