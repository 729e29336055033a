"""What goes between a store of objects and a run, measured at the store: each byte once."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from strata_cdc.binlog.bytes.ranged_bytes import RangedBytes
from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import read_file, write_file
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.runs.run_folder import read_plan, run_folder
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
    decoded = sum(piece.size_bytes for piece in plan.slices)
    assert len(plan.slices) > 3
    assert len({piece.segment for piece in plan.slices}) == 1
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
        name = task.piece.segment.rpartition("/")[2]
        (tmp_path / name).write_bytes(read_file(task.piece.segment) or b"")
        here = type(task)(type(task.piece)(**{**_fields(task.piece), "segment": str(tmp_path / name)}), str(tmp_path))
        assert _names(decode_slice_to_files(here)) == _names(decode_slice_to_files(task))


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in type(value).__struct_fields__}  # type: ignore[attr-defined]


def _names(files: object) -> list[str]:
    return [file.file_name for file in files]  # type: ignore[attr-defined]


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
