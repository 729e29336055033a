"""A sink as a source of runs: what is in its folder is in the change tables, each row once, whatever TiCDC wrote twice
and wherever a run died."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.errors import ChecksFailedError
from strata_cdc.quality.proof.replay import replay_source
from strata_cdc.store.database import open_store
from tests.model.sink import users_rows
from tests.model.through_folder import EXACT, longest_histories, write_table
from tests.ticdc import test_once
from tests.ticdc.generator import START, Feed, Row, SinkColumn, SinkTable
from tests.ticdc.world import ID, NAME, OLD_VALUES, SinkWorld, named

if TYPE_CHECKING:
    from tests.model.jobs import Kind


def test_rows_are_published_in_several_runs(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    feed.write(table, [Row(START + 1, named(1)), Row(START + 2, named(2))])
    feed.checkpoint(START + 2)
    world.run()
    assert world.changes() == [("shop.a", "insert", None, named(1))]
    feed.write(table, [Row(START + 2, named(2)), Row(START + 3, None, named(1)), Row(START + 4, named(3))])
    feed.checkpoint(START + 10)
    world.run()
    assert [(op, after) for _, op, _, after in world.changes()] == [
        ("insert", named(1)),
        ("insert", named(2)),
        ("delete", None),
        ("insert", named(3)),
    ]
    assert not world.run().runs
    assert len(world.changes()) == 4


def test_a_sink_and_its_lake_may_be_on_an_object_store(tmp_path: Path, lake: str) -> None:
    world = SinkWorld(tmp_path, url=f"{lake}-sink", lake=lake)
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    for at in (1, 2, 3):
        feed.write(table, [Row(START + at, named(at))])
        feed.checkpoint(START + at + 1)
        world.copy()
        world.run()
    assert [after for *_, after in world.changes()] == [named(1), named(2), named(3)]


@settings(max_examples=6)
@given(
    drawn=test_once.transactions,
    again=test_once.faults,
    cuts=st.lists(st.integers(0, 12), min_size=2, max_size=2),
    ddl_at=st.none() | st.integers(0, 11),
    form=st.sampled_from(["old values", "table ids"]),
)
def test_random_changes_are_published_once(
    drawn: Any, again: Any, cuts: list[int], ddl_at: int | None, form: str
) -> None:
    """Restarts, tables that move, files without an index, late data; and a checkpoint that grows from run to run."""
    with tempfile.TemporaryDirectory() as name:
        world = SinkWorld(Path(name))
        written = test_once.World(world.sink, test_once.FORMS[form], drawn, ddl_at)
        written.alter()
        begin = 0
        for end in (*sorted(cuts), len(drawn)):
            checkpoint = written.write_until(begin, end, again)
            world.run()
            begin = end
            expected = Counter(row[1:] for row in written.expect(checkpoint).elements())
            assert Counter(map(as_written, world.changes())) == expected
            assert not world.run().runs


def as_written(change: tuple[str, str, Any, Any]) -> tuple[Any, ...]:
    table, op, before, after = change
    images = [image and {key: value for key, value in image.items() if key != "extra"} for image in (before, after)]
    extra = [image is not None and image.get("extra") for image in (before, after)]
    shown = [
        image and tuple(sorted({**image, **({"extra": more} if more is not None else {})}.items()))
        for image, more in zip(images, extra, strict=True)
    ]
    return table, op[0].upper(), *shown


@pytest.mark.parametrize("kind", EXACT)
def test_change_tables_replayed_are_the_tables_of_the_model(tmp_path: Path, kind: Kind) -> None:
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    histories = {f"t{number}": history for number, history in enumerate(longest_histories(kind, 8))}
    for name, history in histories.items():
        write_table(feed, name, history)
    for end in (2, 4, 7, 1_000_000):
        feed.checkpoint(START + end)
        world.run()
    states = replay_source(str(tmp_path / "lake"), "s", open_store(world.source.store_url))
    found = {str(name): state.rows.to_pylist() for name, state in states.items()}
    for name, history in histories.items():
        expected = [row for _, row in sorted(users_rows(history).items())]
        rows = sorted(found.get(f"shop.{name}", []), key=lambda row: row["id"])
        assert rows == expected


def test_rows_that_are_not_exact_are_set_aside(tmp_path: Path) -> None:
    """They are in quarantine with the reason; the others are published."""
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    table, other = feed.table("a", (ID, NAME)), feed.table("b", (ID, NAME))
    feed.write(table, [Row(START + 1, named(1))])
    feed.write(other, [Row(START + 1, named(1))])
    feed.checkpoint(START + 2)
    world.run()
    for _ in range(2):
        feed.write(table, [Row(START + 20, named(2))])
    feed.ddl(table, START + 10, 11, "TRUNCATE TABLE a")
    feed.write(table, [Row(START + 30, named(3))])
    feed.write(other, [Row(START + 30, named(2))])
    feed.checkpoint(START + 100)
    with pytest.raises(ChecksFailedError, match="written under the schema before truncate table") as caught:
        world.run()
    assert "1 row" in str(caught.value)
    assert [after["id"] for *_, after in world.changes("shop.b")] == [1, 2]
    assert [after["id"] for *_, after in world.changes("shop.a")] == [1, 3]
    said = world.strata("quarantine", "show").stdout
    assert "shop.a" in said
    assert "truncate table" in said


def test_rows_of_a_table_that_is_gone_are_held_with_the_reason_of_the_landing(tmp_path: Path) -> None:
    """Not that there is no such table: its rows were set aside, and why."""
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    table, other = feed.table("a", (ID, NAME)), feed.table("b", (ID, NAME))
    feed.write(table, [Row(START + 1, named(1)), Row(START + 20, named(2))])
    feed.write(other, [Row(START + 30, named(3))])
    feed.ddl(table, START + 10, 4, "DROP TABLE a")
    feed.checkpoint(START + 100)
    with pytest.raises(ChecksFailedError) as caught:
        world.run()
    said = f"{caught.value} {world.strata('status').stdout} {world.strata('quarantine', 'list').stdout}"
    assert "written under the schema before drop table" in said
    assert "no such table" not in said
    assert [after["id"] for *_, after in world.changes()] == [1, 3]


def test_a_table_without_a_key_stops_no_other(tmp_path: Path) -> None:
    """Also where its version is known, and where a window has it before and after the others; it gets a key later."""
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    other, keyless = feed.table("a", (ID, NAME)), SinkTable("shop", "k", (), START + 1)
    feed.ddl(keyless, START + 1, 3, "CREATE TABLE k (id INT, name VARCHAR(20))", (SinkColumn("id"), NAME))
    for _ in range(2):
        feed.write(keyless, [Row(START + at, named(at)) for at in range(2, 9)])
    feed.write(other, [Row(START + at, named(at)) for at in range(1, 12, 2)])
    feed.checkpoint(START + 20)
    with pytest.raises(ChecksFailedError, match=r"shop\.k"):
        world.run()
    assert 'exclude = ["shop.k"]' in " ".join(world.strata("quarantine", "show").stdout.split())
    assert [after["id"] for *_, after in world.changes()] == [1, 3, 5, 7, 9, 11]
    feed.ddl(keyless, START + 30, 7, "ALTER TABLE k ADD PRIMARY KEY (id)", (ID, NAME))
    feed.write(keyless, [Row(START + 40, named(40))])
    feed.write(other, [Row(START + 41, named(41))])
    feed.checkpoint(START + 50)
    with pytest.raises(ChecksFailedError, match=r"14 rows of shop\.k are not published"):
        world.run()
    assert [after["id"] for *_, after in world.changes("shop.a")] == [1, 3, 5, 7, 9, 11, 41]
    assert [after["id"] for *_, after in world.changes("shop.k")] == [40]
