"""What every output behind the table port has to do, by itself and under the product's publication.

Killed between any two writes: `tests/tables/test_crashes.py`, for each of them."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier, Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from strata_cdc.changes.arrow import GEOMETRY, INVALID, TIMESTAMP_UTC, VECTOR
from strata_cdc.errors import LostTableError, Usage
from strata_cdc.tables.commit import publish
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.lost import find_lost
from strata_cdc.tables.port import CommitConflictError, DataFile
from strata_cdc.tables.read import read_batches, read_changes, read_columns
from tests.published import published_tables, unpublished_files
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, changes, inserts, stage
from tests.tables.conformance.outputs import OUTPUTS

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.tables.port import Output

LATER = INTERVAL + FIVE_MINUTES
FIELDS = {"id": pa.int32(), "name": pa.string()}
COLUMNS = [pa.field("id", pa.int32()), pa.field("_interval", TIMESTAMP_UTC)]


@pytest.fixture(params=OUTPUTS)
def output(request: pytest.FixtureRequest) -> Output:
    return OUTPUTS[request.param]


class Lake:
    """Publishes to one output, and reads from it."""

    def __init__(self, folder: Path, output: Output) -> None:
        self.folder = folder
        self.output = output
        self.url = table_url(str(folder), SOURCE, ORDERS)

    def put(self, *batches: Any, interval: int = INTERVAL, run: str = "r", limits: FileLimits = FileLimits()) -> Any:
        staged = stage(self.folder / "runs" / run, *batches, interval=interval, limits=limits)
        return publish(str(self.folder), SOURCE, ORDERS, interval, staged, self.output)

    def read(self, **given: Any) -> pa.Table:
        return read_changes(str(self.folder), SOURCE, ORDERS, output=self.output, **given)

    def columns(self) -> pa.Table:
        (found,) = read_columns(str(self.folder), SOURCE, ORDERS, self.output)
        return found

    def ids(self, **given: Any) -> list[int]:
        return sorted(self.read(**given)["id"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path, output: Output) -> Lake:
    return Lake(tmp_path, output)


# By itself --------------------------------------------------------------------------------------


def test_a_table_is_made_once(tmp_path: Path, output: Output) -> None:
    url = str(tmp_path / "t")
    assert output.open(url) is None
    made = output.create(url, COLUMNS)
    assert (made.version, made.files(), made.mark("x")) == (0, {}, None)
    with pytest.raises(CommitConflictError):
        output.create(url, [pa.field("other", pa.int32()), COLUMNS[1]])
    found = output.open(url)
    assert found is not None
    assert found.columns.equals(pa.schema(COLUMNS))
    assert found.upgraded(SOURCE).version == 0
    assert list(found.left_beside()) == []
    assert found.read_rows(None, None, None).num_rows == 0


def test_columns_have_the_types_and_metadata_that_they_were_added_with(tmp_path: Path, output: Output) -> None:
    kinds = [
        pa.int8(), pa.int16(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(20, 0), pa.bool_(), pa.string(),
        pa.binary(), pa.date32(), pa.timestamp("us"), TIMESTAMP_UTC, VECTOR, GEOMETRY, INVALID,
        pa.dictionary(pa.int32(), pa.string()),
    ]  # fmt: skip
    added = [pa.field(f"c{at}", kind, metadata={"said": f"{at}"}) for at, kind in enumerate(kinds)]
    stored = output.stored(pa.schema(added))
    assert output.stored(stored).equals(stored)
    made = output.create(str(tmp_path / "t"), COLUMNS)
    before = made.version
    # As `place_columns` gives them: stored types.
    grown = made.with_columns([pa.field(one.name, one.type, metadata={"said": one.name}) for one in stored])
    assert grown.version > before
    for table in (grown, output.open(str(tmp_path / "t"))):
        assert table is not None
        for field in stored:
            found = table.columns.field(field.name)
            assert found.type == field.type
            assert found.metadata[b"said"] == field.name.encode()


def test_a_struct_gets_further_fields(tmp_path: Path, output: Output) -> None:
    made = output.create(str(tmp_path / "t"), [*COLUMNS, pa.field("_before", pa.struct([("id", pa.int32())]))])
    grown = made.with_columns([pa.field("_before", pa.struct([("name", pa.string())]))])
    assert [field.name for field in grown.columns.field("_before").type.fields] == ["id", "name"]


def test_of_two_that_looked_at_the_same_version_one_commits(tmp_path: Path, output: Output) -> None:
    url = str(tmp_path / "t")
    output.create(url, COLUMNS)
    first, second = output.open(url), output.open(url)
    assert first is not None
    assert second is not None
    file, other = (DataFile(f"data/{name}.parquet", INTERVAL, 1, '{"numRecords": 1}') for name in "ab")
    first.commit(SOURCE, [file], {}, marks={"stream": 7}, about={"said": "a"})
    assert (first.files(), first.mark("stream")) == ({file.path: INTERVAL}, 7)
    with pytest.raises(CommitConflictError):
        second.commit(SOURCE, [other], {}, marks={"stream": 8})
    found = output.open(url)
    assert found is not None
    assert (found.version, found.files(), found.mark("stream")) == (first.version, {file.path: INTERVAL}, 7)
    found.commit(SOURCE, [other], {file.path: INTERVAL})
    again = output.open(url)
    assert again is not None
    # A mark stays until a commit has it again.
    assert (again.files(), again.mark("stream"), again.mark("x")) == ({other.path: INTERVAL}, 7, None)


# Under the publication --------------------------------------------------------------------------


def test_replaced_twice_is_replaced_once(lake: Lake) -> None:
    assert publish(str(lake.folder), SOURCE, ORDERS, INTERVAL, [], lake.output) is None
    with pytest.raises(Usage):
        lake.read()
    lake.put(inserts(FIELDS, [{"id": 1}, {"id": 2}]))
    lake.put(inserts(FIELDS, [{"id": 3}]), interval=LATER)
    replaced = lake.put(inserts(FIELDS, [{"id": 4}]))
    assert (replaced.rows, replaced.added_files, replaced.removed_files) == (1, 1, 1)
    again = lake.put(inserts(FIELDS, [{"id": 4}]))
    assert (again.version, again.added_files, again.removed_files) == (replaced.version, 0, 0)
    assert lake.ids() == [3, 4]
    assert published_tables(str(lake.folder), SOURCE, lake.output) == [ORDERS]
    assert len(unpublished_files(str(lake.folder), SOURCE, ORDERS, lake.output)) == 1
    emptied = publish(str(lake.folder), SOURCE, ORDERS, LATER, [], lake.output)
    assert emptied is not None
    assert (emptied.rows, emptied.removed_files) == (0, 1)
    assert lake.ids() == [4]


def test_intervals_and_columns_can_be_chosen(lake: Lake) -> None:
    lake.put(inserts(FIELDS, [{"id": 1, "name": "a"}]))
    lake.put(inserts(FIELDS, [{"id": 2}]), interval=LATER)
    assert (lake.ids(start=LATER), lake.ids(end=LATER), lake.ids(start=INTERVAL)) == ([2], [1], [1, 2])
    found = lake.read(columns=["_seq", "name"], end=LATER)
    assert found.to_pylist() == [{"_seq": 1, "name": "a"}]


def test_old_rows_are_null_in_columns_that_came_later(lake: Lake) -> None:
    lake.put(changes(FIELDS, [{"op": "delete", "before": {"id": 1, "name": "a"}}]))
    row = {"id": 2, "city": "c"}
    new = {"city": pa.string(), "id": pa.int32()}
    lake.put(changes(new, [{"op": "update", "before": row, "after": row}], version_id=2), interval=LATER)
    found = lake.read().sort_by("_schema_version")
    assert found["city"].to_pylist() == [None, "c"]
    assert found["name"].to_pylist() == [None, None]
    assert found["_before"].to_pylist() == [{"id": 1, "name": "a", "city": None}, {**row, "name": None}]


def test_a_changed_type_goes_on_in_a_new_column(lake: Lake) -> None:
    wide, text = pa.decimal128(12, 2), pa.string()
    values = [(pa.int32(), 1), (wide, Decimal("2.25")), (pa.int32(), 3), (text, "four")]
    for at, (kind, value) in enumerate(values):
        row = {"id": at, "price": value}
        batch = changes({"id": pa.int32(), "price": kind}, [{"op": "update", "before": row, "after": row}])
        lake.put(batch, interval=INTERVAL + at * FIVE_MINUTES)
    found = lake.columns().sort_by("id")
    names = ["price", "price__decimal_12_2", "price__string"]
    assert [name for name in found.schema.names if name.startswith("price")] == names
    rows = [[1, None, None], [None, Decimal("2.25"), None], [3, None, None], [None, None, "four"]]
    assert [[row[name] for name in names] for row in found.to_pylist()] == rows
    assert [[row[name] for name in names] for row in found["_before"].to_pylist()] == rows
    assert found.schema.field("price__string").metadata[b"strata.continues"] == b"price"
    assert lake.ids(columns=["id"]) == [0, 1, 2, 3]
    with pytest.raises(Usage, match="price"):
        lake.read()


def test_a_reader_never_sees_half_an_interval(lake: Lake) -> None:
    # Two files in each generation of the interval, of two schema versions.
    def rows(first: int, kind: pa.DataType) -> list[Any]:
        other = {"id": pa.int32(), "x": kind}
        return [inserts(FIELDS, [{"id": first}]), inserts(other, [{"id": first + 1}], version_id=2, first_seq=2)]

    whole = [[first, first + 1] for first in range(0, 12, 2)]
    lake.put(*rows(0, pa.int32()))
    done = Event()

    def look() -> list[list[int]]:
        seen = []
        while not done.is_set():
            seen.append(lake.ids(columns=["id"]))
        return seen

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            for first, _ in whole[1:]:
                lake.put(*rows(first, pa.int64() if first % 4 else pa.string()))
        finally:
            done.set()
        seen = looking.result()
    assert seen
    assert all(found in whole for found in seen)
    assert seen == sorted(seen)


def test_rows_some_at_a_time_are_those_of_the_whole(lake: Lake) -> None:
    """Of files that lack columns, and that have other types, too."""
    lake.put(inserts({"id": pa.int32()}, [{"id": 1}, {"id": 2}]))
    lake.put(inserts(FIELDS, [{"id": 3, "name": "c"}], version_id=2, first_seq=3), interval=LATER)
    wide = inserts({"id": pa.int64()}, [{"id": 1 << 40}], version_id=3, first_seq=4)
    lake.put(wide, interval=LATER + FIVE_MINUTES)
    whole = lake.columns()
    batches = list(read_batches(str(lake.folder), SOURCE, ORDERS, lake.output))
    assert all(batch.schema.equals(whole.schema, check_metadata=True) for batch in batches)
    assert pa.concat_tables(batches).sort_by("_seq").to_pylist() == whole.sort_by("_seq").to_pylist()


def test_a_large_table_is_read_some_rows_at_a_time(lake: Lake) -> None:
    """No more of it is in memory than a few row groups, however much slower than Arrow its reader is."""
    rows, groups = 250, 40
    limits = FileLimits(row_group_rows=rows)
    named = [[{"id": at, "name": f"{at:04000}"} for at in range(n * rows, (n + 1) * rows)] for n in range(groups)]
    parts = [inserts(FIELDS, part, first_seq=1 + rows * number) for number, part in enumerate(named)]
    lake.put(*parts[: groups // 2], limits=limits)
    lake.put(*parts[groups // 2 :], interval=LATER, limits=limits)
    whole = lake.columns().nbytes
    before, held, seen = pa.total_allocated_bytes(), [], []
    for batch in read_batches(str(lake.folder), SOURCE, ORDERS, lake.output):
        seen += batch["id"].to_pylist()
        assert batch["name"].to_pylist() == [f"{at:04000}" for at in batch["id"].to_pylist()]
        held.append(pa.total_allocated_bytes() - before)
    assert sorted(seen) == list(range(rows * groups))
    assert max(held) < whole / 8


def test_writers_of_different_intervals_all_land(lake: Lake) -> None:
    start = Barrier(4)

    def work(number: int) -> None:
        own = f"c{number}"
        rows = inserts(FIELDS | {own: pa.int32()}, [{"id": number, own: number}])
        start.wait()
        lake.put(rows, interval=INTERVAL + number * FIVE_MINUTES, run=str(number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    found = lake.read().sort_by("id")
    assert found["id"].to_pylist() == [0, 1, 2, 3]
    for number in range(4):
        assert found[f"c{number}"].to_pylist() == [number if at == number else None for at in range(4)]


def test_a_table_that_lost_commits_takes_no_further_ones(lake: Lake) -> None:
    first = lake.put(inserts(FIELDS, [{"id": 1}]))
    second = lake.put(inserts(FIELDS, [{"id": 2}]), interval=LATER)
    known = {ORDERS: second.version}
    assert lake.output.with_commit({lake.url: second.version}) == {lake.url}
    assert not list(find_lost(str(lake.folder), SOURCE, known, lake.output))
    log = [path for path in lake.folder.rglob("*.json") if int(path.stem) > first.version]
    for path in log:
        path.unlink()
    assert lake.output.with_commit({lake.url: second.version}) == frozenset()
    (lost,) = find_lost(str(lake.folder), SOURCE, known, lake.output)
    assert (lost.table, f"its newest version is {first.version}" in lost.message) == (str(ORDERS), True)
    with pytest.raises(LostTableError):
        publish(str(lake.folder), SOURCE, ORDERS, LATER, [], lake.output, known=second.version)
    shutil.rmtree(lake.url)
    (lost,) = find_lost(str(lake.folder), SOURCE, known, lake.output)
    assert "it is not there" in lost.message


def test_files_and_bounds_of_a_part_are_those_of_all_within_it(output: Output, tmp_path: Path) -> None:
    lake = Lake(tmp_path, output)
    for at in range(4):
        rows = [{"id": at}, {"id": at + 1}]
        lake.put(inserts(FIELDS, rows, first_seq=10 * at + 1), interval=INTERVAL + at * FIVE_MINUTES)
    table = output.open(lake.url)
    every, bounds = table.files(), table.bounds("_seq")
    assert len(every) == len(bounds) == 4
    for start, end in ((None, None), (LATER, None), (None, LATER), (LATER, LATER + 1), (LATER, LATER + FIVE_MINUTES)):
        within = {p: at for p, at in every.items() if (start is None or start <= at) and (end is None or at < end)}
        assert table.files(start, end) == within
    for after, last in ((None, None), (12, None), (11, 11), (None, 1), (1, 11), (2, 10), (0, 100)):
        touching = {
            path: (low, high)
            for path, (low, high) in bounds.items()
            if (after is None or high > after) and (last is None or low <= last)
        }
        assert table.bounds("_seq", after, last) == touching
