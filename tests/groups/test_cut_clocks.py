"""What a cut says of clocks that were set while it was written. The witness is when each row was written, by this
machine's clock: of a cut that is called common, no row is later than one that is not in it.

`make soak` draws more (STRATA_CUTS)."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.config.settings import load_settings
from strata_cdc.groups.cuts.read_mirrors import read_table
from strata_cdc.landing.clock_readings import CLOCKS_FILE, clock_readings
from strata_cdc.pipeline.ingest import land_binlogs
from tests.groups.conftest import set_clock
from tests.groups.test_group_tables import MEMBERS, SETTINGS, Worlds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
ROUNDS = int(os.environ.get("STRATA_CUTS", "2"))
SEED = int(os.environ.get("STRATA_SEED", "1"))
MARGIN = 1.2
"""Seconds: clocks that differ by less than the bound are taken for equal."""
AWAY = 4
TRIES = 5


@pytest.fixture(scope="module")
def worlds(servers: dict[str, MysqlServer], clock: Path | None, tmp_path_factory: Any) -> Iterator[Worlds]:
    if clock is None:
        pytest.skip("no compiler: servers' clocks cannot be set")
    made = Worlds(servers, tmp_path_factory.mktemp("cuts"))
    for server in made.servers.values():
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, at DOUBLE)")
    made.publish()
    yield made
    for server in made.servers.values():
        set_clock(server, 0)


@contextmanager
def writing_all_the_time(worlds: Worlds) -> Iterator[None]:
    over = threading.Event()

    def work(server: MysqlServer) -> None:
        with server.connect("d") as connection, connection.cursor() as cursor:
            while not over.wait(0.05):
                cursor.execute("INSERT INTO t (at) VALUES (%s)", (time.time(),))

    writers = [threading.Thread(target=work, args=(one,)) for one in worlds.servers.values()]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        over.set()
        for writer in writers:
            writer.join()


def write(worlds: Worlds, seconds: float) -> None:
    """A row on each server every fifth of a second, with the time."""
    until = time.time() + seconds
    while time.time() < until:
        for server in worlds.servers.values():
            server.run_sql(f"INSERT INTO t (at) VALUES ({time.time():.6f})", "d")
        time.sleep(0.2)


def is_torn(worlds: Worlds, cut: Any) -> bool:
    """Whether the cut has a row that is later than one that it has not."""
    inside = {(row["_source"], row["id"]): row["at"] for row in read_table(worlds.group, "d.t", cut).to_pylist()}
    missing = [at for name, key, at in worlds.selected("t", "id, at") if (name, key) not in inside]
    return bool(inside and missing) and max(inside.values()) - min(missing) > MARGIN


def test_a_cut_between_clocks_that_are_right_is_common(worlds: Worlds):
    """Of servers that are written to all the time: their commit times leave no pause in which a clock was set."""
    doubts = []
    for _ in range(TRIES):
        with writing_all_the_time(worlds):
            worlds.publish()
            time.sleep(0.5)
            end = time.time_ns() // 1000
            time.sleep(0.5)
            worlds.publish(end=end)
            found = worlds.cut(end)
        assert not found.is_common or not is_torn(worlds, found)
        if found.is_common:
            break
        # Somebody else had this machine for a second.
        doubts.append([one.clock_doubt for one in found.sources])
    assert found.is_common is True, doubts
    assert found.to_json()["is_common"] is True


def test_of_servers_that_write_nothing_a_cut_is_common(worlds: Worlds):
    worlds.publish()
    end = worlds.publish()
    worlds.publish()
    found = worlds.cut(end)
    assert (found.is_common, [one.clock_doubt for one in found.sources]) == (True, ["", ""])


def test_a_clock_that_was_set_and_set_back_in_silence_is_not_known(worlds: Worlds):
    """No commit time shows it: the next one comes when the clock is right again, and later than those."""
    write(worlds, 0.1)
    worlds.publish()
    set_clock(worlds.servers[MEMBERS[1]], AWAY)
    write(worlds, 1)
    end = time.time_ns() // 1000 + 2_000_000
    time.sleep(3)
    worlds.servers[MEMBERS[0]].run_sql(f"INSERT INTO t (at) VALUES ({time.time():.6f})", "d")
    set_clock(worlds.servers[MEMBERS[1]], 0)
    time.sleep(3)
    worlds.publish(end=end)
    found = worlds.cut(end)
    assert (found.time, found.behind, found.is_common) == (end, (), None)
    assert "pauses in what was committed" in found.sources[1].clock_doubt


def test_without_a_reading_before_it_nothing_is_known(worlds: Worlds):
    """The clocks were right; nobody looked."""
    name = MEMBERS[1]
    kept = worlds.folder / "lake" / "landing" / name / CLOCKS_FILE
    worlds.publish()
    end = worlds.publish()
    worlds.publish()
    before = kept.read_bytes()
    for content in (None, b"no JSON", json.dumps({"format": 99}).encode()):
        kept.unlink(missing_ok=True)
        if content is not None:
            kept.write_bytes(content)
        found = worlds.cut(end)
        assert found.is_common is None
        assert [one.clock_doubt for one in found.sources] == [
            "",
            "its clock was not measured before the time of the cut",
        ]
        assert found.to_json()["is_common"] is None
    kept.write_bytes(before)
    assert worlds.cut(end).is_common is True


def test_the_landing_of_a_run_reads_the_clocks_of_a_group(worlds: Worlds):
    lake, name = str(worlds.folder / "lake"), MEMBERS[0]
    before = clock_readings(lake, name)
    path = worlds.folder / "strata.toml"
    land_binlogs(name, settings=load_settings(worlds.environment))
    [*kept, last] = clock_readings(lake, name)
    assert tuple(kept) == before
    assert before[-1].end < last.begin <= last.end <= time.time_ns() // 1000
    assert -1_000_000 < last.lowest <= last.highest < 1_000_000
    path.write_text(SETTINGS.partition("[groups.orders]")[0])
    try:
        land_binlogs(name, settings=load_settings(worlds.environment))
    finally:
        path.write_text(SETTINGS)
    assert clock_readings(lake, name) == (*kept, last)


@pytest.mark.parametrize("away", [-AWAY, AWAY])
def test_a_clock_that_was_off_while_the_cut_was_written(worlds: Worlds, away: int):
    """It is right again when the binlog is landed, and when the cut is asked for."""
    worlds.publish()
    # However long a landing takes, the binlog tells when the clock went back: there are rows before and after it.
    write(worlds, 0.1)
    set_clock(worlds.servers[MEMBERS[1]], away)
    write(worlds, 2.4)
    end = time.time_ns() // 1000
    write(worlds, 2)
    set_clock(worlds.servers[MEMBERS[1]], 0)
    write(worlds, 0.1)
    worlds.publish(end=end)
    found = worlds.cut(end)
    assert found.time == end
    assert is_torn(worlds, found), "the drill is none"
    assert (found.behind, found.is_common) == ((), None)
    assert found.sources[1].clock_doubt


def test_no_drawn_cut_is_called_common_that_is_torn(worlds: Worlds):
    chance = random.Random(SEED)
    said = []
    for _ in range(ROUNDS):
        if chance.random() < 0.5:
            set_clock(worlds.servers[chance.choice(MEMBERS)], chance.choice([0, AWAY, -AWAY, 2, -2, 60]))
        write(worlds, 2 * chance.random())
        end = time.time_ns() // 1000
        if chance.random() < 0.4:
            for name in MEMBERS:
                set_clock(worlds.servers[name], 0)
        write(worlds, 2 * chance.random())
        worlds.publish(end=end)
        found = worlds.cut(chance.choice([None, end]))
        said.append(found.is_common)
        if found.is_common:
            assert not is_torn(worlds, found), [one.clock_doubt for one in found.sources]
    print(said)
    assert all(len(clock_readings(str(worlds.folder / "lake"), name)) > ROUNDS for name in MEMBERS)
