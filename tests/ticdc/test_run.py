"""A sink as a source of runs: what is in its folder is in the change tables, each row once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.world import SinkWorld

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = (SinkColumn("id", pk=True, nullable=False), SinkColumn("name", "VARCHAR", precision="20"))


def test_rows_are_published_in_several_runs(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, FeedForm(old_value=True))
    table = feed.table("a", COLUMNS)
    one, two, three = ({"id": at, "name": f"n{at}"} for at in (1, 2, 3))
    feed.write(table, [Row(START + 1, one), Row(START + 2, two)])
    feed.checkpoint(START + 2)
    world.run()
    assert [after for _, _, _, after in world.changes()] == [one]
    feed.write(table, [Row(START + 2, two), Row(START + 3, None, one), Row(START + 4, three)])
    feed.checkpoint(START + 10)
    world.run()
    assert [(op, after) for _, op, _, after in world.changes()] == [
        ("insert", one),
        ("insert", two),
        ("delete", None),
        ("insert", three),
    ]
    world.run()
    assert len(world.changes()) == 4
