"""Landing a sink: its files may be gone when rows are needed again, so what has landed is whole, in order, and the same
wherever a landing died."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.binlog.bytes import segment as segments
from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.errors import (
    BadData,
    ChecksFailedError,
    DamagedFileError,
    DamagedIndexError,
    StrataError,
    StreamHoleError,
    Usage,
)
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.repair import LookLimits
from strata_cdc.ticdc import segment_writer
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.land_sink import SinkLocation, land_sink, landing_state
from strata_cdc.ticdc.landed_rows import SegmentRows
from tests.interposed import interposed
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.reading import SMALL
from tests.ticdc.world import SinkWorld

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ID = SinkColumn("id", pk=True, nullable=False)
NAME = SinkColumn("name", "VARCHAR", precision="40")
SECOND = 1000 << 18


class Died(BaseException):
    """The process is gone before one of its writes."""


def location(folder: Path, segment_bytes: int = 1, newest: int = 100) -> SinkLocation:
    """Each window is a segment, and a few rows are several windows."""
    look = LookLimits(newest=newest)
    return SinkLocation(str(folder / "sink"), str(folder / "lake"), "s", CsvSettings(), segment_bytes, SMALL, look)


def written(folder: Path) -> tuple[Feed, Any]:
    feed = Feed(folder / "sink", FeedForm(old_value=True))
    table = feed.table("a", (ID, NAME))
    for begin in range(1, 41, 10):
        feed.write(table, [Row(START + at * SECOND, {"id": at, "name": "x" * 30}) for at in range(begin, begin + 10)])
    feed.ddl(table, START + 41 * SECOND, 5, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", (ID, NAME, SinkColumn("n")))
    feed.write(table, [Row(START + at * SECOND, {"id": at, "name": "y", "n": 1}) for at in range(42, 60)])
    feed.checkpoint(START + 50 * SECOND)
    return feed, table


def landed(folder: Path) -> dict[str, bytes]:
    names = sorted((folder / "lake" / "landing" / "s").glob("0*"))
    return {path.name: path.read_bytes().replace(str(folder).encode(), b"") for path in names}


def stream_of(folder: Path, lake: str = "") -> list[Any]:
    """Each commit with its time and tables; each change of a schema; each row with its place and key."""
    found: list[Any] = []
    for segment in LandedStream.open(lake or str(folder / "lake"), "s").segments:
        rows = SegmentRows(segment)
        found += [(one.seq, one.committed_at, one.tables) for one in segment.index.records()]
        found += [(change.seq, change.number, change.tables) for change in rows.contents.schema]
        for part in rows.contents.parts:
            for batch in rows.batches(part):
                locations = (ChangeColumns(batch).fact(name).to_pylist() for name in ("_seq", "_row"))
                found += zip(*locations, batch.column(0).to_pylist(), strict=True)
    return sorted(found, key=lambda one: (one[0], str(one)))


def ids(folder: Path) -> list[int]:
    return [one[2] for one in stream_of(folder) if isinstance(one[2], int)]


@pytest.mark.parametrize("newest", [2, pytest.param(100, marks=pytest.mark.soak)])
def test_a_landing_that_dies_before_any_write_is_continued(tmp_path: Path, newest: int) -> None:
    whole = tmp_path / "whole"
    written(whole)
    land_sink(location(whole))
    expected = landed(whole)
    assert len(expected) >= 6
    assert ids(whole) == [*range(1, 41), *range(42, 50)]
    for dies_at in range(len(expected)):
        folder = tmp_path / f"dies{dies_at}"
        # The same path, which the segments have.
        shutil.copytree(whole / "sink", folder / "sink")
        left = iter(range(dies_at))

        def dying(write: Callable[..., Any], *given: Any, left: Any = left) -> Any:
            if next(left, None) is None:
                raise Died
            return write(*given)

        with (
            interposed(dying, (segments, "publish_file"), (segment_writer, "publish_file")),
            pytest.raises(Died),
        ):
            land_sink(location(folder, newest=newest))
        land_sink(location(folder, newest=newest))
        # Where a segment ends may differ, since the second landing begins elsewhere in the files; the stream does not.
        assert stream_of(folder) == stream_of(whole)
        state = landing_state(LandedStream.open(str(folder / "lake"), "s"))
        assert state.end_ts == START + 50 * SECOND
        continued = landed(folder)
        land_sink(location(folder, newest=newest))
        assert landed(folder) == continued


def test_what_has_landed_needs_no_file_of_the_sink(tmp_path: Path) -> None:
    """Weeks later the rows are published from the segments; and files that were read may expire."""
    world = SinkWorld(tmp_path)
    feed, table = written(tmp_path)
    assert world.strata("land").returncode == 0
    hidden = [path for path in (tmp_path / "sink").rglob("CDC*.csv") if "y" not in path.read_text()]
    for path in hidden:
        path.unlink()
    feed.write(table, [Row(START + 60 * SECOND, {"id": 60, "name": "z", "n": 1})])
    feed.checkpoint(START + 100 * SECOND)
    world.run()
    assert [after["id"] for *_, after in world.changes()] == [*range(1, 41), *range(42, 61)]


def test_files_that_expired_before_they_were_read_are_a_hole_by_name(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    written(tmp_path)
    first = min((tmp_path / "sink").rglob("CDC*.csv"))
    first.unlink()
    with pytest.raises(StreamHoleError, match=r"1 data file missing, numbers 1 to 1") as caught:
        world.run()
    assert "shop/a" in str(caught.value)
    assert not landed(tmp_path)


def test_rows_before_a_broken_line_land(tmp_path: Path) -> None:
    feed, table = written(tmp_path)
    path = feed.write(table, [Row(START + 70 * SECOND, {"id": 70, "name": "z", "n": 1})])
    good = path.read_bytes()
    path.write_bytes(good + b'"I","a","sh')
    feed.checkpoint(START + 100 * SECOND)
    with pytest.raises(StrataError, match=r"row|record") as caught:
        land_sink(location(tmp_path, 1 << 20))
    assert path.name in str(caught.value)
    assert ids(tmp_path)[-1] == 59
    path.write_bytes(good)
    land_sink(location(tmp_path, 1 << 20))
    assert ids(tmp_path) == [*range(1, 41), *range(42, 60), 70]


def test_a_schema_file_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    feed, table = written(tmp_path)
    land_sink(location(tmp_path))
    feed.ddl(table, START + 45 * SECOND, 6, "ALTER TABLE a DROP COLUMN name", (ID, SinkColumn("n")))
    feed.checkpoint(START + 100 * SECOND)
    with pytest.raises(BadData, match="came after commits up to"):
        land_sink(location(tmp_path))


def test_a_table_whose_first_row_comes_later_has_an_older_schema_file(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    feed, _ = written(tmp_path)
    world.run()
    other = feed.table("b", (ID, NAME), START - 5)
    feed.write(other, [Row(START + 55 * SECOND, {"id": 1, "name": "late"})])
    feed.checkpoint(START + 100 * SECOND)
    world.run()
    assert [after for *_, after in world.changes("shop.b")] == [{"id": 1, "name": "late"}]


def test_tables_that_the_settings_exclude_do_not_land(tmp_path: Path) -> None:
    """A table without a key is set aside, and can be excluded; its files may expire. The others go on."""
    world = SinkWorld(tmp_path)
    feed, _ = written(tmp_path)
    keyless = feed.table("k", (SinkColumn("n"),))
    path = feed.write(keyless, [Row(START + 5, {"n": 1})])
    with pytest.raises(ChecksFailedError, match=r"shop\.k.*no primary key"):
        world.run()
    said = " ".join(world.strata("quarantine", "show").stdout.split())
    assert "the table has no primary key" in said
    assert 'exclude = ["shop.k"]' in said
    assert len(world.changes("shop.a")) == 48
    assert not world.changes("shop.k")
    world.more = 'exclude = ["shop.k"]'
    world.run()
    path.unlink()
    feed.checkpoint(START + 100 * SECOND)
    world.run()
    assert len(world.changes("shop.a")) == 58


def test_segments_that_were_changed_are_refused(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    written(tmp_path)
    land_sink(location(tmp_path, 1 << 20))
    path = next((tmp_path / "lake" / "landing" / "s").glob("*.rows"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(StrataError, match="not as they were written"):
        world.run()
    path.write_bytes(content[:-1])
    with pytest.raises(StrataError, match=r"not as it was written|another segment"):
        land_sink(location(tmp_path))


def test_a_damaged_index_is_named_and_made_again(tmp_path: Path) -> None:
    """Wherever a byte of it is wrong: a reader has the right answer or names the file; a landing makes it as it was."""
    written(tmp_path)
    land_sink(location(tmp_path, 4000))
    lake = str(tmp_path / "lake")
    expected, good = stream_of(tmp_path), landed(tmp_path)
    paths = sorted((tmp_path / "lake" / "landing" / "s").glob(f"*{SUFFIX}"))
    assert len(paths) >= 2
    for path in (paths[0], paths[-1]):
        content = path.read_bytes()
        for at in (*range(0, len(content), max(1, len(content) // 25)), len(content) - 6, len(content) - 1):
            path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
            found, error = read_or_error(tmp_path)
            assert found == expected or error is not None
            assert error is None or (error.file == str(path) and "`strata land`" in (error.remedy or ""))
            land_sink(location(tmp_path, 4000))
            assert landed(tmp_path) == good, at
        for damaged in (b"", content[: len(content) // 2], (paths[1] if path == paths[0] else paths[0]).read_bytes()):
            path.write_bytes(damaged)
            with pytest.raises(DamagedIndexError, match=r"transaction index is damaged") as caught:
                stream_of(tmp_path)
            assert caught.value.file == str(path)
            land_sink(location(tmp_path, 4000))
            assert landed(tmp_path) == good
    assert LandedStream.open(lake, "s").last_seq == len(expected_commits(expected))


def read_or_error(folder: Path) -> tuple[list[Any] | None, DamagedIndexError | None]:
    try:
        return stream_of(folder), None
    except DamagedIndexError as error:
        return None, error


def expected_commits(stream: list[Any]) -> set[int]:
    return {one[0] for one in stream}


def test_a_landing_looks_at_the_newest_indexes_and_once_an_hour_at_all(tmp_path: Path) -> None:
    feed, table = written(tmp_path)
    sink = location(tmp_path, newest=3)
    land_sink(sink)
    folder = tmp_path / "lake/landing/s"
    indexes = sorted(folder.glob(f"*{SUFFIX}"))
    assert len(indexes) > 6
    land_sink(sink)  # what a landing has made, the next one looks at
    old, new = indexes[1], indexes[-1]
    were = [path.read_bytes() for path in (old, new)]
    for path in (old, new):
        path.unlink()
    land_sink(sink)
    assert new.read_bytes() == were[1]
    assert not old.exists()
    with pytest.raises(StreamHoleError, match="segment 2 of the landed stream has no index"):
        list(LandedStream.open(str(tmp_path / "lake"), "s").records())
    # What lands meanwhile is in order.
    feed.write(table, [Row(START + 61 * SECOND, {"id": 61, "name": "z", "n": 1})])
    feed.checkpoint(START + 62 * SECOND)
    assert land_sink(sink).transactions > 0
    hint = folder / "newest.json"
    stored = json.loads(hint.read_text())
    hint.write_text(json.dumps({**stored, "looked_at": stored["looked_at"] - 3600}))
    assert land_sink(sink).transactions == 0
    assert old.read_bytes() == were[0]
    assert landed_seqs(tmp_path) == list(range(1, landed_seqs(tmp_path)[-1] + 1))
    folder.joinpath(indexes[2].name.removesuffix(SUFFIX)).unlink()
    indexes[2].unlink()
    hint.unlink()
    with pytest.raises(StreamHoleError, match="segment 3 is missing"):
        land_sink(sink)


def landed_seqs(folder: Path) -> list[int]:
    return [record.seq for _, record in LandedStream.open(str(folder / "lake"), "s").records()]


def test_a_damaged_index_within_a_segment_says_what_to_restore(tmp_path: Path) -> None:
    """The one beside it is as good; only where both are damaged nothing can be made of them."""
    written(tmp_path)
    land_sink(location(tmp_path, 1 << 20))
    expected = stream_of(tmp_path)
    path = next((tmp_path / "lake" / "landing" / "s").glob("*.rows"))
    index = path.with_name(f"{path.name}{SUFFIX}")
    inner, beside = path.read_bytes().index(index.read_bytes()), index.read_bytes()
    content = bytearray(path.read_bytes())
    content[inner + 40] ^= 0xFF
    path.write_bytes(content)
    land_sink(location(tmp_path, 1 << 20))
    assert stream_of(tmp_path) == expected
    index.unlink()
    with pytest.raises(DamagedFileError, match="index in the landed segment is not as it was written") as caught:
        land_sink(location(tmp_path, 1 << 20))
    assert caught.value.file == str(path)
    assert index.name in (caught.value.remedy or "")
    assert not index.exists()
    index.write_bytes(beside)
    land_sink(location(tmp_path, 1 << 20))
    assert stream_of(tmp_path) == expected


def test_a_source_has_one_kind_of_stream(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="no folder of a TiCDC storage sink"):
        land_sink(location(tmp_path))
    assert not landed(tmp_path)
