"""The stream of a sink: what has landed, each line once, from any token on; with `follow`, what lands later, too."""

from __future__ import annotations

import tempfile
from base64 import b64decode
from collections import Counter
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.errors import BinlogPurgedError, SourceDivergedError, StreamHoleError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.commit_ts import CommitStep, CommitTs
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Order, Token, merge
from strata_cdc.position.token_text import from_text, to_text
from strata_cdc.schema.model.definition import TableName
from strata_cdc.streams.events import RowChange, UnreadableChange
from strata_cdc.streams.stream import ChangeStream
from strata_cdc.tables.read import read_changes
from strata_cdc.ticdc.landed_rows import SegmentRows
from tests.model.sink import users_rows
from tests.model.through_folder import EXACT, longest_histories, write_table
from tests.streams.world import lines_of
from tests.ticdc import test_once
from tests.ticdc.generator import START, Feed, Row, SinkColumn
from tests.ticdc.world import ID, NAME, OLD_VALUES, SinkWorld, named

if TYPE_CHECKING:
    from tests.model.jobs import Kind


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
    assert all(one.compare(two) is Order.BEFORE for one, two in pairwise(tokens))
    assert merge(tokens) == tokens[-1]
    assert all(to_text(token) == line["token"] for token, line in zip(tokens, whole, strict=True))


def test_positions_are_timestamps_and_times(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    a_feed(world)
    world.run()
    whole = streamed(world)

    def seqs(*given: str, **options: Any) -> list[int]:
        lines = streamed(world, *given, **options)
        return sorted({from_text(line["token"]).positions[0].position.seq for line in lines if "commit" in line})

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
            checkpoint = written.write_until(begin, end, again)
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


def set_aside(world: SinkWorld) -> list[dict[str, Any]]:
    """Lands a row of before a TRUNCATE that is committed after it, and that TiCDC wrote twice."""
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    feed.write(table, [Row(START + 1, named(1)), Row(START + 20, named(2))])
    feed.write(table, [Row(START + 20, named(2))])
    feed.ddl(table, START + 10, 11, "TRUNCATE TABLE a")
    feed.write(table, [Row(START + 30, named(3))])
    feed.checkpoint(START + 100)
    assert world.strata("land").returncode == 0
    return streamed(world)


def test_rows_that_are_set_aside_have_a_line_with_the_reason(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    whole = set_aside(world)
    assert [line["after"]["id"] for line in whole if "op" in line] == [1, 3]
    (line,) = [line for line in whole if "unreadable" in line]
    found = line["unreadable"]
    assert found["values"] == []
    assert found["error"] == "SchemaMismatchError"
    assert "truncate table" in found["reason"]
    assert (found["op"], found["before"], found["after"]) == ("insert", None, named(2))
    assert (line["seq"], line["table"]) == (3, "a")
    for at, one in enumerate(whole):
        assert streamed(world, one["token"]) == whole[at + 1 :]
    # No choice of columns makes it a row like any other.
    chosen = [one for one in streamed(world, columns=["id"]) if "unreadable" in one]
    assert [one["unreadable"]["after"] for one in chosen] == [{"id": 2}]
    events = [event for event in ChangeStream(world.source, "beginning") if isinstance(event, UnreadableChange)]
    assert [(event.found.error, event.token) for event in events] == [("SchemaMismatchError", line["token"])]
    done = world.strata("stream", "--from", "beginning")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == len(whole)
    assert "1 row could not be read" in done.stderr


def test_values_that_the_sink_may_lack_end_the_stream_before_them(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, SinkColumn("n", "BIGINT")))
    feed.write(table, [Row(START + 1, {"id": 1, "n": 5})])
    query = "ALTER TABLE a MODIFY n VARCHAR(9)"
    feed.ddl(table, START + 10, 12, query, (ID, SinkColumn("n", "VARCHAR", precision="9")))
    feed.write(table, [Row(START + 20, {"id": 2, "n": "x"})])
    feed.checkpoint(START + 100)
    assert world.strata("land").returncode == 0
    got = list[dict[str, Any]]()
    with pytest.raises(StreamHoleError, match="values of n") as caught:
        got.extend(lines_of(ChangeStream(world.source, "beginning")))
    skip = str(caught.value.remedy).rpartition("--from ")[2].rstrip("`.")
    assert [line["after"] for line in streamed(world, skip) if "op" in line] == [{"id": 2, "n": "x"}]
    # Of another table nothing may be missing.
    assert streamed(world, tables=["shop.b"]) == []


def test_a_stream_follows_later_landings(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    source = world.source
    stream = ChangeStream(source, "beginning", follow=True, until=str(START + 5), heartbeat_seconds=0.2)
    got = list[dict[str, Any]]()
    reader = Thread(target=lambda: got.extend(lines_of(stream)))
    reader.start()
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    for at in range(1, 4):
        feed.write(table, [Row(START + at, named(at))])
        feed.checkpoint(START + at + 1)
        assert world.strata("land").returncode == 0
    assert reader.is_alive()
    feed.ddl(table, START + 4, 5, "ALTER TABLE a ADD COLUMN n INT", (ID, NAME, SinkColumn("n")))
    feed.write(table, [Row(START + 7, named(7, n=1))])
    feed.checkpoint(START + 100)
    world.run()
    reader.join(60)
    assert not reader.is_alive()
    heartbeats = [line for line in got if "heartbeat" in line]
    lines = [line for line in got if "heartbeat" not in line]
    assert heartbeats
    # The ids of versions are those of the store once it has them.
    assert without_version(lines) == without_version(streamed(world, until=str(START + 5)))
    assert [line["after"]["id"] for line in lines if "op" in line] == [1, 2, 3]
    for line in heartbeats:
        rest = [
            one
            for one in without_version(lines)
            if from_text(line["token"]).compare(from_text(one["token"])) is Order.BEFORE
        ]
        assert without_version(streamed(world, line["token"], until=str(START + 5))) == rest


def test_a_position_that_has_not_landed_yet_is_kept(tmp_path: Path) -> None:
    """What lands later up to it does not come; and the end is known by the checkpoint, without a commit after it."""
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    feed.write(table, [Row(START + 1, named(1))])
    feed.checkpoint(START + 10)
    assert world.strata("land").returncode == 0
    assert streamed(world, str(START + 50)) == []
    got = list[dict[str, Any]]()
    options: dict[str, Any] = {"follow": True, "until": str(START + 90), "heartbeat_seconds": 3600}
    reader = Thread(target=lambda: got.extend(streamed(world, str(START + 50), **options)))
    reader.start()
    feed.write(table, [Row(START + at, named(at)) for at in (20, 49, 50, 51, 90)])
    feed.checkpoint(START + 90)
    assert world.strata("land").returncode == 0
    assert reader.is_alive()
    feed.checkpoint(START + 91)
    assert world.strata("land").returncode == 0
    reader.join(60)
    assert not reader.is_alive()
    assert [line["after"]["id"] for line in got if "op" in line] == [51, 90]


def test_rows_have_the_versions_of_their_change_table(tmp_path: Path) -> None:
    """Rows before and after two DDL that cancel each other are written together, and have two versions."""
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    feed.write(table, [Row(START + 1, named(1))])
    feed.ddl(table, START + 10, 5, "ALTER TABLE a ADD COLUMN n INT", (ID, NAME, SinkColumn("n")))
    feed.ddl(table, START + 20, 6, "ALTER TABLE a DROP COLUMN n", (ID, NAME))
    feed.write(table, [Row(START + 30, named(2))])
    feed.checkpoint(START + 100)
    world.run()
    (segment,) = LandedStream.open(world.settings.lake, "s").segments
    assert len(SegmentRows(segment).contents.parts) == 1
    events = list(ChangeStream(world.source, "beginning", heartbeat_seconds=3600))
    rows = [event for event in events if isinstance(event, RowChange)]
    published = read_changes(world.settings.lake, "s", TableName("shop", "a")).to_pylist()
    assert [row.schema_version for row in rows] == [row["_schema_version"] for row in published]
    assert len({row.schema_version for row in rows}) == 2


def without_version(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name != "version"} for line in lines]


def test_a_stream_that_follows_ends_when_it_is_closed(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    stream = ChangeStream(world.source, "now", follow=True, heartbeat_seconds=0.1)
    lines = lines_of(stream)
    assert "heartbeat" in next(lines)
    stream.close()
    assert [line for line in lines if "heartbeat" not in line] == []


def test_tokens_of_other_streams_are_refused(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    a_feed(world)
    world.run()
    whole = streamed(world)
    other = SinkWorld(tmp_path / "other")
    other.folder.mkdir()
    feed = Feed(other.sink, OLD_VALUES)
    feed.write(feed.table("a", (ID, NAME)), [Row(START + at, named(at)) for at in (1, 4, 5)])
    feed.checkpoint(START + 100)
    other.run()
    for line in whole[2:6]:
        with pytest.raises(SourceDivergedError, match=r"commit \d is|the next commit is"):
            streamed(other, line["token"])
    for line in whole[-3:]:
        with pytest.raises(SourceDivergedError, match="3 commits have landed: it is of another changefeed"):
            streamed(other, line["token"])
    mine, theirs = (from_text(lines[3]["token"]) for lines in (whole, streamed(other)))
    assert mine.compare(theirs) is Order.BEFORE or mine.compare(theirs) is Order.UNKNOWN
    server = to_text(Token.of("s", GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9")))
    with pytest.raises(SourceDivergedError, match="is one of a server's binlog"):
        streamed(world, server)
    with pytest.raises(Usage, match="is of t, not of s"):
        streamed(world, to_text(Token.of("t", CommitTs(CommitStep(1), 1))))


def test_what_was_deleted_by_age_is_refused(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    table = feed.table("a", (ID, NAME))
    for at in (1, 2, 3):
        feed.write(table, [Row(START + at, named(at))])
        feed.checkpoint(START + at + 1)
        world.run()
    whole = streamed(world)
    landing = tmp_path / "lake" / "landing" / "s"
    for path in landing.glob("0000000001-*"):
        path.unlink()
    assert streamed(world) == whole[2:]
    assert streamed(world, whole[1]["token"]) == whole[2:]
    assert streamed(world, str(START + 1)) == whole[2:]
    for start in (whole[0]["token"], str(START)):
        with pytest.raises(BinlogPurgedError, match="deleted from the lake by age") as caught:
            streamed(world, start)
        assert streamed(world, str(caught.value.earliest)) == whole[2:]


def test_nothing_has_landed(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="nothing of the source has landed") as caught:
        streamed(SinkWorld(tmp_path))
    assert "strata land --source s" in str(caught.value.remedy)


def test_python_has_values_and_definitions(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    a_feed(world)
    world.run()
    stream = ChangeStream(world.source, "beginning", heartbeat_seconds=3600)
    rows = [event for event in stream if isinstance(event, RowChange)]
    assert [row.after for row in rows][-1] == named(5, n=2)
    assert len({row.schema_version for row in rows}) == 2
    assert min(row.schema_version for row in rows) > 0
    assert stream.position() is None
    name = TableName("shop", "a")
    assert [column.name for column in stream.definition(name, 3).columns] == ["id", "name"]
    assert [column.name for column in stream.definition(name).columns] == ["id", "name", "n"]


def test_rows_that_were_written_apart_are_in_order(tmp_path: Path) -> None:
    """A segment holds back 16 MB of rows to write those of one table together."""
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    large = SinkColumn("name", "MEDIUMTEXT")
    for at, name in enumerate("ab"):
        table = feed.table(name, (ID, large))
        for begin in range(0, 60, 20):
            rows = [
                Row(START + 2 * key + at + 1, named(key, name=str(key) * 300_000)) for key in range(begin, begin + 20)
            ]
            feed.write(table, rows)
    feed.ddl(table, START + 500, 5, "ALTER TABLE b ADD COLUMN n INT", (ID, large, SinkColumn("n")))
    feed.checkpoint(START + 1000)
    assert world.strata("land").returncode == 0
    (segment,) = LandedStream.open(world.settings.lake, "s").segments
    parts = SegmentRows(segment).contents.parts
    assert len(parts) > 2
    whole = streamed(world, columns=["id"])
    assert [(line["table"], line["after"]["id"]) for line in whole if "op" in line] == [
        (name, key) for key in range(60) for name in "ab"
    ]
    assert [line["ddl"] for line in whole if "ddl" in line] == ["ALTER TABLE b ADD COLUMN n INT"]
    edges = {part.last_seq for part in parts} | {part.first_seq for part in parts}
    for at, line in enumerate(whole):
        if from_text(line["token"]).positions[0].position.seq in edges:
            assert streamed(world, line["token"], columns=["id"]) == whole[at + 1 :]
