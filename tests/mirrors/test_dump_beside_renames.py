"""Tables that change places while a dump reads them: a mirror has the rows of the table of its name."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, TlsMode
from strata_cdc.binlog.protocol.visible_state import IDENTITY
from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.mirrors.dump.dump_table import DumpSettings, TableDump
from strata_cdc.mirrors.dump.finish import DumpSource
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tracking.track_schema import track_landed
from tests.mirrors.world import MirrorWorld
from tests.mysql_proxy import proxy

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

ROUNDS = int(os.environ.get("STRATA_DUMPS_BESIDE_RENAMES", "0"))
"""Drawn anew; 0 for some that are always the same."""
SEEDS = tuple(random.SystemRandom().sample(range(1 << 30), ROUNDS)) or (5, 9, 13, 15, 21)
ROWS = 2500
"""Of each table: three chunks, since the shortest has a thousand."""
BLOCKED_SECONDS = 0.3
"""How long a DDL is waited for that the dump itself may hold up."""
CHANGES = {
    "moved away, another in its place": ["RENAME TABLE a TO x, b TO a"],
    "two change places": ["RENAME TABLE a TO x, b TO a, x TO b"],
    "one after the other": ["ALTER TABLE a RENAME TO x", "ALTER TABLE b RENAME TO a"],
    "dropped, another in its place": ["DROP TABLE a", "RENAME TABLE b TO a"],
    "made anew": ["DROP TABLE a", "CREATE TABLE a LIKE b", "INSERT INTO a SELECT id + 1, v, n FROM b LIMIT 1500"],
    "a partition exchanged": ["ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE a"],
    "swapped by a tool": [
        "CREATE TABLE ghost LIKE a",
        "INSERT INTO ghost SELECT id + 1, v, n FROM a LIMIT 1700",
        "RENAME TABLE a TO a_del, ghost TO a",
    ],
    "emptied": ["TRUNCATE a"],
}
READS_STATE = f"SELECT {IDENTITY}"
"""What asks for the executed transactions: once for the dump, once as its connection is made, once for each chunk."""
MOMENTS = {
    "": 40,
    "SHOW BINARY LOG STATUS": 3,
    "SELECT `id`": 3,
    READS_STATE: 4,
    "EXECUTE": 3,
    "COMMIT": 3,
}
"""Beginnings of commands that a dump sends, and about how often it does so."""
COLUMNS = {"keyed": "id INT PRIMARY KEY, v VARCHAR(20), n INT", "bare": "id INT, v VARCHAR(20), n INT"}
WRITES = [
    "UPDATE a SET n = n + 1 WHERE id % 7 = 3",
    "DELETE FROM a WHERE id % 11 = 5",
    "INSERT INTO a SELECT id + 100000, v, n FROM b WHERE id % 13 = 0",
    "UPDATE b SET n = n + 1 WHERE id % 5 = 1",
    "DELETE FROM p WHERE id % 17 = 4",
]


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> MirrorWorld:
    folder = tmp_path_factory.mktemp("renames")
    return MirrorWorld(server, folder)


@dataclass
class Meanwhile:
    """Statements of another session in front of one of the dump's commands."""

    server: MysqlServer
    database: str
    statements: list[str]
    command: str
    """How the command begins."""
    before: int
    """How many such commands come earlier."""
    heard: int = 0
    running: threading.Thread | None = None
    failed: list[str] = field(default_factory=list)

    def hear(self, command: str) -> None:
        self.heard += command.startswith(self.command)
        if self.heard > self.before and self.running is None:
            self.running = threading.Thread(target=self._run, daemon=True)
            self.running.start()
            self.running.join(BLOCKED_SECONDS)

    def end(self) -> None:
        """All of them have been run."""
        if self.running is not None:
            self.running.join()
        assert not self.failed, self.failed

    def _run(self) -> None:
        with self.server.connect(self.database) as connection, connection.cursor() as cursor:
            for statement in self.statements:
                try:
                    cursor.execute(statement)
                except Exception as error:  # noqa: BLE001 - told to the test
                    self.failed.append(f"{statement}: {error}")


def make_tables(world: MirrorWorld, columns: str) -> None:
    """Of which each has rows of its own under the same keys."""
    with world.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {world.database}")
        cursor.execute(f"USE {world.database}")
        cursor.execute("SET SESSION cte_max_recursion_depth = 100000")
        for name in "abp":
            parted = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN MAXVALUE)" if name == "p" else ""
            cursor.execute(f"CREATE TABLE {name} ({columns}) {parted}")
            cursor.execute(
                f"INSERT INTO {name} WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < {ROWS})"
                f" SELECT n * 3, '{name}', n FROM r"
            )


def source_of(world: MirrorWorld, port: int) -> DumpSource:
    def catch_up() -> None:
        land_binlog(world.source.address, lake=world.lake, source=world.name)
        track_landed(world.lake, world.name, world.engine)

    found = ServerAddress.from_url(world.server.url)
    address = replace(found, port=port, tls=TlsMode.DISABLED)
    return DumpSource(world.name, address, world.lake, SchemaStore(world.engine), catch_up, world.mode)


@pytest.mark.parametrize("number", SEEDS)
def test_the_rows_are_those_of_the_table_that_has_the_name(world: MirrorWorld, number: int) -> None:
    draw = random.Random(number)
    world.database = f"d{number}"
    make_tables(world, COLUMNS[draw.choice(["keyed", "keyed", "bare"])])
    change = draw.choice(sorted(CHANGES))
    statements = [*draw.sample(WRITES, draw.randint(0, 2)), *CHANGES[change], *draw.sample(WRITES[:1], 1)]
    table = draw.choice(["a", "a", "a", "p"])
    world.publish()
    world.update()
    command = draw.choice(sorted(MOMENTS))
    meanwhile = Meanwhile(world.server, world.database, statements, command, draw.randrange(MOMENTS[command]))
    settings = DumpSettings(chunk_bytes=1, pause_seconds=0)
    with proxy(world.server.port, meanwhile.hear) as port:
        try:
            TableDump(source_of(world, port), TableName(world.database, table), settings).run()
        except SchemaGapError:
            assert change in ("dropped, another in its place", "one after the other", "made anew")
    meanwhile.end()
    world.publish()
    for behind in world.update().behind:
        # A table that took along the rows of one that was dumped: nobody knows them, and it is said.
        assert behind.needs_dump, behind
        TableDump(source_of(world, world.server.port), TableName.parse(behind.table), settings).run()
    world.update()
    world.assert_equal()


def test_a_table_that_gets_another_engine_between_two_chunks_is_refused(world: MirrorWorld) -> None:
    world.database = "engines"
    make_tables(world, COLUMNS["keyed"])
    statements = ["ALTER TABLE a ENGINE = MyISAM"]
    meanwhile = Meanwhile(world.server, "engines", statements, READS_STATE, 3)
    with (
        proxy(world.server.port, meanwhile.hear) as port,
        pytest.raises(Usage, match="its engine is MyISAM"),
    ):
        TableDump(source_of(world, port), TableName("engines", "a"), DumpSettings(1, 0)).run()
    meanwhile.end()
