"""Who writes to a mirror does so alone, on this machine and on an object store, where mirrors do all that they do."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from time import sleep
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import strata_cdc.mirrors
from strata_cdc.errors import AlreadyRunningError, LakeUnavailableError
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.dump.dump_table import DumpSettings, TableDump
from strata_cdc.mirrors.dump.finish import DumpSource
from strata_cdc.mirrors.follow.upkeep import CompactionDue, compact_mirrors, vacuum_mirrors
from strata_cdc.mirrors.layout import mirrored_tables
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tracking.track_schema import track_landed
from tests.interposed import interposed
from tests.mirrors.test_mirror_readers import by_deltalake
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.mirrors.table import Mirror
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
LATE = 4 * 10**15
T = TableName("shop", "t")
HOLDER = """
import sys, time
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.schema.model.definition import TableName
from strata_cdc.binlog.protocol.connection import ServerAddress
lake, url = sys.argv[1:]
with MirrorLocks(lake, "s", ServerAddress.from_url(url)).alone(TableName("shop", "t"), purpose="testing this mirror"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path, lake: str) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    made = MirrorWorld(server, tmp_path, lake_url=lake)
    sql(made, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30))")
    sql(made, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return made


def sql(world: MirrorWorld, text: str) -> None:
    world.server.run_sql(text, "shop")


def dump(world: MirrorWorld, table: str = "t") -> None:
    def catch_up() -> None:
        land_binlog(world.source.address, lake=world.lake, source=world.name)
        track_landed(world.lake, world.name, world.engine)

    of = DumpSource(world.name, world.source.address, world.lake, SchemaStore(world.engine), catch_up, world.mode)
    TableDump(of, TableName("shop", table), DumpSettings(1 << 20, 0)).run()


def behind(world: MirrorWorld) -> list[str | None]:
    return [one.behind for one in world.update().mirrors]


def follow(world: MirrorWorld) -> None:
    world.publish()
    assert behind(world) == [None]


def test_one_writer_at_a_time_and_none_after_a_kill(world: MirrorWorld) -> None:
    dump(world)
    sql(world, "UPDATE t SET v = 'x'")
    world.publish()
    script = [sys.executable, "-c", HOLDER, world.lake, world.server.url]
    with subprocess.Popen(script, stdout=subprocess.PIPE, env=os.environ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            world.lock_wait_seconds = 0.1
            [said] = behind(world)
            assert "testing this mirror" in (said or "") or "writes to the same mirror" in (said or "")
            if not world.lake.startswith("s3://"):
                # There each refusal takes the five seconds that a server may need to notice a dead client.
                [kept] = compact_mirrors(world.lake, world.name, lambda _: True, locks=world.locks(0.1))
                assert kept.left
        finally:
            holder.kill()
            world.lock_wait_seconds = 30
    assert behind(world) == [None]
    world.assert_equal()
    assert mirrored_tables(world.lake, world.name) == [T]


def test_a_mirror_from_its_dump_to_its_vacuum(world: MirrorWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    dump(world)
    for text in (
        "INSERT INTO t VALUES (4, 'd'); UPDATE t SET id = 30 WHERE id = 3",
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t ADD COLUMN n INT DEFAULT 7; UPDATE t SET n = 8 WHERE id = 2",
        "INSERT INTO t VALUES (5, 'e', 5); UPDATE t SET v = UPPER(v) WHERE id > 3",
    ):
        sql(world, text)
        follow(world)
    world.assert_equal()
    due = CompactionDue(small_files=2, dead_percent=100)
    [done] = compact_mirrors(world.lake, world.name, lambda _: True, locks=world.locks(), due=due)
    assert done.compacted is not None
    assert done.compacted.files_after == 1
    assert not compact_mirrors(world.lake, world.name, lambda _: True, locks=world.locks(), due=due)
    world.assert_equal()
    sql(world, "UPDATE t SET v = 'last' WHERE id = 2")
    follow(world)
    [gone] = vacuum_mirrors(
        world.lake, world.name, lambda _: True, locks=world.locks(), now_micros=LATE, retain_hours=0
    )
    assert gone.vacuumed is not None
    assert gone.vacuumed.files
    world.assert_equal()
    mirror = world.mirror("t")
    assert mirror is not None
    rows = sorted(mirror.to_arrow().to_pylist(), key=repr)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert sorted(by_deltalake(mirror.url, None).to_pylist(), key=repr) == rows
    with duckdb.connect() as connection:
        found = strata_cdc.mirrors.open(world.lake, world.name, "shop.t").to_duckdb(connection)
        assert sorted(found.aggregate("count(*), min(id), max(id)").fetchall()) == [(4, 2, 30)]


def test_dumps_updates_and_compactions_at_once(world: MirrorWorld) -> None:
    dump(world)
    refused = []

    def attempt(work: object) -> None:
        try:
            work(world)  # type: ignore[operator]
        except AlreadyRunningError as error:
            refused.append(error.message)

    def update(world: MirrorWorld) -> None:
        world.update()

    def upkeep(world: MirrorWorld) -> None:
        for _ in range(3):
            compact_mirrors(world.lake, world.name, lambda _: True, locks=world.locks())

    for turn in range(1 if world.lake.startswith("s3://") else 2):
        sql(world, f"INSERT INTO t SELECT MAX(id) + 1, 'n{turn}' FROM t; UPDATE t SET v = CONCAT(v, '{turn}')")
        world.publish()
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(attempt, (dump, update, upkeep, update, dump)))
    assert all("dump" in message for message in refused), refused
    # None of them has left a lock behind.
    world.lock_wait_seconds = 0.1
    follow(world)
    world.assert_equal()


def test_some_tables_at_once(world: MirrorWorld) -> None:
    """Those that need nothing but changes; of several problems the first table's is reported."""
    run, names = world.server.run_sql, ("a", "b", "c", "d")
    made = (f"CREATE TABLE {one} (id INT PRIMARY KEY, n INT); INSERT INTO {one} VALUES (1, 1)" for one in names)
    run("; ".join(made), "shop")
    world.publish()
    world.update()
    run("; ".join(f"INSERT INTO {one} VALUES (2, 2)" for one in names), "shop")
    # Rows go along only in the order of the stream.
    run("RENAME TABLE d TO e; INSERT INTO e VALUES (3, 3)", "shop")
    world.publish()
    together, applies = Barrier(3), (Applier, "apply")
    three = partial(interposed, lambda _: 3, (os, "cpu_count"))

    def applying(apply: Any, applier: Applier, *given: Any) -> Any:
        if applier.mirror.table.table in "abc":
            together.wait(300)
        return apply(applier, *given)

    def failing(_: Any, self: Applier, *given: Any) -> Mirror:
        table = self.mirror.table.table
        if table in "abc":
            together.wait(300)
        if table == "a":
            return self.mirror
        sleep(0 if table == "c" else 0.2)
        raise LakeUnavailableError(f"nothing answers for {self.mirror.table}")

    with interposed(failing, applies), three(), pytest.raises(LakeUnavailableError, match=r"shop\.b"):
        world.update()
    with interposed(applying, applies), three():
        report = world.update()
    found = {one.table.removeprefix("shop."): one for one in report.mirrors if one.table != "shop.t"}
    assert {name: one.commits for name, one in found.items()} == {"a": 1, "b": 1, "c": 1, "d": 2, "e": 2}
    world.assert_equal()
