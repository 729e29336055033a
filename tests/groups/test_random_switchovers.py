"""Random hops between real servers that replicate with filters, while readers and servers are killed with SIGKILL. The
witness is what was written: each row exactly once, in the order in which it was written.

`make soak` does more of them (STRATA_HOPS)."""

from __future__ import annotations

import json
import os
import random
import time
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.groups.switchovers import Switchover
from strata_cdc.position.sets import GtidSet
from tests.groups.following import KilledReader
from tests.groups.test_switchovers import Life, catch_up, execute, executed, replicate, stored, values
from tests.groups.world import Shards, changes
from tests.mysql_server import launch
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.soak]
HOPS = int(os.environ.get("STRATA_HOPS", "2"))
SEED = int(os.environ.get("STRATA_SEED", "1"))
DATABASES = ("d1", "d2")


class Cluster:
    """Two databases on three servers: both on one, or each on its own; and the sources that they are for the group."""

    def __init__(self, servers: dict[str, MysqlServer], folder: Path) -> None:
        self.servers, self.folder = servers, folder
        self.chance, self.life = random.Random(SEED), Life()
        first = min(servers)
        make_tables(servers[first], DATABASES)
        self.holders = dict.fromkeys(DATABASES, first)
        """By database: the server that it is on."""
        self.names = {first: f"e0_{first}"}
        """By server: what it is called as a source."""
        self.worlds = {self.names[first]: self._world(first, self.names[first])}
        self.switchovers: list[Switchover] = []

    def write(self, count: int) -> None:
        self.life.write({database: self.servers[name] for database, name in self.holders.items()}, count)

    def switchover(self) -> None:
        """The databases go to servers that have neither now: split, moved as a whole, or merged."""
        number, old = len(self.switchovers) + 1, dict(self.holders)
        free = sorted(set(self.servers) - set(old.values()))
        self.chance.shuffle(free)
        self.holders = {database: free[at % len(free)] for at, database in enumerate(DATABASES)}
        if self.chance.random() < (0.3 if number > 1 else 0):
            self.holders = dict.fromkeys(DATABASES, free[0])
        new = sorted(set(self.holders.values()))
        for target in new:
            self._bring(target, old)
        # Nobody writes any more.
        for target in new:
            for source in sorted({old[database] for database in DATABASES if self.holders[database] == target}):
                catch_up(self.servers[target], self.servers[source])
            self.servers[target].run_sql(
                "STOP REPLICA; RESET REPLICA ALL; CHANGE REPLICATION FILTER REPLICATE_DO_DB = ()"
            )
        left = {self.names[name]: executed(self.servers[name]) for name in sorted(set(old.values()))}
        for name in left:
            # Its server may become another one.
            self.worlds[name].land()
            self.worlds[name].track()
        self.names = {name: f"e{number}_{name}" for name in new}
        self.worlds |= {name: self._world(server, name) for server, name in self.names.items()}
        entered = {self.names[name]: executed(self.servers[name]) for name in new}
        self.switchovers.append(Switchover(f"hop {number}", left, entered))

    def _bring(self, target: str, old: dict[str, str]) -> None:
        """Gives a server its databases: a copy of their rows, which is in no binlog, and behind it replication with
        filters, while somebody writes."""
        replica = self.servers[target]
        mine = [database for database in DATABASES if self.holders[database] == target]
        if self.switchovers:
            self._renew(replica)
        sources = sorted({old[database] for database in mine})
        make_tables(replica, mine)
        for database in mine:
            copy(self.servers[old[database]], replica, database)
        behind = reduce(GtidSet.__or__, (executed(self.servers[source]) for source in sources))
        execute(replica, f"SET GLOBAL gtid_purged = '+{behind}'")
        writing = {database: self.servers[name] for database, name in old.items()}
        for source in sources:
            named = ", ".join(database for database in mine if old[database] == source)
            replicate(replica, self.servers[source], f"REPLICATE_DO_DB = ({named})", f"of_{source}")
            self.life.write(writing, 3)

    def _renew(self, server: MysqlServer) -> None:
        """Makes an empty server of it, whose GTIDs are no former one's."""
        server.stop()
        (server.folder / "data" / "auto.cnf").unlink()
        server.process = launch(server.folder, *server.options, port=server.port).process
        # One that was killed has its channels again: it had not flushed yet that they were gone.
        server.run_sql("STOP REPLICA; RESET REPLICA ALL")
        server.run_sql("DROP DATABASE IF EXISTS d1; DROP DATABASE IF EXISTS d2; RESET BINARY LOGS AND GTIDS")

    def _world(self, server: str, name: str) -> World:
        place = self.folder / name
        place.mkdir()
        return World(self.servers[server], place, name)

    def kill_server(self) -> None:
        """One of those that are written to, in the middle of what it does."""
        name = self.chance.choice(sorted(set(self.holders.values())))
        server = self.servers[name]
        server.kill()
        server.process = launch(server.folder, *server.options, port=server.port).process

    def group(self) -> Shards:
        current = [self.worlds[name] for name in sorted(self.names.values())]
        journal = self.folder / "hops.json"
        journal.write_text(json.dumps({"format": 2, "hops": [stored(switchover) for switchover in self.switchovers]}))
        former = [world for name, world in sorted(self.worlds.items()) if name not in self.names.values()]
        return Shards(current, former=former, journal=str(journal))


def make_tables(server: MysqlServer, databases: Sequence[str]) -> None:
    for database in databases:
        execute(server, f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a TEXT)")


def copy(source: MysqlServer, replica: MysqlServer, database: str) -> None:
    with source.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, a FROM t")
        rows = ", ".join(f"({number}, '{value}')" for number, value in cursor.fetchall())
    execute(replica, "SET sql_log_bin = 0", *([f"INSERT INTO {database}.t VALUES {rows}"] if rows else []))


def test_random_hops_with_kills_of_readers_and_servers(servers: dict[str, MysqlServer], tmp_path):
    cluster, reader = Cluster(servers, tmp_path), KilledReader(tmp_path)
    for number in range(HOPS + 1):
        group = cluster.group()
        reader.start(group.sources, group.former, tmp_path / "hops.json")
        cluster.write(8)
        if number % 2 == 0:
            reader.kill()
            cluster.kill_server()
            cluster.write(3)
            reader.start(group.sources, group.former, tmp_path / "hops.json")
        time.sleep(cluster.chance.random())
        reader.kill()
        if number < HOPS:
            cluster.switchover()
            cluster.write(3)
    group = cluster.group()
    reader.start(group.sources, group.former, tmp_path / "hops.json")
    wait(reader, cluster.life.values[-1])
    reader.kill()
    found = reader.lines()
    assert values(found) == cluster.life.values
    assert [line["epoch"] for line in found if "hop" in line] == list(range(1, HOPS + 1))
    # Who reads it all later has the same.
    whole = changes(group.lines())
    assert values(whole) == cluster.life.values


def wait(reader: KilledReader, value: str) -> None:
    until = time.monotonic() + 60
    while not reader.has(lambda line: (line.get("after") or {}).get("a") == value):
        assert time.monotonic() < until, (value, tail(reader))
        time.sleep(0.1)


def tail(reader: KilledReader) -> Any:
    return reader.lines()[-2:], (reader.folder / "reader.log").read_text()[-2000:]
