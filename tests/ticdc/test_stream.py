"""The stream of a sink: what has landed, each line once, from any token on; what later landings bring, with `follow`."""

from __future__ import annotations

import tempfile
from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.errors import Usage
from strata_cdc.position.token import Order, merge
from strata_cdc.position.token_text import from_text, to_text
from strata_cdc.streams.stream import ChangeStream
from tests.model.sink import users_rows
from tests.model.through_folder import EXACT, longest_histories, write_table
from tests.streams.world import lines_of
from tests.ticdc import test_once
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.world import SinkWorld

if TYPE_CHECKING:
    from tests.model.jobs import Kind

ID = SinkColumn("id", pk=True, nullable=False)
NAME = SinkColumn("name", "VARCHAR", precision="20")
OLD_VALUES = FeedForm(old_value=True)


def named(key: int, **more: Any) -> dict[str, Any]:
    return {"id": key, "name": f"n{key}", **more}


def streamed(world: SinkWorld, start: str = "beginning", **options: Any) -> list[dict[str, Any]]:
    return list(lines_of(ChangeStream(world.source, start, **{"heartbeat_seconds": 3600.0, **options})))


def replayed(lines: list[dict[str, Any]], table: str) -> list[dict[str, Any]]:
    """The table that somebody has who applies the lines, with the columns of its last row."""
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line.get("tables") == [f"shop.{table}"] and line["ddl"].startswith("TRUNCATE"):
            rows.clear()
        elif line.get("table") == table:
            rows.pop((line["before"] or line["after"])["id"], None)
            if line["after"] is not None:
                rows[line["after"]["id"]] = line["after"]
    return [row for _, row in sorted(rows.items())]


def a_feed(world: SinkWorld) -> Feed:
    """Three commits, a DDL, a fourth commit; the last one of two rows."""
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    feed.write(
        table, [Row(START + 1, named(1)), Row(START + 2, named(1, name="x"), named(1)), Row(START + 3, named(3))]
    )
    feed.ddl(table, START + 10, 5, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", (ID, NAME, SinkColumn("n", default="7")))
    feed.write(table, [Row(START + 20, named(4, n=1)), Row(START + 20, named(5, n=2))])
    feed.checkpoint(START + 100)
    return feed


def test_tokens_continue_after_every_line(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    a_feed(world)
    world.run()
    whole = streamed(world)
    assert [line.get("ddl") or line.get("op") or "commit" for line in whole] == [
        *("insert", "commit", "update", "commit", "insert", "commit"),
        *("ALTER TABLE a ADD COLUMN n INT DEFAULT 7", "commit", "insert", "insert", "commit"),
    ]
    assert whole[6]["version"] > 0
    for at, line in enumerate(whole):
        assert streamed(world, line["token"]) == whole[at + 1 :]
        assert streamed(world, until=line["token"])[: at + 1] == whole[: at + 1]
        assert len(streamed(world, until=line["token"])) == 1 + next(
            number for number in range(at, len(whole)) if "commit" in whole[number]
        )
    tokens = [from_text(line["token"]) for line in whole]
    assert all(one.compare(two) is Order.BEFORE for one, two in zip(tokens, tokens[1:], strict=False))
    assert merge(tokens) == tokens[-1]
    assert all(to_text(token) == line["token"] for token, line in zip(tokens, whole, strict=True))


def test_positions_are_timestamps_and_times(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    a_feed(world)
    world.run()
    whole = streamed(world)

    def seqs(*given: str, **options: Any) -> list[int]:
        lines = streamed(world, *given, **options)
        return sorted({from_text(line["token"]).places[0].position.seq for line in lines if "commit" in line})

    assert seqs(str(START + 2)) == [3, 4, 5]
    assert seqs(str(START + 9)) == [4, 5]
    assert seqs(f"{START + 10}:rows") == [4, 5]
    assert seqs(str(START + 10)) == [5]
    assert seqs(str(START + 99)) == seqs("now") == seqs("landed") == []
    assert seqs("beginning", until=str(START + 10)) == [1, 2, 3, 4]
    assert seqs("beginning", until=f"{START + 10}:rows") == [1, 2, 3]
    assert seqs("2026-05-01") == [1, 2, 3, 4, 5]
    assert seqs("2027-05-01") == seqs("beginning", until="2026-05-01") == []
    columns = streamed(world, tables=["shop.a"], columns=["n"])
    assert [line["after"] for line in columns if "op" in line] == [{}, {}, {}, {"n": 1}, {"n": 2}]
    assert not streamed(world, tables=["shop.b"])
    with pytest.raises(Usage, match="a position of a server's binlog"):
        streamed(world, "binlog.000001:4")
    assert len(whole) == 11


@settings(max_examples=6)
@given(
    drawn=test_once.transactions,
    again=test_once.faults,
    cut=st.integers(0, 12),
    ddl_at=st.none() | st.integers(0, 11),
    form=st.sampled_from(["old values", "table ids"]),
    data=st.data(),
)
def test_random_changes_are_streamed_once(
    drawn: Any, again: Any, cut: int, ddl_at: int | None, form: str, data: st.DataObject
) -> None:
    """Whatever TiCDC wrote twice, in two landings; and the same when a reader comes again after any line."""
    with tempfile.TemporaryDirectory() as name:
        world = SinkWorld(Path(name))
        written = test_once.World(world.sink, test_once.FORMS[form], drawn, ddl_at)
        written.alter()
        begin = 0
        for end in (min(cut, len(drawn)), len(drawn)):
            written.write(begin, end)
            for first, length, kind in again:
                if first + length <= end:
                    written.write(first, first + length, kind)
            checkpoint = START + 10 * end + 3 if end < len(drawn) else START + 10_000
            written.feed.checkpoint(checkpoint)
            assert world.strata("land").returncode == 0
            begin = end
        whole = streamed(world)
        rows = (
            (f"{line['database']}.{line['table']}", line["op"], line["before"], line["after"])
            for line in whole
            if "op" in line
        )
        expected = Counter(row[1:] for row in written.expect(checkpoint).elements())
        assert Counter(as_written(row) for row in rows) == expected
        assert sum("ddl" in line for line in whole) == (ddl_at is not None)
        for at in data.draw(st.lists(st.integers(0, max(0, len(whole) - 1)), max_size=4)):
            if whole:
                assert streamed(world, whole[at]["token"]) == whole[at + 1 :]


def as_written(change: tuple[str, str, Any, Any]) -> tuple[Any, ...]:
    table, op, *images = change
    return table, op[0].upper(), *(image and tuple(sorted(decoded(image).items())) for image in images)


def decoded(image: dict[str, Any]) -> dict[str, Any]:
    """Bytes are base64 in lines."""
    return {key: b64decode(value) if key == "raw" and value is not None else value for key, value in image.items()}


@pytest.mark.parametrize("kind", EXACT)
def test_a_stream_replayed_is_the_tables_of_the_model(tmp_path: Path, kind: Kind) -> None:
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    histories = {f"t{number}": history for number, history in enumerate(longest_histories(kind, 8))}
    for name, history in histories.items():
        write_table(feed, name, history)
    lines, token = list[dict[str, Any]](), "beginning"
    for end in (2, 4, 7, 1_000_000):
        feed.checkpoint(START + end)
        world.run()
        lines += streamed(world, token)
        token = lines[-1]["token"] if lines else token
    assert lines == streamed(world)
    assert not [line for line in lines if "unreadable" in line]
    for name, history in histories.items():
        expected = [row for _, row in sorted(users_rows(history).items())]
        columns = set(expected[0]) if expected else set()
        assert [{key: row.get(key) for key in columns} for row in replayed(lines, name)] == expected
