"""A store that lists late: objects that were written are not in the next listings, and deleted ones still are; a
request by name is answered as things are. The same rows, once."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.clock import now_micros
from strata_cdc.errors import LateListingError
from strata_cdc.files.storage import delete_folder, write_file
from strata_cdc.lake.rebuild import rebuild_lake
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.follow.upkeep import compact_mirrors, vacuum_mirrors
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.housekeep.unneeded_files import delete_unneeded
from strata_cdc.pipeline.plan.pending import RunRequest, WorkChoice
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.lost import open_changes
from strata_cdc.ticdc.folder import read_contents
from strata_cdc.ticdc.land_sink import land_sink
from tests.mirrors.test_mirror_locks import LATE, dump
from tests.mirrors.world import MirrorWorld
from tests.pipeline.owed_world import MINUTE, TABLES, World
from tests.pipeline.tries import until_done
from tests.s3_server import BUCKET
from tests.store_proxy import LATE_LISTING, UNLISTED, StoreProxy
from tests.ticdc import test_two_landings
from tests.ticdc.test_land import location, stream_of, written
from tests.ticdc.test_two_landings import SEGMENT_BYTES

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow, pytest.mark.soak]
CHANGING = "PUT|POST|DELETE"
HOUR = 60 * MINUTE
LANDING = """
import sys
from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.files.storage import delete_folder
from strata_cdc.lake.rebuild import rebuild_lake
from strata_cdc.landing.land_binlog import land_binlog
url, lake, source = sys.argv[1:]
input()
land_binlog(ServerAddress.from_url(url), lake=lake, source=source)
"""


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path, store: StoreProxy) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(30)); CREATE TABLE u (id INT PRIMARY KEY)", "shop")
    return MirrorWorld(server, tmp_path, lake_url=f"s3://{BUCKET}/{uuid4().hex}")


def list_late(store: StoreProxy, answers: int, paths: str = "") -> None:
    """From now on, so many listings do not know of a change."""
    store.spoil((CHANGING, paths, 1, f"{UNLISTED} {answers}"))


def land(world: MirrorWorld) -> None:
    land_binlog(world.source.address, lake=world.lake, source=world.name)


def assert_landed_once(world: MirrorWorld, store: StoreProxy) -> None:
    """Readers see all of the stream while the store lists late, and each transaction is there once."""
    late = LandedStream.open(world.lake, world.name)
    seen = late.last_seq, late.executed()
    store.spoil()
    stream = LandedStream.open(world.lake, world.name)
    assert seen == (stream.last_seq, stream.executed())
    records = [record for _, record in stream.records()]
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert len({str(record.gtid) for record in records}) == len(records) == stream.executed().count()
    with world.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@gtid_executed")
        assert str(stream.executed()) == cursor.fetchall()[0][0].replace("\n", "")


@pytest.mark.parametrize(
    ("paths", "answers"),
    [("/landing/", 1), ("/landing/", 2), ("/landing/", 20), (r"\.binlog$", 2), (r"\.index\.parquet$", 20)],
)
def test_landings(world: MirrorWorld, store: StoreProxy, paths: str, answers: int) -> None:
    list_late(store, answers, paths)
    for number in range(4):
        world.server.run_sql(f"INSERT INTO u VALUES ({number * 10}); INSERT INTO u VALUES ({number * 10 + 1})", "shop")
        if number % 2:
            world.server.run_sql(f"FLUSH BINARY LOGS; INSERT INTO t VALUES ({number}, NULL)", "shop")
        until_done(lambda: land(world))
    assert store.faults[LATE_LISTING]
    assert_landed_once(world, store)


def test_a_landing_that_cuts_elsewhere(world: MirrorWorld, store: StoreProxy) -> None:
    """Of several segments of a file none is listed, and a landing that began before them would make one of all."""
    land(world)
    list_late(store, 12, "/landing/")
    # Only after 16 MB a landing looks where it may cut.
    world.server.run_sql("CREATE TABLE b (v LONGBLOB)" + "; INSERT INTO b VALUES (REPEAT('x', 17000000))" * 3, "shop")
    land_binlog(world.source.address, lake=world.lake, source=world.name, segment_bytes=1)
    assert len(LandedStream.open(world.lake, world.name).segments) > 3
    world.server.run_sql("INSERT INTO u VALUES (10)", "shop")
    land(world)
    assert store.faults[LATE_LISTING]
    assert_landed_once(world, store)


@pytest.mark.parametrize(("paths", "answers"), [("", 1), ("", 2), ("/mirrors/", 10)])
def test_runs_with_mirrors(world: MirrorWorld, store: StoreProxy, paths: str, answers: int) -> None:
    list_late(store, answers, paths)
    for number in range(3):
        world.server.run_sql(
            f"INSERT INTO t VALUES ({number}, 'a'), ({number + 100}, 'b');"
            "UPDATE t SET v = CONCAT(v, 'x') WHERE id < 100;"
            f"DELETE FROM t WHERE id = {number + 99}; INSERT INTO u VALUES ({number})",
            "shop",
        )
        until_done(world.publish)
        until_done(world.update)
    assert store.faults[LATE_LISTING]
    world.assert_equal()


@pytest.mark.parametrize("written", ["recent.json", ".index.parquet", ".binlog"])
def test_a_landing_that_is_killed(world: MirrorWorld, store: StoreProxy, written: str) -> None:
    """Once it has written a file of its segment; then another landing continues."""
    list_late(store, 20, "/landing/")
    land(world)
    world.server.run_sql("INSERT INTO u VALUES (1)", "shop")
    command = [sys.executable, "-c", LANDING, world.server.url, world.lake, world.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as child:
        late = (CHANGING, "/landing/", 1, f"{UNLISTED} 20")
        store.spoil(("PUT", f"{re.escape(written)}$", 1, f"after {child.pid}"), late)
        child.communicate("begin\n")
        store.spoil(late)
    assert child.returncode == -signal.SIGKILL
    world.server.run_sql("FLUSH BINARY LOGS; INSERT INTO u VALUES (2)", "shop")
    until_done(lambda: land(world))
    assert store.faults[LATE_LISTING]
    assert_landed_once(world, store)


@pytest.mark.parametrize("dispatcher", ["", "3c1b"])
def test_data_files_of_a_sink(tmp_path: Path, store: StoreProxy, dispatcher: str) -> None:
    """An index names them, and they are there by their names."""
    written(tmp_path)
    root, url = tmp_path / "sink", f"s3://{BUCKET}/{uuid4().hex}"
    whole = read_contents(str(root)).sequences
    list_late(store, 20, r"/CDC.*\.csv$")
    for path in filter(Path.is_file, sorted(root.rglob("*"))):
        name, text = path.name, path.read_bytes()
        if dispatcher:
            name = name.replace("CDC", f"CDC_{dispatcher}" + "_" * (path.suffix == ".csv"))
            text = text.replace(b"CDC", f"CDC_{dispatcher}_".encode())
        write_file(f"{url}/{path.relative_to(root).with_name(name)}", text)
    late = read_contents(url)
    assert store.faults[LATE_LISTING]
    assert not late.holes
    assert [len(one.files) for one in late.sequences] == [len(one.files) for one in whole]


def test_landings_of_a_sink(tmp_path: Path, store: StoreProxy) -> None:
    """The sink's own folder is on this machine."""
    written(tmp_path)
    land_sink(location(tmp_path, SEGMENT_BYTES))
    expected, lake = stream_of(tmp_path), f"s3://{BUCKET}/{uuid4().hex}"
    list_late(store, 20, "/landing/")
    for _ in range(3):
        until_done(lambda: test_two_landings.land(tmp_path, lake))
        assert stream_of(tmp_path, lake) == expected
    assert store.faults[LATE_LISTING]
    store.spoil()
    assert stream_of(tmp_path, lake) == expected


def test_a_lost_table(world: MirrorWorld, store: StoreProxy) -> None:
    """Its deleted files are still listed; then its rows come again."""
    world.server.run_sql("INSERT INTO t VALUES (1, 'a'); INSERT INTO u VALUES (1)", "shop")
    world.publish()
    list_late(store, 8, "/changes/")
    delete_folder(f"{world.lake}/changes/{world.name}/shop/t")
    until_done(lambda: rebuild_lake(world.source, world.engine))
    for number in range(2, 4):
        world.server.run_sql(f"INSERT INTO t VALUES ({number}, 'a')", "shop")
        until_done(partial(world.publish, choice=WorkChoice.PENDING))
        until_done(world.update)
    assert store.faults[LATE_LISTING]
    world.assert_equal()


def test_segments_that_were_deleted(world: MirrorWorld, store: StoreProxy) -> None:
    for number in range(4):
        world.server.run_sql(f"INSERT INTO u VALUES ({number})", "shop")
        land(world)
    stream = LandedStream.open(world.lake, world.name)
    first, second = stream.segments[:2]
    list_late(store, 3, "/landing/")
    for name in (str(first.name), f"{first.name}{SUFFIX}"):
        first.folder.delete(name)
    now = LandedStream.open(world.lake, world.name)
    now.require_whole()
    assert now.first_seq == second.summary.first_seq
    assert [record.seq for _, record in now.records()] == list(range(now.first_seq, stream.last_seq + 1))
    assert store.faults[LATE_LISTING]


def test_upkeep_of_mirrors(world: MirrorWorld, store: StoreProxy) -> None:
    """After a dump; once everything that is older than the newest state is deleted, the log is still listed as it
    was."""
    world.server.run_sql("INSERT INTO t VALUES (0, 'a'), (1, 'b')", "shop")
    list_late(store, 3, "/mirrors/|/dumps/")
    dump(world)
    for number in range(3):
        world.server.run_sql(f"UPDATE t SET v = '{number}'; INSERT INTO u VALUES ({number})", "shop")
        until_done(world.publish)
        until_done(world.update)
        locks = world.locks()
        # A mirror that is not listed yet is kept up later.
        kept = compact_mirrors(world.lake, world.name, lambda _: True, locks=locks)
        kept += vacuum_mirrors(world.lake, world.name, lambda _: True, locks=locks, now_micros=LATE, retain_hours=0)
        assert not [one.left for one in kept if one.left]
        world.assert_equal()
    assert store.faults[LATE_LISTING]


def test_two_updates_at_once(world: MirrorWorld, store: StoreProxy) -> None:
    list_late(store, 3, "/mirrors/")
    for number in range(2):
        world.server.run_sql(f"INSERT INTO t VALUES ({number}, 'a'); INSERT INTO u VALUES ({number})", "shop")
        world.publish()
        with ThreadPoolExecutor(2) as pool:
            for future in [pool.submit(until_done, world.update) for _ in range(2)]:
                future.result()
    assert store.faults[LATE_LISTING]
    store.spoil()
    world.assert_equal()


@pytest.mark.parametrize("paths", ["", "/_delta_log/"])
def test_runs_and_upkeep(tmp_path: Path, store: StoreProxy, paths: str) -> None:
    """With merged intervals and housekeeping, and each publication by two at once."""
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}")
    list_late(store, 2, paths)
    for number in range(4):
        for table in TABLES[: 2 + number % 2]:
            world.change(table, [number, number + 100])
        world.now += MINUTE
        until_done(world.land)
        report = world.plan(RunRequest())
        world.decode(report)
        world.check(report)
        settings = world.settings
        with ThreadPoolExecutor(2) as pool:
            publish = partial(until_done, partial(ingest.publish, world.name, report.run, settings=settings))
            for future in [pool.submit(publish) for _ in range(2)]:
                future.result()
        until_done(world.housekeep)
        until_done(world.merge)
    assert store.faults[LATE_LISTING]
    store.spoil()
    for table in TABLES:
        assert world.published(table) == world.committed[table], table
    world.assert_nothing_is_lost()
    world.assert_intervals_are_whole()


def test_what_a_vacuum_keeps(tmp_path: Path, store: StoreProxy) -> None:
    """Files that only a commit names which is not listed are no waste."""
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}")
    world.change("a", [1])
    world.now += MINUTE
    world.run(RunRequest())
    list_late(store, 1000, "/_delta_log/")
    world.change("a", [2])
    world.now += MINUTE
    world.run(RunRequest())
    name, later = TableName("d", "a"), now_micros() + 1000 * HOUR
    with pytest.raises(LateListingError, match="has a version 2, and the store does not list it"):
        delete_unneeded(world.source, name, now=later)
    with pytest.raises(LateListingError, match="has a version 2"):
        open_changes(world.lake, world.name, name, 2)
    store.spoil()
    world.run(RunRequest())
    delete_unneeded(world.source, name, now=later)
    assert world.published("a") == world.committed["a"]
