"""A reader that follows while the source lives: the seam at any moment, kills, restarts, broken connections, slowness.
The witness is the whole stream, read once all is quiet: nothing may be lost, nothing may come twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from strata_cdc.errors import LakeUnavailableError, SourceUnavailableError
from strata_cdc.position.sets import GtidSet
from strata_cdc.streams.events import Heartbeat
from tests.disks import small_disk
from tests.mysql_server import MysqlServer, launch, start_server
from tests.streams.world import World, bare, lines_of
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("following")
    server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a TEXT)")
    made = World(server, folder)
    made.land()
    made.track()
    return made


class Writer(threading.Thread):
    """Rows, XA, files and DDL without a pause, until it is told to stop."""

    def __init__(self, server: MysqlServer, seed: int, pause: float = 0.01) -> None:
        super().__init__()
        self.server, self.chance, self.pause = server, random.Random(seed), pause
        self.stopped, self.altered = threading.Event(), False
        self.done = 0
        self.start()

    def run(self) -> None:
        with self.server.connect("d") as connection, connection.cursor() as cursor:
            for number in range(100_000):
                if self.stopped.wait(self.pause):
                    return
                for statement in self.statements(number):
                    cursor.execute(statement)
                self.done = number + 1

    def statements(self, number: int) -> list[str]:
        value = f"INSERT INTO t (a) VALUES ('{number}'), (REPEAT('x', {self.chance.randint(1, 300)}))"
        kind = self.chance.random()
        if kind < 0.05:
            self.altered = not self.altered
            return [f"ALTER TABLE t ADD c INT DEFAULT {number}" if self.altered else "ALTER TABLE t DROP c", value]
        if kind < 0.08:
            return ["FLUSH BINARY LOGS"]
        if kind < 0.12:
            return ["XA START 'x'", value, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"]
        return ["BEGIN", value, "UPDATE t SET a = CONCAT(a, '!') ORDER BY id DESC LIMIT 2", "COMMIT"]

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()
        if self.altered:
            self.server.run_sql("ALTER TABLE t DROP c", "d")


def executed(server: MysqlServer) -> str:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        return cursor.fetchone()[0].replace("\n", "")


def without_heartbeats(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [bare(line) for line in lines if "heartbeat" not in line]


def test_the_seam_at_any_moment(world: World):
    """The reader comes to the end of what has landed while more lands, and more is written, DDL among it."""
    chance = random.Random(7)
    begin = executed(world.server)
    found: list[list[dict[str, Any]]] = []
    until = time.monotonic() + PATIENCE_SECONDS
    with Writer(world.server, 7):
        while len(found) < 4 or not any("ddl" in line for line in found[-1]):
            assert time.monotonic() < until
            time.sleep(chance.random() * 0.2)
            world.land()
            if chance.random() < 0.5:
                world.track()
            time.sleep(chance.random() * 0.2)
            found.append(world.lines(begin))
    whole = without_heartbeats(world.lines(begin))
    for lines in found:
        assert without_heartbeats(lines) == whole[: len(lines)]
        assert "commit" in lines[-1]
    assert len(found[0]) < len(found[-1]) <= len(whole)


def assert_same(lines: list[dict[str, Any]], whole: list[dict[str, Any]]) -> None:
    """With the first difference, if there is one."""
    for found, wanted in zip(without_heartbeats(lines), without_heartbeats(whole), strict=False):
        assert found == wanted
    assert len(without_heartbeats(lines)) == len(without_heartbeats(whole))


READER = """
import sys
from pathlib import Path
from strata_cdc.binlog.protocol.connection import ServerAddress
from tests.streams.world import World
from tests.mysql_server import MysqlServer
world = World(MysqlServer(Path("."), int(sys.argv[1]), None), Path(sys.argv[2]))
for written in world.stream(sys.argv[3], follow=True, heartbeat_seconds=0.2).written():
    sys.stdout.buffer.write(written)
    sys.stdout.buffer.flush()
"""


def test_a_reader_that_is_killed_goes_on_with_its_last_token(world: World):
    chance = random.Random(11)
    begin = token = executed(world.server)
    lines: list[dict[str, Any]] = []
    with Writer(world.server, 11) as writer:
        for turn in range(4):
            command = [sys.executable, "-c", READER, str(world.server.port), str(world.folder), token]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
                assert reader.stdout is not None
                # At least one line, then anything; what was cut off in the pipe is no line.
                first = reader.stdout.readline()
                time.sleep(chance.random() * 0.6)
                if turn == 2:
                    world.land()
                os.kill(reader.pid, signal.SIGKILL)
                rest = (first + reader.stdout.read()).split(b"\n")
            lines += map(json.loads, rest[:-1])
            token = lines[-1]["token"]
        wait_until(lambda: writer.done > 20)
    lines += world.lines(token)
    assert_same(lines, world.lines(begin))
    assert len(lines) > 50


def kill_dumps(server: MysqlServer) -> int:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
        ids = [row[0] for row in cursor.fetchall()]
        for one in ids:
            # It may have gone by itself.
            with suppress(pymysql.err.OperationalError):
                cursor.execute(f"KILL {one}")
    return len(ids)


class Reader(threading.Thread):
    """Follows in a thread; slow if told so."""

    def __init__(self, world: World, start: str, pause: float = 0.0) -> None:
        super().__init__()
        self.stream = world.stream(start, follow=True, heartbeat_seconds=0.1)
        self.pause = pause
        self.lines: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            for line in lines_of(self.stream):
                self.lines.append(line)
                if self.pause and "commit" in line:
                    time.sleep(self.pause)
        except Exception as error:  # noqa: BLE001 - handed to the test
            self.error = error

    def wait_for(self, gtids: str) -> None:
        wanted = GtidSet.parse(gtids)

        def has_all() -> bool:
            assert self.error is None, self.error
            return not wanted - GtidSet.parse(",".join(line["gtid"] for line in self.lines if "commit" in line))

        wait_until(has_all, pause=0.1)
        self.stream.close()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()


def test_cut_connections_and_a_slow_reader(world: World):
    begin = executed(world.server)
    world.server.run_sql("SET GLOBAL net_write_timeout = 1")
    readers = [Reader(world, begin), Reader(world, begin, pause=0.004)]
    with Writer(world.server, 5):
        for _ in range(3):
            time.sleep(0.4)
            wait_until(lambda: kill_dumps(world.server))
    missing = str(GtidSet.parse(executed(world.server)) - GtidSet.parse(begin))
    for reader in readers:
        reader.wait_for(missing)
    world.server.run_sql("SET GLOBAL net_write_timeout = 60")
    whole = without_heartbeats(world.lines(begin))
    for reader in readers:
        assert_same(reader.lines, whole)
        tokens = [line["token"] for line in reader.lines if "heartbeat" not in line]
        assert len(tokens) == len(set(tokens))


def test_a_server_that_is_started_anew(tmp_path):
    server = launch(tmp_path / "server")
    try:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a TEXT)")
        world = World(server, tmp_path)
        world.land()
        world.track()
        reader = Reader(world, "beginning")
        server.run_sql("INSERT INTO d.t (a) VALUES ('before'); FLUSH BINARY LOGS; INSERT INTO d.t (a) VALUES ('file')")
        time.sleep(0.5)
        server.stop()
        again = launch(tmp_path / "server", port=server.port)
        server.process = again.process
        server.run_sql("ALTER TABLE d.t ADD c INT; INSERT INTO d.t (a, c) VALUES ('behind', 5)")
        reader.wait_for(executed(server))
        assert [line["after"].get("c") for line in reader.lines if "op" in line] == [None, None, 5]
        assert without_heartbeats(reader.lines) == without_heartbeats(world.lines())
    finally:
        server.kill()


class Beyond(World):
    """Nobody is there."""

    @property
    def address(self) -> Any:
        return replace(super().address, port=1)


def test_a_server_that_has_answered_is_waited_for_from_the_first_connection_on(world: World):
    """One that nobody has heard of is refused at once."""
    beyond = Beyond(world.server, world.folder, world.name)
    with pytest.raises(SourceUnavailableError, match=r"127\.0\.0\.1:1 "):
        list(beyond.stream(follow=True).spans())
    stream = beyond.stream(follow=True, heartbeat_seconds=0.1, has_answered=True)
    beats = (found for found in stream.spans() if isinstance(found, Heartbeat))
    # The whole of what has landed takes less than one of its pauses.
    assert len(list(islice(beats, 5))) == 5


def test_a_source_without_gtids(tmp_path):
    options = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    with start_server(tmp_path / "server", *options) as server:
        server.run_sql(
            "CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x')"
        )
        world = World(server, tmp_path)
        world.land()
        world.track()
        server.run_sql(
            "BEGIN; INSERT INTO t VALUES (2, 'y'), (3, 'z'); DELETE FROM t WHERE a = 1; COMMIT;"
            "ALTER TABLE t ADD c INT DEFAULT 1; FLUSH BINARY LOGS; INSERT INTO t VALUES (4, 'w', 4)",
            "d",
        )
        whole = world.lines()
        assert [(line["op"], line["seq"], line["row"]) for line in whole if "op" in line] == [
            ("insert", 3, 0),
            ("insert", 4, 0),
            ("insert", 4, 1),
            ("delete", 4, 2),
            ("insert", 6, 0),
        ]
        assert {line["gtid"] for line in whole if "op" in line or "commit" in line} == {None}
        for at, line in enumerate(whole):
            assert list(map(bare, world.lines(line["token"]))) == list(map(bare, whole[at + 1 :])), line
        world.land()
        for at, line in enumerate(whole):
            assert list(map(bare, world.lines(line["token"]))) == list(map(bare, whole[at + 1 :])), line
        assert world.lines("now") == []


def shared(line: dict[str, Any]) -> dict[str, Any]:
    """What is the same on each server of a replica set: each has a commit time of its own."""
    return {name: value for name, value in bare(line).items() if name not in ("token", "committed_at")}


def test_a_replica_goes_on_with_the_primarys_tokens(tmp_path):
    with start_server(tmp_path / "a") as primary, start_server(tmp_path / "b", "--server-id=2") as replica:
        replica.run_sql(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={primary.port}, SOURCE_USER='root',"
            " SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA;"
        )
        primary.run_sql("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        world = World(primary, tmp_path)
        world.land()
        world.track()
        primary.run_sql("ALTER TABLE t ADD b INT; INSERT INTO t VALUES (3, 3), (4, 4)", "d")
        whole = world.lines()
        wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed(primary)}', {PATIENCE_SECONDS})"
        assert replica.run_sql(wait).split()[-1] == "0"
        other = World(replica, tmp_path)
        for at, line in enumerate(whole):
            rest = other.lines(line["token"])
            assert list(map(shared, rest)) == list(map(shared, whole[at + 1 :]))


def test_a_large_transaction(world: World):
    """Its rows are given as they are decoded; a reader goes on in the middle of it."""
    begin = executed(world.server)
    world.server.run_sql(
        "SET cte_max_recursion_depth = 1000000; CREATE TABLE big (a INT PRIMARY KEY, b CHAR(200));"
        "INSERT INTO big WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 90000)"
        " SELECT a, REPEAT('b', 200) FROM n",
        "d",
    )
    stream = world.stream(begin)
    spans = [span for span in stream.spans() if span]
    assert len(spans) > 2
    assert sum(batch.batch.num_rows for span in spans for batch in span.batches) == 90_000
    lines = world.lines(begin)
    middle = next(at for at, line in enumerate(lines) if line.get("row") == 70_000)
    assert world.lines(lines[middle]["token"], tables=["d.big"])[0]["row"] == 70_001
    assert len(world.lines(lines[middle]["token"])) == len(lines) - middle - 1


def test_a_prepared_transaction_that_no_disk_has_space_for(world: World, tmp_path: Path):
    """A page of a mapped file without space for it would end the process, and so all readers of `strata serve`."""
    begin = executed(world.server)
    world.server.run_sql(
        "XA START 'large'; INSERT INTO t (a) SELECT REPEAT('x', 60000) FROM information_schema.columns LIMIT 300;"
        "XA END 'large'; XA PREPARE 'large'; XA COMMIT 'large'",
        "d",
    )
    usual = tempfile.gettempdir()
    with small_disk(tmp_path, 8 << 20):
        tempfile.tempdir = str(tmp_path)
        try:
            with pytest.raises(LakeUnavailableError, match="prepared transaction cannot be kept"):
                world.lines(begin)
        finally:
            tempfile.tempdir = usual
    assert sum("row" in line for line in world.lines(begin)) == 300
