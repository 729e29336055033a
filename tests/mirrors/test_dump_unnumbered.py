"""Dumps and comparisons on a server that did without GTIDs for a while, or is idle: mirrors equal their tables."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.mirrors.dump.dump_table import DumpSettings, TableDump
from strata_cdc.mirrors.dump.finish import DumpSource
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tracking.track_schema import track_landed
from tests.mirrors.world import MirrorWorld
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

ROUNDS = int(os.environ.get("STRATA_DUMPS_UNNUMBERED", "0"))
"""Drawn anew; 0 for some that are always the same."""
SEEDS = tuple(random.SystemRandom().sample(range(1 << 30), ROUNDS)) or (1, 2, 3)
MODES = ("ON", "ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
WRITES = (
    "INSERT IGNORE INTO t SELECT id + 1000, v, n FROM t WHERE id % 3 = 0",
    "UPDATE t SET n = n + 1 WHERE id % 2 = 0",
    "DELETE FROM t WHERE id % 5 = 1",
    "REPLACE INTO t VALUES (7, 'seven', 7), (8, 'eight', 8)",
    "INSERT INTO bare (a) VALUES (1), (1)",
    "DELETE FROM bare LIMIT 1",
    "FLUSH BINARY LOGS",
)
DDL = (
    "ALTER TABLE t ADD INDEX (n)",
    "ALTER TABLE t DROP INDEX n",
    "TRUNCATE bare",
    "ALTER TABLE bare ADD COLUMN b INT",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_server(tmp_path_factory.mktemp("server"), "--enforce-gtid-consistency=ON") as running:
        yield running


class Life:
    """A server's life by lot, and the dumps of its tables."""

    def __init__(self, server: MysqlServer, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.world = MirrorWorld(server, folder)
        server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
        self.connection = server.connect("shop")
        self.mode = 0
        self.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), n INT)", "CREATE TABLE bare (a INT)")
        self.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")

    def run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                # An index or column that is there, or is not.
                with suppress(pymysql.err.OperationalError):
                    cursor.execute(statement)

    def write(self) -> None:
        count = self.draw.randint(0, 3)
        self.run(*(self.draw.choice(DDL if self.draw.random() < 0.2 else WRITES) for _ in range(count)))
        if self.draw.random() < 0.5:
            self.catch_up()

    def turn(self, mode: int) -> None:
        """Goes to a mode, by those between."""
        while self.mode != mode:
            self.mode += 1 if mode > self.mode else -1
            if self.mode == 0:
                # In mode ON a server sends no transaction without a GTID any more.
                self.catch_up()
            self.run(f"SET GLOBAL gtid_mode = {MODES[self.mode]}")
            self.write()

    def catch_up(self) -> None:
        source = self.world.source
        land_binlog(source.address, lake=source.lake, source=source.name)
        track_landed(source.lake, source.name, self.world.engine)

    def dump(self, table: str) -> None:
        world = self.world
        of = DumpSource(
            world.name, world.source.address, world.lake, SchemaStore(world.engine), self.catch_up, world.mode
        )
        TableDump(of, TableName("shop", table), DumpSettings(1, 0)).run()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_did_without_gtids_for_a_while(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    life = Life(server, tmp_path, seed)
    for _ in range(3):
        life.write()
        life.turn(life.draw.choice([1, 2, 3, 3]))
        life.turn(0)
        for table in life.draw.sample(["t", "bare"], life.draw.randint(1, 2)):
            life.dump(table)
        if life.draw.random() < 0.5:
            life.write()
    life.world.publish()
    life.world.update()
    life.world.assert_equal()
