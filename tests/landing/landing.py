"""Landing in tests: the call, and the server's own files as the witness of what landed.
Not here: tests."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.bytes.segment import staging_folder
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.binlog.protocol.limits import ServerLimits
from strata_cdc.binlog.sources.files import FileSource
from strata_cdc.files.storage import list_files
from strata_cdc.landing.follow_binlog import follow_binlog
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.position.executed import parse_executed
from tests.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from strata_cdc.position.port import Executed
    from tests.mysql_server import MysqlServer


def address_of(server: MysqlServer, **changes) -> ServerAddress:
    return ServerAddress(server.host, server.port, **{"user": server.user, "password": server.password, **changes})


def land(server: MysqlServer, lake: Path | str, **options):
    return land_binlog(address_of(server), lake=str(lake), source="s", **options)


def executed(server: MysqlServer) -> Executed:
    return parse_executed(server.run_sql(server.executed_sql).split("\n", 1)[1].strip().replace("\\n", ""))


def purged(server: MysqlServer) -> Executed:
    """What had been executed before the first file that the server still has."""
    return next(iter(FileSource([str(server.binlogs()[0])]).read_items())).previous


def assert_is_the_servers(server: MysqlServer, lake: Path | str) -> list:
    """Every transaction that is in the server's files has landed once, in order, byte for byte."""
    expected: dict[str, tuple[str, bytes, int]] = {}
    for path in server.binlogs():
        with open_binlog(path) as binlog:
            for record in read_transactions(binlog):
                data = binlog.buffer[record.begin : record.end].tobytes()
                expected[str(record.gtid)] = (path.name, data, record.begin)
    stream = LandedStream.open(str(lake), "s")
    found = list(stream.records())
    assert [record.seq for _, record in found] == list(range(1, len(found) + 1))
    assert [str(record.gtid) for _, record in found] == list(expected)[-len(found) :]
    assert all(before.committed_at <= after.committed_at for (_, before), (_, after) in pairwise(found))
    for segment in stream.segments:
        with open_binlog(segment.url) as binlog:
            index_events(binlog.buffer, 4, len(binlog.buffer), binlog.format, 1 << 30).raise_fault()
            for of, record in found:
                if of.name == segment.name:
                    data = binlog.buffer[record.begin : record.end].tobytes()
                    place = (record.binlog_file, data, record.binlog_pos)
                    assert place == expected[str(record.gtid)], f"{record.gtid} at {record.binlog_pos}"
    return found


class Follower:
    """A landing in a thread; it ends when the `with` block does."""

    def __init__(self, address: ServerAddress, lake, options) -> None:
        self.stopped, self.seen, self.error = threading.Event(), [], None
        self.report = None
        self.thread = threading.Thread(target=self._run, args=(address, lake, options))
        self.thread.start()

    def _run(self, address, lake, options) -> None:
        try:
            self.report = follow_binlog(
                address,
                lake=str(lake),
                source="s",
                stop=self.stopped.is_set,
                progress=self.seen.append,
                **options,
            )
        except Exception as error:  # noqa: BLE001 - handed to the test
            self.error = error

    def wait_for(self, condition, seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.seen[-3:]
            assert self.thread.is_alive(), self.error
            time.sleep(0.05)


@contextmanager
def following(server: MysqlServer, lake, limits: ServerLimits | None = None, **options) -> Iterator[Follower]:
    follower = Follower(address_of(server, limits=limits or ServerLimits()), lake, options)
    try:
        yield follower
    finally:
        follower.stopped.set()
        follower.thread.join(PATIENCE_SECONDS)
    assert not follower.thread.is_alive()


SOON = ServerLimits(history_seconds=1)
"""For tests that reset a binlog under a connection that waits."""

LANDINGS = """
import os, sys
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.binlog.protocol.connection import ServerAddress
while input() == "land":
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        land_binlog(ServerAddress("127.0.0.1", int(sys.argv[1])), lake=sys.argv[2], source="s", segment_bytes=40_000)
        os._exit(0)
    input()
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""A process for each landing, forked from this one, which has all modules and no connection."""


def killed_at_random_instants(
    server: MysqlServer, lake: Path | str, times: int, seed: int, witness: Callable[[MysqlServer, Path | str], object]
) -> None:
    """Kills landings while files change, and goes on with the next; the witness looks at what has landed."""
    chance, ended = random.Random(seed), set()
    command = [sys.executable, "-c", LANDINGS, str(server.port), str(lake)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as landings:
        for _ in range(times):
            server.run_sql("INSERT INTO t (a) SELECT REPEAT('k', 300) FROM d.t LIMIT 200; FLUSH BINARY LOGS", "d")
            server.run_sql("INSERT INTO t (a) VALUES (REPEAT('k', 3000));" * 40, "d")
            landings.stdin.write("land\n")
            process = int(landings.stdout.readline())
            time.sleep(chance.random() * 0.25)
            os.kill(process, signal.SIGKILL)
            landings.stdin.write("\n")
            ended.add(int(landings.stdout.readline()))
            stream = LandedStream.open(str(lake), "s")
            for segment in stream.segments:
                assert segment.summary.bytes == segment_size(segment)
        landings.stdin.write("end\n")
    assert signal.SIGKILL in ended
    land(server, lake)
    witness(server, lake)
    places = (f"{lake}/landing/s", staging_folder(landing_folder(str(lake), "s")))
    assert [path for place in places for path in list_files(place) if path.endswith(".part")] == []


def segment_size(segment) -> int:
    with open_binlog(segment.url) as binlog:
        return len(binlog.buffer)
