"""A store that is restored beside a lake that has more: refused before anything is written, and at home again with the
newest copy."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import OlderStoreError
from strata_cdc.lake.known_lake import known_store
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.plan.pending import RunRequest
from tests.pipeline.owed_world import MINUTE, World

if TYPE_CHECKING:
    from pathlib import Path


def publish(world: World, rows: int) -> None:
    for table in "ab":
        world.change(table, list(range(rows)))
    world.now += 2 * MINUTE
    world.run(RunRequest())


def copied(world: World, name: str) -> Path:
    """A backup of the store, made while nothing writes."""
    world.engine.dispose()
    place = world.folder / name
    place.mkdir()
    for file in world.folder.glob("s.db*"):
        shutil.copy(file, place)
    return place


def restore(world: World, copy: Path) -> None:
    world.engine.dispose()
    for file in world.folder.glob("s.db*"):
        file.unlink()
    for file in copy.iterdir():
        shutil.copy(file, world.folder)


def test_it_is_refused_and_the_newest_is_not(tmp_path: Path) -> None:
    world = World(tmp_path / "world", lake=str(tmp_path / "lake"))
    known_store(world.source)
    publish(world, 2)
    older = copied(world, "older")
    publish(world, 3)
    newest = copied(world, "newest")
    before = [world.published(table) for table in "ab"]
    restore(world, older)
    with pytest.raises(OlderStoreError, match=r"the store is older than the lake .* knows intervals up to") as caught:
        known_store(world.source)
    assert "Restore the newest backup" in (caught.value.remedy or "")
    for step in (ingest.plan, ingest.track, ingest.land):
        with pytest.raises(OlderStoreError):
            step("s", *(None, None) * (step is ingest.plan), settings=world.settings)
    assert [world.published(table) for table in "ab"] == before
    restore(world, newest)
    known_store(world.source)
    publish(world, 1)
    world.assert_nothing_is_lost()
    world.now += 120 * MINUTE
    assert world.merge(), "intervals become one, which begins earlier"
    known_store(world.source)


def test_an_older_lake_beside_it_is_at_home(tmp_path: Path) -> None:
    """Both of the same time."""
    world = World(tmp_path / "world", lake=str(tmp_path / "lake"))
    known_store(world.source)
    publish(world, 2)
    older = copied(world, "older")
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    publish(world, 3)
    restore(world, older)
    shutil.rmtree(tmp_path / "lake")
    shutil.move(tmp_path / "copy", tmp_path / "lake")
    known_store(world.source)
    world.run(RunRequest())
    world.assert_nothing_is_lost()
