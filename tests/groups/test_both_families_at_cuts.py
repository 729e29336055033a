"""Cuts and the state of a group of MySQL and MariaDB servers. The witness of a cut is the sort of what was written by
the times that MariaDB logged: a cut has all before its time; and SELECT."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.groups.cuts.read_mirrors import read_table
from strata_cdc.groups.status import group_status
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.ops.doctor.check_groups import check_group
from strata_cdc.values import to_plain
from tests.groups.test_group_tables import Worlds, rows
from tests.mariadb_server import VERSIONS_OF_LONG_TESTS, start_mariadb
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql


@pytest.fixture(params=VERSIONS_OF_LONG_TESTS)
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """`shard_a` is MySQL and `shard_b` is MariaDB; their tables are published."""
    folder = tmp_path_factory.mktemp("cuts")
    with (
        start_server(folder / "a", "--server-id=1") as a,
        start_mariadb(folder / "b", request.param, "--server-id=2", "--gtid-strict-mode=ON") as b,
    ):
        made = Worlds({"shard_a": a, "shard_b": b}, folder)
        for server in made.servers.values():
            server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, at BIGINT)")
        made.publish()
        # MariaDB logs whole seconds: what comes in the same second is logged before the interval's end.
        time.sleep(1.1)
        yield made


def write(worlds: Worlds, name: str, ago: int = 0) -> None:
    """A row with the time that is logged: of MariaDB some seconds ago."""
    set_time = f"SET timestamp = {int(time.time()) - ago};" if ago else ""
    worlds.servers[name].run_sql(f"{set_time} INSERT INTO t (at) VALUES (UNIX_TIMESTAMP())", "d")


def state(worlds: Worlds) -> Any:
    return group_status(worlds.group, now=time.time_ns() // 1000)


def test_a_cut_has_all_that_was_logged_before_its_time(worlds: Worlds):
    for number in range(6):
        write(worlds, "shard_a")
        write(worlds, "shard_b", ago=(0, 30, 0, 7, 0, 3)[number])
    time.sleep(1.1)
    end = time.time_ns() // 1000
    before = worlds.selected("t", "id, at")
    worlds.publish(end=end)
    # MariaDB has had nothing after the end, so something may come that is before it.
    assert worlds.cut().time < end
    time.sleep(1.1)
    write(worlds, "shard_a")
    write(worlds, "shard_b")
    worlds.publish()
    found = worlds.cut()
    # Up to MariaDB's newest time there is nothing that is not in the intervals with that end.
    assert end <= found.time == state(worlds).watermark
    assert rows(read_table(worlds.group, "d.t", found), "_source", "id", "at") == before
    assert found.behind == ()
    assert found.is_common is None
    assert [bool(one.clock_doubt) for one in found.sources][1]
    assert "MariaDB logs no times of commits" in found.sources[1].clock_doubt


def test_an_idle_mariadb_proves_nothing_to_the_state(worlds: Worlds):
    """Its time stays at its last transaction; what comes later may have an earlier time than the interval's end."""
    write(worlds, "shard_a")
    write(worlds, "shard_b")
    time.sleep(2.1)
    end = worlds.publish()
    found = state(worlds)
    landed = LandedStream.open(worlds.group.sources[1].lake, "shard_b")
    assert found.held_by == "shard_b"
    assert found.watermark == landed.clock < end - 1_000_000
    assert not found.state_of("shard_b").proves_idleness
    assert "MariaDB proves nothing by being idle" in found.line()
    assert to_plain(found)["members"][1]["proves_idleness"] is False
    # A transaction from before the interval's end, which lands after it.
    write(worlds, "shard_b", ago=int(time.time()) - end // 1_000_000 + 1)
    source = worlds.group.sources[1]
    land_binlog(source.address, lake=source.lake, source="shard_b")
    late = state(worlds)
    assert late.state_of("shard_b").until < end
    cut = worlds.cut(end)
    assert cut.time < end
    assert cut.behind == ()
    time.sleep(1.1)
    before = worlds.selected("t", "id")
    next_end = worlds.publish()
    time.sleep(1.1)
    write(worlds, "shard_b")
    write(worlds, "shard_a")
    worlds.publish()
    assert state(worlds).watermark > next_end
    # The end of the former interval is no cut: it lacks something from before.
    assert worlds.cut(next_end - 1).time < end
    newest = worlds.cut()
    assert newest.time >= next_end
    assert newest.behind == ()
    assert rows(read_table(worlds.group, "d.t", newest), "_source", "id") == before


def test_the_doctor_compares_tables_of_both_families(worlds: Worlds):
    """They show the same types with and without the width of numbers; other differences are still named."""
    for server in worlds.servers.values():
        server.run_sql(
            "CREATE TABLE d.same (a TINYINT PRIMARY KEY, b BIGINT UNSIGNED NOT NULL, c YEAR, e DECIMAL(9,2), f TEXT)"
            " DEFAULT CHARSET utf8mb4"
        )
    worlds.servers["shard_b"].run_sql("CREATE TABLE d.other (a INT); ALTER TABLE d.t ADD b DECIMAL(9,3)")
    worlds.servers["shard_a"].run_sql("CREATE TABLE d.other (a BIGINT); ALTER TABLE d.t ADD b DECIMAL(9,2)")
    worlds.publish()
    found = [one for one in check_group(worlds.group, idle_seconds=0.1) if one.name == "tables"]
    assert sorted(one.what.partition(" is ")[0] for one in found) == ["d.other: a", "d.t: b"]
