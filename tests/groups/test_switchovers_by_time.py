"""Hops whose new sources begin at a time, while servers' clocks are as far apart as `clock_bound` lets them be. The
witness is what was written, and when by one true clock: nothing is lost, and nothing comes twice that is not marked."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.binlog.protocol.server_clocks import Clocks, ServerMoment
from strata_cdc.errors import BinlogPurgedError
from strata_cdc.groups.switchovers import Switchover
from strata_cdc.position.sets import GtidSet
from tests.groups.conftest import set_clock
from tests.groups.test_switchovers import execute
from tests.groups.world import Shards, changes, lines_of
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

HOPS = int(os.environ.get("STRATA_HOPS", "2"))
SEED = int(os.environ.get("STRATA_SEED", "1"))
STEP = 1000
ERROR = 30
"""How far a measurement may be off."""
OLD, NEW = ("a", "b"), ("c", "d")
AHEAD = st.builds(lambda halves, near: halves * STEP // 2 + near, st.integers(-7, 7), st.integers(-ERROR, ERROR))
FOUR = st.tuples(AHEAD, AHEAD, AHEAD, AHEAD)
ERRORS = st.tuples(*(st.integers(-ERROR, ERROR) for _ in "abcd"))
DRIFTS = st.tuples(*(st.integers(-STEP // 2, STEP // 2) for _ in "abcd"))


class Measured:
    """Servers' clocks, and what a reader that has measured them takes them for."""

    def __init__(self, ahead: tuple[int, ...], errors: tuple[int, ...]) -> None:
        self.ahead = dict(zip("abcd", ahead, strict=True))
        off = dict(zip("abcd", errors, strict=True))
        self.clocks = Clocks("g", {}, STEP)
        self.clocks._ask = lambda name: ServerMoment(0, GtidSet(), self.ahead[name] + off[name], ERROR)

    def measure(self, *names: str) -> None:
        self.clocks.measure(names)


@given(FOUR, ERRORS, DRIFTS, st.tuples(st.integers(0, 5000), st.integers(0, 5000)))
# Two clocks, each half a step from the middle one to another side, both measured too near to it.
@example((500, 500, -500, 0), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0))
@example((530, 0, -530, 0), (-30, 0, 30, 0), (500, 0, -500, 0), (0, 9))
def test_nothing_of_a_new_source_is_before_the_time_at_which_it_begins(ahead, errors, drifts, gaps):
    """A copy of what the old sources have not given, or what somebody wrote to the new one, is behind the end of one of
    the old ones in truth; each clock has gone since by half a step at most."""
    measured = Measured(ahead, errors)
    measured.measure(*OLD)
    measured.measure(*NEW)
    then = {name: away + drift for (name, away), drift in zip(measured.ahead.items(), drifts, strict=True)}
    true = {name: 10**9 + gap for name, gap in zip(OLD, gaps, strict=True)}
    ends = {name: at + then[name] for name, at in true.items()}
    for name in NEW:
        begin = measured.clocks.earliest(name, ends)
        first = min(true.values()) + then[name]
        assert begin is not None
        assert begin <= first
        assert begin >= first - 5 * STEP - 8 * ERROR
        # Of what was copied by then nothing is behind the time that is found.
        until = measured.clocks.latest(name, 10**9 + measured.clocks._ahead)
        assert until is not None
        assert until >= 10**9 + then[name]


def test_where_a_clock_is_not_known_no_time_is():
    measured = Measured((0, 0, 0, 0), (0, 0, 0, 0))
    assert measured.clocks.earliest("c", {"a": 10**9}) is None
    measured.measure("a", "c")
    assert measured.clocks.earliest("c", {"a": 10**9}) is not None
    assert measured.clocks.earliest("c", {"a": 10**9, "b": 10**9}) is None
    assert measured.clocks.earliest("c", {"a": 0}) is None
    assert measured.clocks.latest("d", 10**9) is None


class Life:
    """What people write to a shard, what a copier that says nothing of itself brings from it to two new ones, and what
    people write to these."""

    def __init__(self, servers: dict[str, MysqlServer], folder: Path, chance: random.Random) -> None:
        self.servers = dict(zip(("whole", "even", "odd"), (servers[name] for name in sorted(servers)), strict=True))
        self.folder, self.chance = folder, chance
        self.written: list[str] = []
        self.waiting: list[int] = []
        self.switchover = Switchover("split", {"whole": None}, {"even": None, "odd": None})
        for server in self.servers.values():
            server.run_sql(
                "DROP DATABASE IF EXISTS d; RESET BINARY LOGS AND GTIDS; CREATE DATABASE d;"
                "CREATE TABLE d.t (id INT PRIMARY KEY, a TEXT);"
            )

    def set_clocks(self, *hours: int, whole: int = 0) -> None:
        """By some hours, and up to half a step."""
        for server in self.servers.values():
            set_clock(server, self.chance.choice((-1, 0, 1)) + self.chance.choice(hours) * 3600)
        if whole:
            set_clock(self.servers["whole"], whole)

    def write(self, count: int, *, to_new: bool = False) -> None:
        for number in range(len(self.written), len(self.written) + count):
            name = ("even", "odd")[number % 2] if to_new else "whole"
            execute(self.servers[name], f"INSERT INTO d.t VALUES ({number}, 'row {number}')")
            self.written.append(f"row {number}")
            if not to_new:
                self.waiting.append(number)

    def copy(self, count: int) -> None:
        for number in self.waiting[:count]:
            execute(self.servers[("even", "odd")[number % 2]], f"INSERT INTO d.t VALUES ({number}, 'row {number}')")
        del self.waiting[:count]

    def worlds(self, *names: str) -> list[World]:
        found = []
        for name in names:
            (self.folder / name).mkdir(parents=True)
            found.append(World(self.servers[name], self.folder / name, name))
            found[-1].land()
            found[-1].track()
        return found


@pytest.fixture
def clocks_of(servers: dict[str, MysqlServer], clock: Path | None) -> Iterator[dict[str, MysqlServer]]:
    if clock is None:
        pytest.skip("no compiler: servers' clocks cannot be set")
    yield servers
    for server in servers.values():
        set_clock(server, 0)


@pytest.mark.mysql
def test_nothing_is_lost_over_a_hop_by_time_and_nothing_comes_twice_unsaid(clocks_of, tmp_path):
    """Whether the clocks are hours apart, or one is set back before the hop, and whether they are asked for; killed
    behind any line."""
    for number in range(HOPS):
        chance = random.Random(SEED * 1000 + number)
        until = "landed" if number % 4 in {1, 2} else None
        life = Life(clocks_of, tmp_path / str(number), chance)
        if number % 2:
            life.set_clocks(-2, 0, 2)
        else:
            life.set_clocks(0, whole=20)
        life.write(chance.randint(1, 6))
        life.copy(chance.randint(0, 3))
        if not number % 2:
            # The places of its stream say for 20 seconds that it is later than it is.
            life.set_clocks(0)
        life.write(chance.randint(1, 4))
        [whole] = life.worlds("whole")
        life.write(chance.randint(0, 2))
        life.write(2, to_new=True)
        life.copy(100)
        life.write(chance.randint(0, 3), to_new=True)
        group = Shards(life.worlds("even", "odd"), former=[whole], clock_bound=2_000_000)
        lines = changes(group.lines(switchovers=[life.switchover], until=until))
        assert_whole(life, lines)
        at = chance.randrange(len(lines))
        assert_whole(
            life, lines[: at + 1] + changes(group.lines(lines[at]["token"], switchovers=[life.switchover], until=until))
        )


def assert_whole(life: Life, lines: list[dict[str, Any]]) -> None:
    rows = [(line["after"]["a"], line) for line in lines if "op" in line]
    assert {value for value, _ in rows} == set(life.written)
    unsaid = Counter(value for value, line in rows if not line.get("possible_duplicate"))
    assert not {value for value, count in unsaid.items() if count > 1}
    by_source = Counter((line["source"], value) for value, line in rows)
    assert set(by_source.values()) == {1}
    seen: set[str] = set()
    for value, line in rows:
        assert value not in seen or line.get("possible_duplicate"), value
        seen.add(value)


@pytest.mark.mysql
@pytest.mark.parametrize("purged", ["even", "odd"])
def test_what_a_new_source_has_purged_is_no_silent_loss(clocks_of, tmp_path, purged):
    """Its stream begins behind that; whether it was behind the end of the old one nobody knows."""
    life = Life(clocks_of, tmp_path, random.Random(SEED))
    life.write(3)
    [whole] = life.worlds("whole")
    life.write(2, to_new=True)
    life.servers[purged].run_sql("FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
    worlds = []
    for name in ("even", "odd"):
        (tmp_path / name).mkdir()
        worlds.append(World(life.servers[name], tmp_path / name, name))
    group = Shards(worlds, former=[whole])
    lines: list[dict[str, Any]] = []
    with pytest.raises(BinlogPurgedError, match="nobody knows its position") as error:
        lines.extend(lines_of(group.stream(switchovers=[life.switchover])))
    assert error.value.source == purged
    assert f"strata land --source {purged}" in (error.value.remedy or "")
    assert [line["after"]["a"] for line in lines if "op" in line] == life.written[:3]
