"""Ten real servers under load, whose clocks differ and are set, that pause, fall silent, are killed and come back, read
by readers that are killed. The witness is SELECT on each server: each row once, in the order of its server.

`make soak` runs it, for STRATA_ROUGH seconds."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pymysql
import pytest

from tests.groups.conftest import set_clock, start
from tests.groups.following import KilledReader
from tests.groups.world import Shards
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

SECONDS = int(os.environ.get("STRATA_ROUGH", "0"))
SERVERS = int(os.environ.get("STRATA_ROUGH_SERVERS", "10"))
SEED = int(os.environ.get("STRATA_SEED", "1"))
pytestmark = [
    pytest.mark.mysql,
    pytest.mark.skipif(not SECONDS, reason="ten servers take minutes: `make soak`"),
]
SMALL = (
    "--innodb-buffer-pool-size=8M",
    "--innodb-log-buffer-size=1M",
    "--innodb-redo-log-capacity=8M",
    "--performance-schema=OFF",
    "--max-connections=20",
    "--table-open-cache=50",
    # A server that is killed must have all that its binlog has.
    "--innodb-flush-log-at-trx-commit=1",
    "--sync-binlog=1",
)


class Rough:
    """One server: who writes to it, and what becomes of it."""

    def __init__(self, at: int, server: MysqlServer, clock: Path | None) -> None:
        self.at, self.server, self._clock = at, server, clock
        self.chance = random.Random(SEED * 100 + at)
        self.pause = (0.0, 0.05, 0.5)[at % 3]
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        number = itertools.count()
        while not self.is_over.is_set():
            with suppress(pymysql.err.MySQLError, OSError), self.server.connect("d", read_timeout=20) as connection:
                while not self.is_over.is_set():
                    self._write_one(connection.cursor(), next(number))
            time.sleep(0.2)

    def _write_one(self, cursor: pymysql.cursors.Cursor, number: int) -> None:
        cursor.execute("INSERT INTO t (a) VALUES (%s), (%s)", (f"{self.at} {number}", "x" * (number % 40)))
        if number % 211 == 210:
            cursor.execute(f"ALTER TABLE t ADD c{number} INT")
        if self.pause:
            time.sleep(self.pause)
        if self.chance.random() < 0.002:
            # Silent for a while.
            self.is_over.wait(self.chance.random() * 6)

    def suffer(self) -> None:
        """One thing or another."""
        luck = self.chance.random()
        if luck < 0.35:
            self.server.process.send_signal(signal.SIGSTOP)
            time.sleep(self.chance.random() * 3)
            self.server.process.send_signal(signal.SIGCONT)
        elif luck < 0.6:
            self.server.kill()
            time.sleep(self.chance.random() * 2)
            server = self.server
            server.process = start(server.folder, self._clock, *server.options, port=server.port).process
        elif self._clock is not None:
            set_clock(self.server, self.chance.choice([0, 1, -1, 30, -30, 3600, -7200]))


@pytest.fixture
def servers(tmp_path: Path, clock: Path | None) -> Iterator[list[Rough]]:
    def one(at: int) -> Rough:
        made = start(tmp_path / f"server_{at:02}", clock, f"--server-id={at + 1}", *SMALL)
        made.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, a TEXT);")
        return Rough(at, made, clock)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(one, range(SERVERS)))
    yield found
    for rough in found:
        rough.is_over.set()
        rough.server.kill()


def test_a_rough_life(servers: list[Rough], tmp_path: Path):
    chance = random.Random(SEED)
    worlds = []
    for rough in servers:
        folder = tmp_path / f"world_{rough.at:02}"
        folder.mkdir()
        worlds.append(World(rough.server, folder, f"s{rough.at:02}"))
    reader = KilledReader(tmp_path)
    reader.start(worlds)
    for rough in servers:
        rough.thread.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        chance.choice(servers).suffer()
        time.sleep(chance.random())
        reader.go_on()
        if chance.random() < 0.15:
            reader.kill()
            reader.start(worlds)
    for rough in servers:
        rough.is_over.set()
        rough.thread.join(60)
        set_clock(rough.server, 0)
    check(servers, worlds, reader)


def check(servers: list[Rough], worlds: list[World], reader: KilledReader) -> None:
    """Each server's rows, once and in their order; for who was killed, and for who reads it all later."""
    written = {f"s{rough.at:02}": ids(rough.server) for rough in servers}
    last = {name: found[-1] for name, found in written.items() if found}
    until = time.monotonic() + 120
    while not last.items() <= newest(reader).items():
        assert time.monotonic() < until, {name: (at, newest(reader).get(name)) for name, at in last.items()}
        reader.has(lambda _: False)
        time.sleep(1)
    reader.kill()
    assert by_source(reader.lines()) == written
    whole = Shards(worlds, options={"heartbeat_seconds": 1.0}).lines()
    assert by_source(whole) == written
    print({name: len(found) for name, found in written.items()}, "killed:", len(reader.lines()))


def ids(server: MysqlServer) -> list[int]:
    with server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM t ORDER BY id")
        return [found for (found,) in cursor.fetchall()]


def newest(reader: KilledReader) -> dict[str, int]:
    return {name: found[-1] for name, found in by_source(reader.lines()).items()}


def by_source(lines: list[dict]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for line in lines:
        if line.get("op") == "insert":
            found.setdefault(line["source"], []).append(line["after"]["id"])
    return found
