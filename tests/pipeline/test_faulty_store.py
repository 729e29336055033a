"""A store that answers with errors, closes connections, cuts answers short, or does what was asked and does not say so:
the same rows, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from strata_cdc.pipeline.decode.decode_slice import (
    decode_slice_to_files,
    decode_table_by_table,
    planned_tasks,
    store_decoded,
    store_outcomes,
)
from strata_cdc.pipeline.plan.pending import RunRequest
from tests.pipeline.owed_world import MINUTE, TABLES, World
from tests.pipeline.tries import until_done
from tests.s3_server import BUCKET
from tests.store_proxy import FAULTS, StoreProxy

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.runs.specs import PlanReport

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path, store: StoreProxy) -> World:
    world = World(tmp_path / "world", lake=f"s3://{BUCKET}/{uuid4().hex}", slice_mb=1, padding=60_000)
    for number in range(60):
        world.change(TABLES[number % 3], [number, number + 1000])
    world.now += MINUTE
    world.land()
    return world


def decode(world: World, report: PlanReport) -> None:
    store_outcomes(report.run_url, [decode_table_by_table(task) for task in planned_tasks(report.run_url)])


def assert_published_once(world: World) -> None:
    for table in TABLES:
        assert world.published(table) == world.committed[table], table
    world.assert_nothing_is_lost()


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_come_once_whatever_the_store_answers(world: World, store: StoreProxy, fault: str) -> None:
    report = world.plan(RunRequest())
    assert report.slices > 3
    # deltalake does not ask again for a listing or a part of a log that was cut short: the next try of the step does.
    store.spoil((".*", "^(?!.*_delta_log)[^?]*$" if fault == "cut" else ".*", 9, fault))
    until_done(lambda: decode(world, report))
    until_done(lambda: world.check(report))
    until_done(lambda: world.publish(report))
    seen = store.faults
    store.spoil()
    assert seen[fault] > 3
    assert_published_once(world)


def test_tasks_that_run_twice_at_the_same_time(world: World, store: StoreProxy) -> None:
    """As by Spark's speculative execution: the files of either may be the ones that the driver learns of."""
    report = world.plan(RunRequest())
    tasks = planned_tasks(report.run_url)
    with ThreadPoolExecutor(4) as pool:
        first, second = ([pool.submit(decode_slice_to_files, task) for task in tasks] for _ in range(2))
        found = [[future.result() for future in futures] for futures in (first, second)]
    assert [[file.url for file in files] for files in found[0]] == [[file.url for file in files] for files in found[1]]
    store_decoded(
        report.run_url, [file for number, pair in enumerate(zip(*found, strict=True)) for file in pair[number % 2]]
    )
    world.check(report)
    world.publish(report)
    assert_published_once(world)


def test_a_late_copy_of_a_task_changes_nothing_that_is_published(world: World, store: StoreProxy) -> None:
    report = world.plan(RunRequest())
    tasks = planned_tasks(report.run_url)
    decode(world, report)
    world.check(report)
    world.publish(report)
    for task in tasks:
        decode_slice_to_files(task)
    assert_published_once(world)
