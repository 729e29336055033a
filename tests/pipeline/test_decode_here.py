"""Decoding in threads of the step's process: the same files whoever decodes them, bounded memory, and an end as soon
as the storage fails."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import Folder
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.decode.decode_here import BYTES_PER_BYTE, SLICE_BYTES, decode_here, threads_for
from strata_cdc.pipeline.decode.decode_slice import DecodeTask, decode_slice_to_files, planned_tasks
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.runs.run_folder import DECODED, STAGED, read_decoded
from strata_cdc.tracking.track_schema import track_landed
from tests.pipeline.owed_world import TABLES, Died, World, dying_before_write
from tests.pipeline.walks import counted_walks

if TYPE_CHECKING:
    from strata_cdc.runs.specs import PlanReport

LOCAL = EngineSettings(Engine.LOCAL)
SEGMENTS = 7
MICROS = 1_000_000


@pytest.fixture
def planned(tmp_path: Path) -> PlanReport:
    """A run of several segments, each a slice."""
    world = World(tmp_path)
    for number in range(SEGMENTS):
        for at, table in enumerate(TABLES):
            world.change(table, list(range(number * 10 + at + 1)))
        world.now += MICROS
        world.land()
    report = world.plan(RunRequest())
    assert report.slices >= SEGMENTS
    return report


def changes(run_url: str) -> Path:
    """The folder of the tables, where decoded files stay."""
    return Path(run_url).parents[2] / "changes"


def staged(run_url: str) -> dict[str, bytes]:
    assert not Path(run_url, STAGED).exists(), "nothing is put aside here"
    return {str(path): path.read_bytes() for path in changes(run_url).rglob("*") if path.is_file()}


def test_threads_write_what_one_slice_after_the_other_writes(planned: PlanReport) -> None:
    files = [file for task in planned_tasks(planned.run_url) for file in decode_slice_to_files(task)]
    expected = staged(planned.run_url)
    shutil.rmtree(changes(planned.run_url))
    seen: list[tuple[int, int]] = []
    report = decode_here(planned.run_url, LOCAL, progress=lambda *numbers: seen.append(numbers))
    assert report is not None
    assert staged(planned.run_url) == expected
    assert seen == [(done, planned.slices) for done in range(1, planned.slices + 1)]
    decoded = read_decoded(Folder.open(planned.run_url))
    assert decoded.files == tuple(sorted(files, key=lambda file: file.url))
    assert decoded.engine == report.engine
    assert (report.rows, report.failed_slices) == (planned.rows, 0)


def test_a_run_walks_over_a_file_to_find_what_is_new_to_land_it_and_to_decode_it(tmp_path: Path) -> None:
    """A server sends what is new, so that one walk less is made of its stream. Tracking and planning read the segment's
    index alone, and a statement where the index says that there is one. What comes after decoding reads no binlog."""
    world = World(tmp_path)
    for table in TABLES:
        world.change(table, list(range(5000)))
    world.now += MICROS
    landed = (2, 2, 2, 0)
    with counted_walks() as walks:
        world.land_only()
        stream = LandedStream.open(world.source.lake, world.name)
        size = sum(segment.summary.bytes for segment in stream.segments)
        assert walks.of(size) == pytest.approx(landed, abs=0.05)
        track_landed(world.source.lake, world.name, world.engine)
        report = world.plan(RunRequest())
        assert walks.of(size) == pytest.approx(landed, abs=0.05)
        assert decode_here(report.run_url, LOCAL) is not None
        assert walks.of(size) == pytest.approx((3, 3, 2, 1), abs=0.05)
        world.check(report)
        world.publish(report)
        assert walks.of(size) == pytest.approx((3, 3, 2, 1), abs=0.05)


def test_a_run_that_is_spark_s_is_left_to_it(planned: PlanReport) -> None:
    choices: list[Engine] = []
    settings = EngineSettings(Engine.SPARK)
    assert decode_here(planned.run_url, settings, lambda choice: choices.append(choice.engine)) is None
    assert choices == [Engine.SPARK]
    assert not staged(planned.run_url)


def test_storage_that_fails_ends_all_threads_and_the_run_is_not_decoded(planned: PlanReport) -> None:
    folder = Path(planned.run_url)
    changes(planned.run_url).write_text("where the folder of the tables is to be")
    with pytest.raises(LakeUnavailableError):
        decode_here(planned.run_url, LOCAL)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]
    assert not (folder / DECODED).exists()
    changes(planned.run_url).unlink()
    report = decode_here(planned.run_url, LOCAL)
    assert report is not None
    assert report.rows == planned.rows


def test_dead_before_any_write_it_is_done_again_with_the_same_files(planned: PlanReport) -> None:
    first = decode_here(planned.run_url, LOCAL)
    expected, folder = staged(planned.run_url), Path(planned.run_url)
    for last in count(1):
        shutil.rmtree(changes(planned.run_url))
        (folder / DECODED).unlink()
        with suppress(Died), dying_before_write(last):
            decode_here(planned.run_url, LOCAL)
            break
        assert not (folder / DECODED).exists(), f"dead before write {last}, it counts as decoded"
        assert decode_here(planned.run_url, LOCAL) == first
        assert staged(planned.run_url) == expected, last
    assert last > planned.slices
    assert staged(planned.run_url) == expected


def test_memory_and_processors_bound_the_threads(planned: PlanReport) -> None:
    (task, *_) = planned_tasks(planned.run_url)

    def of(*sizes: int) -> list[DecodeTask]:
        planned_slices = (replace(task.planned_slice, end=task.planned_slice.begin + size, more=()) for size in sizes)
        return [replace(task, planned_slice=planned_slice) for planned_slice in planned_slices]

    processors, large = os.cpu_count() or 1, 64 << 20
    need = SLICE_BYTES + BYTES_PER_BYTE * large
    plenty = 1000 * need
    assert threads_for(of(*[1] * 1000), plenty) == processors
    assert threads_for(of(1), plenty) == 1
    assert threads_for(of(*[large] * 1000), need - 1) == 1, "one thread always runs"
    assert threads_for(of(*[1] * 999, large), 2 * need) == min(2, processors), "the largest slice decides"
    assert threads_for(of(*[large] * 1000), 2 * need - 1) == 1
