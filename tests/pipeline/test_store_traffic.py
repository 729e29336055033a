"""What goes between a store of objects and a run, measured at the store: each byte once."""

from __future__ import annotations

import json
import os
from random import Random
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from strata_cdc.binlog.bytes.ranged_bytes import RangedBytes
from strata_cdc.binlog.events.index import SUFFIX, SegmentIndex
from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import read_file, write_file
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.runs.run_folder import read_plan, run_folder
from strata_cdc.streams.stream import ChangeStream
from tests.pipeline.owed_world import MINUTE, World
from tests.s3_server import BUCKET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.store_proxy import StoreProxy

pytestmark = pytest.mark.slow

MOST = 1.1
"""Bytes at the store, by bytes that the run is about."""


def large_world(tmp_path: Path, transactions: int, **given: int) -> World:
    """A segment of transactions of 60 KB."""
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}", padding=60_000, **given)
    for number in range(transactions):
        world.now += MINUTE // 1000
        world.change("abc"[number % 3], [number, number + 1])
    world.now += 10 * MINUTE
    world.land()
    return world


def test_a_slice_reads_its_own_bytes(tmp_path: Path, store: StoreProxy) -> None:
    world = large_world(tmp_path, 300, slice_mb=4)
    report = world.plan(RunRequest())
    plan = read_plan(run_folder(world.source.lake, "s", report.run))
    decoded = sum(planned_slice.size_bytes for planned_slice in plan.slices)
    assert len(plan.slices) > 3
    assert len({planned_slice.segment for planned_slice in plan.slices}) == 1
    before = store.read(".binlog")
    world.decode(report)
    assert decoded <= store.read(".binlog") - before <= MOST * decoded
    world.check(report)
    world.publish(report)
    for table in "abc":
        assert world.published(table) == world.committed[table]


def test_what_is_published_is_written_once(tmp_path: Path, store: StoreProxy) -> None:
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}")
    numbers = Random(1)
    for number in range(6):
        world.change("abc"[number % 3], [numbers.getrandbits(31) for _ in range(60_000)])
    world.now += MINUTE
    world.land()
    before, read = store.written(), store.read("/changes/")
    report = world.plan(RunRequest())
    world.decode(report)
    decoded = store.read("/changes/")
    assert decoded == read, "decoding reads no file"
    world.check(report)
    world.publish(report)
    written = store.written() - before
    published = sum(seen.sent for seen in store.seen if seen.method == "PUT" and "/data/" in seen.path)
    assert published > 1_000_000
    assert published <= written <= MOST * published
    assert store.read("/changes/") - decoded < 0.3 * published, "the ends of files, and the log"
    sizes = {table: world.committed[table].total() for table in "abc"}
    assert {table: world.published(table).total() for table in "abc"} == sizes


def test_the_way_of_a_remote_slice_gives_what_a_local_one_gives(tmp_path: Path, store: StoreProxy) -> None:
    world = large_world(tmp_path, 100, slice_mb=1)
    report = world.plan(RunRequest())
    for task in planned_tasks(report.run_url):
        name = task.planned_slice.segment.rpartition("/")[2]
        (tmp_path / name).write_bytes(read_file(task.planned_slice.segment) or b"")
        here = type(task)(
            type(task.planned_slice)(**{**_fields(task.planned_slice), "segment": str(tmp_path / name)}), str(tmp_path)
        )
        assert _names(decode_slice_to_files(here)) == _names(decode_slice_to_files(task))


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).__struct_fields__}  # type: ignore[attr-defined]


def _names(files: object) -> list[str]:
    return [file.file_name for file in files]  # type: ignore[attr-defined]


def test_a_stream_reads_the_bytes_of_its_rows(tmp_path: Path, store: StoreProxy) -> None:
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}", padding=60_000)
    begin_prepared(world)
    for number in range(200):
        world.now += MINUTE // 1000
        world.change("a" if number < 100 else "b", [number, number + 1])
    commit_prepared(world)
    world.now += MINUTE
    world.land()
    stream = LandedStream.open(world.source.lake, "s")
    size = stream.segments[-1].summary.bytes
    for after in (0, 100, 150):
        before = store.read(".binlog")
        start = stream.executed_at(stream.last_seq - 201 + after) if after else "beginning"
        rows = [
            (line["table"], line["after"]["id"])
            for written in ChangeStream(world.source, start, until="landed").written()
            for line in map(json.loads, written.splitlines())
            if "after" in line
        ]
        assert len(rows) == 2 * (200 - after) + 1
        assert rows[-1] == ("c", 7), "it was prepared before them"
        needed = size * (200 - after) // 200 + world.padding
        read = store.read(".binlog") - before
        assert needed * 0.95 < read <= MOST * needed


def begin_prepared(world: World) -> None:
    world.change("a", [])
    assert world.binlog is not None
    world.gno += 1
    world.binlog.gtid(world.gno, micros=world.now)
    world.binlog.query("XA START X'61',X'',1")
    world.binlog.table_map(3, table="c")
    world.binlog.write([7], 3, padding=world.padding)
    world.binlog.xa_prepare(b"a")


def commit_prepared(world: World) -> None:
    assert world.binlog is not None
    world.gno += 1
    world.binlog.gtid(world.gno, micros=world.now)
    world.binlog.query("XA COMMIT X'61',X'',1")


def test_tracking_reads_the_bytes_of_statements(tmp_path: Path, store: StoreProxy) -> None:
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}", padding=60_000)
    for number in range(200):
        world.change("a", [number])
    world.now += MINUTE
    before = store.read(".binlog")
    world.land()
    assert store.read(".binlog") - before < 100_000


def test_a_small_index_is_read_by_one_request(tmp_path: Path, store: StoreProxy) -> None:
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}")
    world.change("a", [1, 2])
    world.land()
    segment = LandedStream.open(world.source.lake, "s").segments[-1]
    before = len(store.seen)
    index = SegmentIndex.open(segment.folder, f"{segment.name}{SUFFIX}")
    assert [batch.first_seq for batch in index.batches()] == [1]
    assert [seen.method for seen in store.seen[before:]] == ["HEAD", "GET"]


def test_a_replaced_object_is_an_error(store: StoreProxy) -> None:
    url = f"s3://{BUCKET}/{uuid4().hex}"
    size = 40 << 20
    write_file(url, bytes(size))
    with RangedBytes(url, [(0, size)]) as opened:
        opened.load(0, 100)
        write_file(url, b"\1" * size)
        with pytest.raises(LakeUnavailableError, match="replaced while it was read"):
            opened.load(0, size)


def test_bytes_that_nobody_named_come_when_they_are_asked_for(store: StoreProxy) -> None:
    url = f"s3://{BUCKET}/{uuid4().hex}"
    content = os.urandom(20 << 20)
    write_file(url, content)
    with RangedBytes(url, [(15 << 20, 16 << 20), (3 << 20, (3 << 20) + 10)]) as opened:
        seen = opened.map()
        for begin, end in ((3 << 20, (3 << 20) + 10), (10 << 20, (15 << 20) + 7), (0, 9000), (19 << 20, 21 << 20)):
            opened.load(begin, end)
            assert seen[begin:end].tobytes() == content[begin:end]
    assert store.read(url.rpartition("/")[2]) < 9 << 20
