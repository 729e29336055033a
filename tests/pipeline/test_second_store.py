"""Runs, mirrors and upkeep on a second implementation of S3: the rows of SELECT, once. `STRATA_S3=swift` runs any other
test of an object store there, unless it needs the proxy or what only moto shows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from strata_cdc.files.objects import create_object
from strata_cdc.files.storage import read_file
from strata_cdc.files.uploads import unfinished_uploads
from strata_cdc.mirrors.follow.upkeep import compact_mirrors, vacuum_mirrors
from strata_cdc.ops.doctor.check_lake import check_lake
from strata_cdc.ops.doctor.findings import FindingSeverity
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.plan.pending import RunRequest
from tests.mirrors.test_mirror_locks import LATE, dump
from tests.mirrors.world import MirrorWorld
from tests.pipeline.owed_world import MINUTE, TABLES, World
from tests.s3_server import BUCKET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture
def lake(swift_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in swift_environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid4().hex}"


def test_it_keeps_what_a_publisher_relies_on(lake: str) -> None:
    finding = check_lake(lake, "s")
    assert (finding.severity, finding.what) == (FindingSeverity.OK, f"{lake}: can be written, listed and read")
    assert create_object(f"{lake}/once", b"first")
    assert not create_object(f"{lake}/once", b"second")
    assert read_file(f"{lake}/once") == b"first"
    assert unfinished_uploads(lake) == []


@pytest.mark.soak
def test_mirrors_have_the_rows_of_the_server(server: MysqlServer, tmp_path: Path, lake: str) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30)); CREATE TABLE u (id INT PRIMARY KEY)", "shop")
    server.run_sql("INSERT INTO t VALUES (0, 'a'), (1, 'b')", "shop")
    world = MirrorWorld(server, tmp_path, lake_url=lake)
    dump(world)
    for number in range(3):
        server.run_sql(
            f"UPDATE t SET v = '{number}'; INSERT INTO u VALUES ({number}); ALTER TABLE t ADD c{number} INT FIRST",
            "shop",
        )
        world.publish()
        assert [mirror.error or mirror.behind for mirror in world.update().mirrors] == [None, None]
        locks = world.locks()
        compact_mirrors(lake, world.name, lambda _: True, locks=locks)
        vacuum_mirrors(lake, world.name, lambda _: True, locks=locks, now_micros=LATE, retain_hours=0)
        world.assert_equal()


def test_two_publishers_at_once_and_upkeep(tmp_path: Path, lake: str) -> None:
    world = World(tmp_path / "world", lake=lake)
    for number in range(3):
        for table in TABLES[: 2 + number % 2]:
            world.change(table, [number, number + 100])
        world.now += MINUTE
        world.land()
        report = world.plan(RunRequest())
        world.decode(report)
        world.check(report)
        with ThreadPoolExecutor(2) as pool:
            publish = partial(ingest.publish, world.name, report.run, settings=world.settings)
            for future in [pool.submit(publish) for _ in range(2)]:
                future.result()
        world.housekeep()
        world.merge()
    for table in TABLES:
        assert world.published(table) == world.committed[table], table
    world.assert_nothing_is_lost()
    world.assert_intervals_are_whole()
