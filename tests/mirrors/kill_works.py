"""Works on mirrors in processes of their own, which are killed at random instants, and a reader who looks on.
Not here: what must hold (`test_mirror_kills.py`)."""

from __future__ import annotations

import multiprocessing
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl

from strata_cdc.errors import AlreadyRunningError
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.mirrors.dump.dump_table import DumpSettings, DumpSource, TableDump
from strata_cdc.mirrors.follow.upkeep import compact_mirrors, vacuum_mirrors
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.port import CommitConflictError
from strata_cdc.tracking.track_schema import track_landed
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess
    from random import Random

    from strata_cdc.mirrors.table import Mirror

TABLES = ("accounts", "bag", "uniq")
ROWS, TOTAL = 400, 400 * 100
CREATE = """
CREATE TABLE accounts (id INT PRIMARY KEY, money INT NOT NULL, note VARCHAR(200));
CREATE TABLE uniq (name VARCHAR(20) NOT NULL UNIQUE, money INT NOT NULL);
CREATE TABLE bag (money INT NOT NULL, n INT);
"""
GRACE_SECONDS = 60
"""How long vacuum leaves the files of a commit that is being made, and of states that are being read."""


def processes() -> Any:
    """Forks of a process that has imported everything and done nothing: they start in no time."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.mirrors.kill_works", "strata_cdc.mirrors.apply", "strata_cdc.mirrors.compact"])
    return found


def do(what: str, url: str, folder: str, seconds: float = 0) -> None:
    """One work, to its end; others at the same time may come first."""
    world = MirrorWorld(SimpleNamespace(url=url), Path(folder))  # type: ignore[arg-type]  # its address is asked for
    lake, name = world.lake, world.name
    locks = MirrorLocks(lake, name, world.source.address)
    works: dict[str, Callable[[], object]] = {
        "apply": world.update,
        "dump": lambda: dump(world),
        "compact": lambda: compact_mirrors(lake, name, lambda _: True, locks=locks),
        "vacuum": lambda: vacuum_mirrors(
            lake,
            name,
            lambda _: True,
            locks=locks,
            now_micros=int((time.time() + 3600 - seconds) * 1e6),
            retain_hours=1,
        ),
    }
    with suppress(CommitConflictError, AlreadyRunningError):
        works[what]()


def dump(world: MirrorWorld) -> None:
    def catch_up() -> None:
        land_binlog(world.source.address, lake=world.lake, source=world.name)
        track_landed(world.lake, world.name, world.engine)

    source = DumpSource(world.name, world.source.address, world.lake, SchemaStore(world.engine), catch_up, world.mode)
    TableDump(source, TableName("shop", "accounts"), DumpSettings(chunk_bytes=4000, pause_seconds=0)).run()


class Killer:
    """Starts works and ends them at random instants."""

    def __init__(self, world: MirrorWorld, random: Random) -> None:
        self._world, self._random = world, random
        self._context = processes()
        self._longest: dict[str, float] = {}
        self.killed: dict[str, int] = {}

    def whole(self, what: str) -> None:
        """A work to its end; how long it takes is how late it may be killed."""
        begin = time.monotonic()
        process = self._start(what)
        process.join()
        assert process.exitcode == 0, what
        self._longest[what] = time.monotonic() - begin

    def kill(self, *works: str, seconds: float = 0) -> None:
        """Works at the same time, each killed at some instant of its own, or not if it is done by then."""
        started = [(self._start(what, seconds), what) for what in works]
        begin = time.monotonic()
        ends = [(self._random.uniform(0, 1.1 * self._longest[what]), process, what) for process, what in started]
        for at, process, what in sorted(ends, key=lambda one: one[0]):
            process.join(max(0, at - (time.monotonic() - begin)))
            if process.exitcode is None:
                process.kill()
                process.join()
                self.killed[what] = self.killed.get(what, 0) + 1
            else:
                assert process.exitcode == 0, what

    def _start(self, what: str, seconds: float = 0) -> BaseProcess:
        process = self._context.Process(
            target=do, args=(what, self._world.server.url, str(self._world.folder), seconds)
        )
        process.start()
        return process  # type: ignore[no-any-return]


class Onlooker(threading.Thread):
    """Reads the mirrors all the time: money is moved in transactions, so that all of it is always there."""

    def __init__(self, world: MirrorWorld) -> None:
        super().__init__(daemon=True)
        self._world = world
        self._done = threading.Event()
        self.looks = 0
        self.seen: list[str] = []

    def run(self) -> None:
        while not self._done.is_set():
            begin = time.thread_time()
            for table in TABLES:
                self._look(table)
            # The works need the processor, too: by and by a look takes longer than they do.
            self._done.wait(max(0.1, 3 * (time.thread_time() - begin)))

    def end(self) -> None:
        self._done.set()
        self.join()

    def _look(self, table: str) -> None:
        try:
            mirror = self._world.mirror(table)
            if mirror is None:
                return
            found = self._by_polars(mirror) if self.looks % 2 else mirror.to_arrow(["money"])["money"].to_pylist()
        except Exception as error:  # noqa: BLE001  told to the test
            self.seen.append(f"{table}: {error!r}")
            return
        self.looks += 1
        if found and sum(found) != TOTAL:
            self.seen.append(f"{table}: {sum(found)} in {len(found)} rows")

    @staticmethod
    def _by_polars(mirror: Mirror) -> list[int]:
        return list(pl.scan_delta(mirror.url).select("money").collect()["money"])


def move_money(world: MirrorWorld, random: Random, transactions: int) -> None:
    """Transactions that leave the sum as it is; rows come, go, change their keys, and columns come and go."""
    with world.server.connect("shop") as connection, connection.cursor() as cursor:
        for _ in range(transactions):
            statements = random.choice([_transfer, _split, _rekey, _of_bag])(random)
            for statement in ("BEGIN", *statements, "COMMIT"):
                cursor.execute(statement)
        if random.random() < 0.2:
            cursor.execute(f"ALTER TABLE {random.choice(TABLES)} ADD COLUMN c{random.randrange(10**6)} INT DEFAULT 7")


def fill(world: MirrorWorld) -> None:
    """The tables, each with all its money in one transaction."""
    numbers = range(ROWS)
    world.server.run_sql(
        CREATE
        + f"INSERT INTO accounts VALUES {', '.join(f'({n}, 100, REPEAT(CHAR(97 + {n} % 26), 150))' for n in numbers)};"
        + f"INSERT INTO uniq VALUES {', '.join(f'({chr(39)}k{n}{chr(39)}, 100)' for n in numbers)};"
        + f"INSERT INTO bag VALUES {', '.join(f'(100, {n % 5})' for n in numbers)};",
        "shop",
    )


def _transfer(random: Random) -> list[str]:
    one, other, sum_ = random.randrange(ROWS), random.randrange(ROWS), random.randrange(50)
    made = []
    for table, key in (("accounts", "id = {}"), ("uniq", "name = 'k{}'")):
        # Nothing moves unless both are there.
        there = f"(SELECT count(*) FROM {table} AS x WHERE x.{key.format(one)} OR x.{key.format(other)}) = 2"
        both = f"({key.format(one)} OR {key.format(other)})"
        moved = f"money + IF({key.format(one)}, -{sum_}, {sum_})"
        made.append(f"SET @there = {there}")
        made.append(f"UPDATE {table} SET money = {moved} WHERE {both} AND @there AND {one} <> {other}")
    return made


def _split(random: Random) -> list[str]:
    one, new = random.randrange(ROWS), random.randrange(10**9)
    return [
        f"SET @money = (SELECT money FROM accounts WHERE id = {one})",
        f"DELETE FROM accounts WHERE id = {one} AND @money IS NOT NULL",
        f"INSERT INTO accounts (id, money) SELECT {1000 + new}, @money - 7 WHERE @money IS NOT NULL",
        f"INSERT INTO accounts (id, money) SELECT {-1 - new}, 7 WHERE @money IS NOT NULL",
    ]


def _rekey(random: Random) -> list[str]:
    one, new = random.randrange(ROWS), random.randrange(10**9)
    return [
        f"UPDATE uniq SET name = 'n{new}' WHERE name = 'k{one}'",
        f"UPDATE accounts SET note = REPEAT('x', {new % 150}) WHERE id % 50 = {new % 50}",
    ]


def _of_bag(random: Random) -> list[str]:
    number = random.randrange(5)
    return [
        f"UPDATE bag SET n = {random.randrange(5)} WHERE n = {number} LIMIT 5",
        f"SET @money = (SELECT sum(money) FROM (SELECT money FROM bag WHERE n = {number} AND money = 100 LIMIT 2) x)",
        f"DELETE FROM bag WHERE n = {number} AND money = 100 LIMIT 2",
        "INSERT INTO bag (money, n) SELECT @money, 0 WHERE @money IS NOT NULL",
    ]
