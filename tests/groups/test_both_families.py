"""Groups of MySQL and MariaDB servers. MariaDB's sessions set the times that it logs, which jump here. The witness is a
sort by the definition: each MariaDB source's time is the largest that was logged so far, as `mariadb-binlog` prints
the times. And SELECT."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.clock import from_micros, to_micros
from strata_cdc.errors import SettingsError, SourceSettingsError
from strata_cdc.groups.limits import GroupLimits
from strata_cdc.groups.logged_times import HEARTBEAT_SQL
from strata_cdc.groups.stream import GroupStream
from strata_cdc.groups.switchovers import Switchover
from strata_cdc.ops.doctor.check_groups import _check_heartbeats, _measure
from strata_cdc.ops.doctor.findings import FindingSeverity
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.token import Order, Token
from strata_cdc.position.token_text import from_text, to_text
from strata_cdc.time_text import parse_time
from tests.groups.following import KilledReader
from tests.groups.test_group_stream import Following, is_row
from tests.groups.world import Shards, changes, lines_of
from tests.mariadb_server import VERSIONS_OF_LONG_TESTS, start_mariadb
from tests.mysql_server import start_server
from tests.seeds import seeds
from tests.streams.world import World
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
TABLE = "CREATE OR REPLACE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a TEXT)"
MYSQL_TABLE = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a TEXT)"
LOGGED = ("shard_b", "shard_c")
"""The sources that are MariaDB: 10.11 and 11.8."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MysqlServer]]:
    folder = tmp_path_factory.mktemp("both")
    with (
        start_server(folder / "a", "--server-id=1") as a,
        start_mariadb(folder / "b", "10.11", "--server-id=2") as b,
        start_mariadb(folder / "c", "11.8", "--server-id=3") as c,
    ):
        yield {"shard_a": a, "shard_b": b, "shard_c": c}


@pytest.fixture
def shards(both: dict[str, MysqlServer], tmp_path: Path) -> Shards:
    """Empty servers, of which nothing has landed but the table."""
    for name, server in both.items():
        server.run_sql(f"DROP DATABASE IF EXISTS d; {server.reset_sql}")
        server.run_sql(TABLE if name in LOGGED else MYSQL_TABLE)
    made = Shards.over(both, tmp_path)
    made.land()
    return made


class Writer:
    """Writes to all servers in turn, with times that jump."""

    def __init__(self, shards: Shards, chance: random.Random, ahead_seconds: int = 0) -> None:
        self._chance, self._ahead = chance, ahead_seconds
        self._connections = {world.name: world.server.connect("d") for world in shards.sources}
        self._number = itertools.count()

    def write(self, count: int, pause: float = 0.0) -> None:
        for _ in range(count):
            name = self._chance.choice(sorted(self._connections))
            with self._connections[name].cursor() as cursor:
                self._write(cursor, name)
            if self._chance.random() < 0.3:
                time.sleep(pause)

    def _write(self, cursor: Any, name: str) -> None:
        if name in LOGGED:
            cursor.execute(f"SET timestamp = {self._chance.choice([0, self._time()])}")
        number = next(self._number)
        cursor.execute("BEGIN")
        for part in range(self._chance.randint(1, 3)):
            cursor.execute("INSERT INTO t (a) VALUES (%s)", (f"{number}.{part}",))
        if self._chance.random() < 0.3:
            cursor.execute("UPDATE t SET a = CONCAT(a, '!') ORDER BY id DESC LIMIT 2")
        cursor.execute(self._chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        if self._chance.random() < 0.05:
            cursor.execute(f"ALTER TABLE t ADD c{number} INT")

    def _time(self) -> int:
        away = self._chance.choice([1, 10, 3600, 86_400 * 300])
        return int(time.time()) + self._chance.randint(-away, min(away, self._ahead))

    def let_go_on(self) -> None:
        """A transaction of now on each server, after the times of all before it."""
        time.sleep(self._ahead + 1.1)
        for connection in self._connections.values():
            with connection.cursor() as cursor:
                if connection is not self._connections["shard_a"]:
                    cursor.execute("SET timestamp = DEFAULT")
                cursor.execute("INSERT INTO t (a) VALUES ('end')")

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def definition(shards: Shards) -> list[tuple[int, str, int, dict[str, Any]]]:
    """The lines of all sources with their times, in the order of the definition."""
    found = []
    for world in shards.sources:
        lines = [line for line in world.lines() if "heartbeat" not in line]
        if world.name in LOGGED:
            known = logged_times(world.server)
            largest = dict(zip(known, accumulate(known.values(), max), strict=True))
            times = [largest[line["gtid"]] for line in lines]
        else:
            times = [parse_time(line["committed_at"]) for line in lines]
        found += [(at, world.name, number, line) for number, (at, line) in enumerate(zip(times, lines, strict=True))]
    return sorted(found, key=lambda one: one[:3])


def logged_times(server: MysqlServer) -> dict[str, int]:
    """The time of each transaction in a MariaDB server's binlog (microseconds UTC), in order: that of the event which
    ends it. Its first event may be of the second before."""
    command = [server.program("mysqlbinlog"), "--base64-output=decode-rows", *map(str, server.binlogs())]
    text = subprocess.run(command, env={"TZ": "UTC"}, capture_output=True, text=True, check=True).stdout
    event = re.compile(r"^#(\d{6} +\d+:\d\d:\d\d) server id .*\t(GTID|Xid|Query)\b(?: (\d+-\d+-\d+))?", re.MULTILINE)
    found: dict[str, int] = {}
    for time_shown, kind, gtid in event.findall(text):
        at = to_micros(datetime.strptime(time_shown, "%y%m%d %H:%M:%S").replace(tzinfo=UTC))
        found[gtid if kind == "GTID" else next(reversed(found))] = at
    return found


def bare(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name not in ("token", "version")} for line in lines]


def selected(world: World) -> list[tuple[int, str]]:
    with world.server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, a FROM t ORDER BY id")
        return list(cursor.fetchall())


def replayed(lines: Sequence[dict[str, Any]], source: str) -> list[tuple[int, str]]:
    rows: dict[int, str] = {}
    for line in lines:
        if line["source"] == source and line.get("after"):
            rows[line["after"]["id"]] = line["after"]["a"]
    return sorted(rows.items())


@pytest.mark.parametrize("seed", seeds())
def test_the_order_is_that_of_the_largest_logged_times(shards: Shards, seed: int):
    """Whatever has landed and what has not, and wherever a reader begins."""
    chance = random.Random(seed)
    writer = Writer(shards, chance, ahead_seconds=5)
    writer.write(40)
    shards.land()
    writer.write(40, pause=0.3)
    whole = changes(shards.lines())
    ordered = definition(shards)
    assert bare(whole) == bare([line for *_, line in ordered])
    for world in shards.sources:
        assert replayed(whole, world.name) == selected(world)
        if world.name in LOGGED:
            assert any(two < one for one, two in pairwise(logged_times(world.server).values())), "no time went back"
    tokens = [from_text(line["token"]) for line in whole]
    assert all(one.compare(two) is Order.BEFORE for one, two in pairwise(tokens))
    for at in chance.sample(range(len(whole)), 8):
        assert changes(shards.lines(whole[at]["token"])) == whole[at + 1 :]
    # Heartbeats know the clock, too: without them, only the transactions tell it.
    shards.options = {"heartbeat_seconds": 60.0}
    for _ in range(8):
        # A token that was put together has its sources anywhere, and any times: the order is the same.
        ends = {world.name: chance.randrange(len(whole)) for world in shards.sources}
        positions = [place for name, at in ends.items() for place in tokens[at].positions if place.source == name]
        token = Token.over(replace_time(place, chance) for place in positions)
        left = [line for at, line in enumerate(whole) if at > ends[line["source"]]]
        assert bare(changes(shards.lines(to_text(token)))) == bare(left)
    shards.land()
    at = chance.randrange(len(whole))
    assert changes(shards.lines(whole[at]["token"], until="landed")) == whole[at + 1 :]
    writer.close()


def replace_time(place: Any, chance: random.Random) -> Any:
    from msgspec.structs import replace as replaced  # noqa: PLC0415  beside that of dataclasses

    is_logged = place.source in LOGGED
    time_ = time.time_ns() // 1000 - chance.randrange(20_000_000)
    return replaced(place, committed_at=time_) if is_logged else place


@pytest.mark.parametrize("seed", seeds(1))
def test_readers_that_are_killed_have_the_same_lines(shards: Shards, tmp_path: Path, seed: int):
    """Begun at different times, over what has landed and what has not, while all servers are written to."""
    chance = random.Random(seed)
    writer = Writer(shards, chance, ahead_seconds=1)
    readers = [KilledReader(tmp_path, f"lines {number}") for number in range(3)]
    readers[0].start(shards.sources)
    for number in range(10):
        writer.write(15, pause=0.2)
        reader = chance.choice(readers)
        reader.kill()
        reader.start(shards.sources)
        if number == 5:
            shards.land()
    for reader in readers:
        reader.kill()
        reader.start(shards.sources)
    writer.let_go_on()
    writer.let_go_on()
    wait_until(lambda: all(reader.has(is_end_of_all(reader)) for reader in readers))
    for reader in readers:
        reader.kill()
    writer.close()
    ordered = definition(shards)
    whole = changes(shards.lines())
    assert bare(whole) == bare([line for *_, line in ordered])
    for reader in readers:
        got = changes(reader.lines())
        assert bare(got) == bare(whole[: len(got)])
        refuse_false_watermarks(reader.lines(), [at for at, *_ in ordered])


def is_end_of_all(reader: KilledReader) -> Any:
    """Whether the first `end` of each source has come; the second lets the first ones go."""
    ended = {line["source"] for line in reader.lines() if is_row("end")(line)}
    return lambda _: len(ended) == 3


def refuse_false_watermarks(lines: Sequence[dict[str, Any]], times: Sequence[int]) -> None:
    """No change is before a watermark that was given before it."""
    number = 0
    for line in lines:
        if "heartbeat" in line:
            until = parse_time(line["watermark"]) if line["watermark"] else 0
            assert number == len(times) or until <= times[number], line
        else:
            number += 1


def test_an_idle_mariadb_is_waited_for_until_its_heartbeat(shards: Shards, caplog):
    """The heartbeat's own table is not wanted; its transactions move the clock all the same."""
    first, second, third = shards.sources
    shards.options = {"heartbeat_seconds": 0.2, "tables": ["d.*"]}
    with Following(shards) as reader:
        time.sleep(1.1)
        first.server.run_sql("INSERT INTO t (a) VALUES ('waits')", "d")
        reader.wait(lambda line: line.get("held_by") in LOGGED)
        held = reader.wait(lambda line: line.get("held_by") == "shard_b")
        assert held["held_since"]
        wait_until(lambda: "held by shard_b (MariaDB proves nothing by being idle" in caplog.text)
        assert not any(map(is_row("waits"), reader.lines))
        # For only one of them it still waits.
        second.server.run_sql(HEARTBEAT_SQL)
        reader.wait(lambda line: line.get("held_by") == "shard_c")
        assert not any(map(is_row("waits"), reader.lines))
        third.server.run_sql(HEARTBEAT_SQL)
        reader.wait(is_row("waits"))
        for number in range(3):
            for world in shards.sources:
                world.server.run_sql(f"INSERT INTO t (a) VALUES ('{number}')", "d")
        wait_until(lambda: sum(is_row("2")(line) for line in reader.lines) == 3)
        assert not any("heartbeat" in name for line in reader.lines for name in [line.get("database") or ""])
    for world in (second, third):
        world.server.run_sql("DROP DATABASE heartbeat; SET GLOBAL event_scheduler = OFF")


def test_the_doctor_prints_what_ends_the_waiting(shards: Shards):
    measured: dict[str, Any] = {}
    assert list(_measure(shards, measured)) == []  # type: ignore[arg-type]  # what it needs of a group
    found = list(_check_heartbeats(shards, measured, 2.5))  # type: ignore[arg-type]
    assert [one.severity for one in found] == [FindingSeverity.WARNING] * 2
    for world, finding in zip(shards.sources[1:], found, strict=True):
        assert world.name in finding.what
        world.server.run_sql(str(finding.remedy))
    found = list(_check_heartbeats(shards, measured, 2.5))  # type: ignore[arg-type]
    assert [one.severity for one in found] == [FindingSeverity.OK] * 2
    for world in shards.sources[1:]:
        world.server.run_sql("DROP DATABASE heartbeat; SET GLOBAL event_scheduler = OFF")


@pytest.mark.parametrize("year", [2030, 2037, 2105])
def test_a_time_far_in_the_future_is_an_error_by_name(shards: Shards, year: int):
    """What is before it comes; nothing that follows in its source does, from wherever a reader begins."""
    first, second, third = shards.sources
    far = third if year > 2037 else second
    far_time = parse_time(f"{year}-06-01") // 1_000_000
    for world in (far, first):
        world.server.run_sql("INSERT INTO t (a) VALUES ('before')", "d")
    before = changes(shards.lines())
    far.server.run_sql(
        f"SET timestamp = {far_time}; INSERT INTO t (a) VALUES ('far'); SET timestamp = DEFAULT;"
        "INSERT INTO t (a) VALUES ('after')",
        "d",
    )
    [gtid, last] = [line["gtid"] for line in far.lines() if "commit" in line][-2:]
    found: list[dict[str, Any]] = []
    with pytest.raises(SourceSettingsError, match=f"{year}-06-01") as caught:
        found.extend(lines_of(shards.stream("beginning")))
    assert (caught.value.source, caught.value.gtid) == (far.name, gtid)
    got = changes(found)
    assert got == before[: len(got)]
    assert any(is_row("before")(line) and line["source"] == far.name for line in got)
    # Who begins after it is refused, too, as soon as the group does not wait for another source.
    time.sleep(1.1)
    for world in shards.sources:
        if world is not far:
            world.server.run_sql("INSERT INTO t (a) VALUES ('goes on')", "d")
    with pytest.raises(SourceSettingsError, match=f"{year}-06-01"):
        shards.lines("now", follow=True)
    # What has landed has an end, so that it need not wait: it comes last.
    shards.land()
    landed = changes(shards.lines(until="landed"))
    assert [line["gtid"] for line in landed if "commit" in line][-2:] == [gtid, last]
    if year < 2069:  # `mariadb-binlog` prints years without their century
        assert bare(landed) == bare([line for *_, line in definition(shards)])


def test_a_time_that_is_a_little_ahead_is_waited_for(shards: Shards, caplog):
    first, second, third = shards.sources
    shards.max_skew = 500_000
    with Following(shards) as reader:
        ahead = int(time.time()) + 5
        second.server.run_sql(f"SET timestamp = {ahead}; INSERT INTO t (a) VALUES ('ahead')", "d")
        for world in (first, third):
            time.sleep(1.1)
            world.server.run_sql("INSERT INTO t (a) VALUES ('at once')", "d")
        reader.wait(lambda line: is_row("at once")(line) and line["source"] == "shard_a")
        assert not any(map(is_row("ahead"), reader.lines))
        assert "the newest time of shard_b is" in caplog.text
        wait_until(lambda: time.time() > ahead + 1)
        third.server.run_sql("INSERT INTO t (a) VALUES ('later')", "d")
        reader.wait(is_row("ahead"))


def test_an_end_by_time_waits_for_what_proves_it(shards: Shards):
    """A transaction may come after that time, and have an earlier one."""
    second = shards.sources[1]
    end = from_micros(parse_time(f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(time.time() + 3))}Z"))
    lines: list[dict[str, Any]] = []
    stream = shards.stream("beginning", follow=True, until=end.isoformat())
    thread = threading.Thread(target=lambda: lines.extend(lines_of(stream)))
    thread.start()
    wait_until(lambda: time.time() > end.timestamp() + 2)
    late = int(end.timestamp()) - 1
    second.server.run_sql(f"SET timestamp = {late}; INSERT INTO t (a) VALUES ('late')", "d")
    time.sleep(1.5)
    assert thread.is_alive()
    for world in shards.sources[1:]:
        world.server.run_sql("INSERT INTO t (a) VALUES ('too late')", "d")
    thread.join(30)
    assert not thread.is_alive()
    assert sum(map(is_row("late"), lines)) == 1
    assert not any(map(is_row("too late"), lines))


def test_what_a_group_refuses_of_mariadb(shards: Shards, tmp_path: Path):
    first, second, third = shards.sources
    (tmp_path / "new").mkdir()
    bare_world = World(third.server, tmp_path / "new", "shard_c")
    with pytest.raises(SourceSettingsError, match="nothing of it has landed") as caught:
        replace(shards, sources=[first, second, bare_world]).lines()
    assert "strata land --source shard_c" in str(caught.value.remedy)
    again = World(third.server, tmp_path / "new", "again")
    with pytest.raises(SettingsError, match="are one server \\(gtid_domain_id 0, server_id 3\\)"):
        replace(shards, sources=[first, third, again]).lines()
    # Switchovers from it and to it, with positions and without any.
    position = {world.name: parse_executed(position_of(world)) for world in shards.sources}
    for old, new in (("shard_b", "shard_c"), ("shard_a", "shard_c"), ("shard_b", "shard_a")):
        for positions in (position, dict.fromkeys(position)):
            switchover = Switchover("split", {old: positions[old]}, {new: positions[new]})
            worlds = {world.name: world for world in shards.sources}
            left = replace(shards, sources=[worlds[new]], former=[worlds[old]])
            for until in ("now", "landed"):
                with pytest.raises(SourceSettingsError, match="takes part in a switchover"):
                    list(GroupStream(left, "beginning", until=until, switchovers=[switchover]))


def position_of(world: World) -> str:
    with world.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(world.server.executed_sql)
        [[text]] = cursor.fetchall()
        return str(text)


def test_the_future_is_a_limit_that_a_reader_has(shards: Shards):
    second = shards.sources[1]
    ahead = int(time.time()) + 1000
    second.server.run_sql(f"SET timestamp = {ahead}; INSERT INTO t (a) VALUES ('ahead')", "d")
    assert any(map(is_row("ahead"), shards.lines()))
    with pytest.raises(SourceSettingsError, match="newest logged time"):
        shards.lines(limits=GroupLimits(most_ahead=900_000_000))


@pytest.mark.parametrize("version", VERSIONS_OF_LONG_TESTS)
def test_the_first_transaction_of_a_server_has_tokens(tmp_path: Path, version: str):
    """Before it, the server's position has no family."""
    with start_mariadb(tmp_path / "server", version, "--server-id=7") as server:
        server.run_sql("RESET MASTER; CREATE DATABASE d; CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (1), (2)")
        world = World(server, tmp_path)
        lines = world.lines()
        tokens = [from_text(line["token"]) for line in lines]
        assert all(one.compare(two) is Order.BEFORE for one, two in pairwise(tokens))
        assert [bare(world.lines(line["token"])) for line in lines] == [
            bare(lines[at + 1 :]) for at in range(len(lines))
        ]
