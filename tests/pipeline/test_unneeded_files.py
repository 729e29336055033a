"""Files that no commit names are deleted when nobody can need them any more, and no others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.files.storage import list_files
from strata_cdc.pipeline.housekeep.unneeded_files import HOURS, delete_unneeded, unneeded_steps
from strata_cdc.pipeline.ingest import now_micros
from strata_cdc.pipeline.plan.pending import RunRequest, WorkChoice
from strata_cdc.runs.run_folder import read_decoded, run_folder
from strata_cdc.schema.model.definition import TableName
from tests.pipeline.owed_world import MINUTE, TABLES, World

if TYPE_CHECKING:
    from strata_cdc.runs.specs import PlanReport

HOUR = 3_600_000_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def decoded(world: World, value: int) -> PlanReport:
    for table in TABLES:
        world.change(table, [value])
    world.now += MINUTE
    world.land()
    report = world.plan(RunRequest(end=world.now, choice=WorkChoice.PENDING))
    world.decode(report)
    return report


def age(world: World, hours: int = HOURS + 1) -> None:
    """As if all data files had been written so long ago."""
    for url in list_files(f"{world.source.lake}/changes"):
        if "/data/" in url:
            os.utime(url, (moment := now_micros() / 1e6 - hours * 3600, moment))


def deleted(world: World) -> int:
    return sum(delete_unneeded(world.source, TableName("d", table), now=now_micros()) for table in TABLES)


def data(world: World) -> set[str]:
    return {url for url in list_files(f"{world.source.lake}/changes") if "/data/" in url}


def test_what_a_killed_run_left_goes_with_its_folder(world: World) -> None:
    report = decoded(world, 1)
    age(world)
    assert deleted(world) == 0, "its run may still be published"
    world.check(report)
    world.publish(report)
    assert world.published("a") == world.committed["a"]
    world.housekeep()
    killed = decoded(world, 2)
    left = {file.url for file in read_decoded(run_folder(world.source.lake, "s", killed.run)).files}
    stray = Path(next(iter(left))).with_name("of-an-older-version.parquet")
    stray.write_bytes(b"x")
    age(world)
    folder = Path(run_folder(world.source.lake, "s", killed.run).url)
    folder.rename(world.folder / "gone")
    assert deleted(world) == len(left) + 1
    assert not left & data(world)
    (world.folder / "gone").rename(folder)
    world.decode(killed)
    world.check(killed)
    world.publish(killed)
    for table in TABLES:
        assert world.published(table) == world.committed[table]


def test_what_is_young_stays_and_so_does_what_was_replaced_lately(world: World) -> None:
    report = decoded(world, 1)
    world.check(report)
    world.publish(report)
    before = data(world)
    world.housekeep()
    Path(next(iter(before))).with_name("a-stray.parquet").write_bytes(b"x")
    age(world, HOURS - 1)
    assert deleted(world) == 0
    age(world)
    assert deleted(world) == 1, "the stray"
    assert data(world) == before


def test_what_others_have_written_there_stays(world: World) -> None:
    report = decoded(world, 1)
    world.check(report)
    world.publish(report)
    world.housekeep()
    foreign = [Path(world.source.lake, "changes/s/d/a", name) for name in ("notes.txt", "data/notes.txt")]
    for path in foreign:
        path.write_text("x")
        os.utime(path, (0, 0))
    assert deleted(world) == 0
    assert all(path.exists() for path in foreign)


def test_each_table_has_its_hour(world: World) -> None:
    report = decoded(world, 1)
    age(world)
    Path(run_folder(world.source.lake, "s", report.run).url).rename(world.folder / "gone")
    now = now_micros()
    lines = [step.line for hour in range(24) for step in unneeded_steps(world.source, now=now + hour * HOUR)]
    assert sorted(lines) == [f"d.{table}: deleted 1 file that no commit names" for table in TABLES]
    assert not data(world)
