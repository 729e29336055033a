"""Tables that lack commits are looked for after each run; of a source with many tables once an hour."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from strata_cdc.lake.lost_tables import SEEN, lost_tables, lost_tables_if_due
from strata_cdc.pipeline.plan.pending import RunRequest
from tests.pipeline.owed_world import MINUTE, World

if TYPE_CHECKING:
    from pathlib import Path


def test_many_tables_are_looked_at_once_an_hour_and_few_each_time(tmp_path: Path) -> None:
    world = World(tmp_path / "world", lake=str(tmp_path / "lake"))
    for table in "ab":
        world.change(table, [1])
    world.now += MINUTE
    world.run(RunRequest())
    source, engine, seen = world.source, world.engine, tmp_path / "lake" / "landing" / "s" / SEEN

    def lost(most: int) -> list[str | None]:
        return [facts.table for facts in lost_tables_if_due(source, engine, most=most)]

    assert lost(2) == []
    assert not seen.exists(), "they are few"
    assert lost(1) == []
    assert seen.exists()
    shutil.rmtree(tmp_path / "lake" / "changes" / "s" / "d" / "a")
    assert lost(1) == []
    assert [facts.table for facts in lost_tables(source, engine)] == ["d.a"], "status and doctor always look"
    stored = json.loads(seen.read_text())
    seen.write_text(json.dumps({**stored, "at": stored["at"] - 3_600_000_000}))
    assert lost(1) == ["d.a"]
    assert lost(1) == ["d.a"], "until it is there again"
    seen.write_text("{")
    assert lost(1) == ["d.a"]
