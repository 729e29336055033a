"""Publishing: what readers see after each publication, repeated, beside itself, over changes of shape."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from strata.errors import DamagedFileError, Usage
from strata.schema.model import TableName
from strata.tables.commit import publish, unpublished_files
from strata.tables.layout import GENERATIONS_FILE, table_url
from strata.tables.read import published_tables, read_changes, read_generations
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, changes, inserts, stage

if TYPE_CHECKING:
    from strata.tables.write import StagedFile

FIELDS = {"id": pa.int32(), "name": pa.string()}
LATER = INTERVAL + FIVE_MINUTES


def put(lake: Path, *batches: Any, interval: int = INTERVAL, **given: Any) -> Any:
    staged = stage(lake / "runs" / "r1", *batches, interval=interval, **given)
    return publish(str(lake), SOURCE, ORDERS, interval, staged)


def ids(lake: Path, **given: Any) -> list[int]:
    return sorted(read_changes(str(lake), SOURCE, ORDERS, **given)["id"].to_pylist())


def test_what_is_published_is_read(tmp_path: Path) -> None:
    (commit,) = put(tmp_path, inserts(FIELDS, [{"id": 1}, {"id": 2}]))
    assert (commit.generation, commit.rows, commit.added_files, commit.removed_files) == (1, 2, 1, 0)
    assert ids(tmp_path) == [1, 2]
    assert published_tables(str(tmp_path), SOURCE) == [ORDERS]


def test_nothing_is_committed_when_nothing_differs(tmp_path: Path) -> None:
    batch = inserts(FIELDS, [{"id": 1}])
    (first,) = put(tmp_path, batch)
    (again,) = put(tmp_path, batch)
    assert again.version == first.version
    assert (again.rows, again.added_files, again.removed_files) == (1, 0, 0)


def test_an_interval_done_again_replaces_its_rows_and_no_others(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    put(tmp_path, inserts(FIELDS, [{"id": 2}]), interval=LATER)
    (commit,) = put(tmp_path, inserts(FIELDS, [{"id": 3}, {"id": 4}]))
    assert (commit.added_files, commit.removed_files) == (1, 1)
    assert ids(tmp_path) == [2, 3, 4]


def test_an_interval_that_lost_all_its_rows_is_emptied(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    (commit,) = publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, [])
    assert (commit.rows, commit.removed_files) == (0, 1)
    assert ids(tmp_path) == []


def test_nothing_at_all_makes_no_table(tmp_path: Path) -> None:
    assert publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, []) == ()
    assert published_tables(str(tmp_path), SOURCE) == []
    with pytest.raises(Usage, match="nothing of this table is published"):
        read_changes(str(tmp_path), SOURCE, ORDERS)


def test_readers_can_ask_for_intervals_and_columns(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    put(tmp_path, inserts(FIELDS, [{"id": 2}]), interval=LATER)
    assert ids(tmp_path, start=LATER) == [2]
    assert ids(tmp_path, end=LATER) == [1]
    found = read_changes(str(tmp_path), SOURCE, ORDERS, columns=["id", "_seq"])
    assert found.schema.names == ["id", "_seq"]


def test_added_and_dropped_columns_stay_in_one_generation(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1, "name": "a"}]))
    new = {"city": pa.string(), "id": pa.int32(), "seen": pa.timestamp("us")}
    row = {"id": 2, "city": "c"}
    put(tmp_path, changes(new, [{"op": "update", "before": row, "after": row}], version_id=2), interval=LATER)
    found = read_changes(str(tmp_path), SOURCE, ORDERS).sort_by("id")
    assert len(read_generations(str(tmp_path), SOURCE, ORDERS)) == 1
    assert found["name"].to_pylist() == ["a", None]
    assert found["city"].to_pylist() == [None, "c"]
    assert found["_before"].to_pylist() == [None, {"id": 2, "name": None, "city": "c", "seen": None}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.int32()),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
        (pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_another_type_starts_a_generation(tmp_path: Path, old: pa.DataType, new: pa.DataType) -> None:
    put(tmp_path, inserts({"id": pa.int32(), "x": old}, [{"id": 1}]))
    before = sorted((tmp_path / "changes").rglob("*.parquet"))
    put(tmp_path, inserts({"id": pa.int32(), "x": new}, [{"id": 2}], version_id=2), interval=LATER)
    first, second = read_generations(str(tmp_path), SOURCE, ORDERS)
    assert (first["id"].to_pylist(), second["id"].to_pylist()) == ([1], [2])
    assert (first.schema.field("x").type, second.schema.field("x").type) == (old, new)
    assert set(before) < set((tmp_path / "changes").rglob("*.parquet"))


def test_an_old_shape_goes_where_it_went(tmp_path: Path) -> None:
    old, new = {"id": pa.int32(), "x": pa.int32()}, {"id": pa.int32(), "x": pa.string()}
    without = {"id": pa.int32()}
    put(tmp_path, inserts(without, [{"id": 1}], version_id=1))
    put(tmp_path, inserts(old, [{"id": 2}], version_id=2), interval=LATER)
    put(tmp_path, inserts(new, [{"id": 3}], version_id=3), interval=LATER + 1)
    put(tmp_path, inserts(without, [{"id": 4}], version_id=1))
    put(tmp_path, inserts(old, [{"id": 5}], version_id=4), interval=LATER + 2)
    put(tmp_path, inserts({"x": pa.string()}, [{"x": "6"}], version_id=5), interval=LATER + 3)
    first, second = read_generations(str(tmp_path), SOURCE, ORDERS)
    assert (sorted(first["id"].to_pylist()), set(second["id"].to_pylist())) == ([2, 4, 5], {3, None})


def test_an_interval_over_a_change_of_type_has_rows_in_both_generations(tmp_path: Path) -> None:
    old, new = {"id": pa.int32(), "x": pa.int32()}, {"id": pa.int32(), "x": pa.int64()}
    batches = inserts(old, [{"id": 1}]), inserts(new, [{"id": 2}], version_id=2, first_seq=2)
    commits = put(tmp_path, *batches)
    assert [(commit.generation, commit.rows) for commit in commits] == [(1, 1), (2, 1)]
    assert put(tmp_path, *batches)[1].added_files == 0
    # Types that have a common one are read together.
    assert read_changes(str(tmp_path), SOURCE, ORDERS).schema.field("x").type == pa.int64()


def test_an_interval_can_move_to_another_generation(tmp_path: Path) -> None:
    put(tmp_path, inserts({"id": pa.int32()}, [{"id": 1}]))
    put(tmp_path, inserts({"id": pa.int64()}, [{"id": 1}]))
    first, second = read_generations(str(tmp_path), SOURCE, ORDERS)
    assert (first.num_rows, second.num_rows) == (0, 1)


def test_generations_without_a_common_type_are_read_one_by_one(tmp_path: Path) -> None:
    put(tmp_path, inserts({"id": pa.int32()}, [{"id": 1}]))
    put(tmp_path, inserts({"id": pa.string()}, [{"id": "b"}], version_id=2), interval=LATER)
    with pytest.raises(Usage, match="without a common one"):
        read_changes(str(tmp_path), SOURCE, ORDERS)


def test_names_that_differ_by_case_alone_start_a_generation(tmp_path: Path) -> None:
    put(tmp_path, inserts({"id": pa.int32(), "Name": pa.string()}, [{"id": 1}]))
    put(tmp_path, inserts({"id": pa.int32(), "name": pa.string()}, [{"id": 2}], version_id=2), interval=LATER)
    assert len(read_generations(str(tmp_path), SOURCE, ORDERS)) == 2


def test_the_generations_are_listed(tmp_path: Path) -> None:
    put(tmp_path, inserts({"id": pa.int32()}, [{"id": 1}]))
    put(tmp_path, inserts({"id": pa.string()}, [{"id": "2"}], version_id=2), interval=LATER)
    listed = json.loads((Path(table_url(str(tmp_path), SOURCE, ORDERS)) / GENERATIONS_FILE).read_text())
    assert listed["table"] == "shop.orders"
    assert [(entry["generation"], entry["path"], entry["columns"]["id"]) for entry in listed["generations"]] == [
        (1, ".", "integer"),
        (2, "_g2", "string"),
    ]


def test_a_full_vacuum_of_the_first_generation_spares_the_others(tmp_path: Path) -> None:
    put(tmp_path, inserts({"id": pa.int32()}, [{"id": 1}]))
    put(tmp_path, inserts({"id": pa.string()}, [{"id": "2"}], version_id=2), interval=LATER)
    put(tmp_path, inserts({"id": pa.int32()}, [{"id": 3}]))
    first = DeltaTable(table_url(str(tmp_path), SOURCE, ORDERS))
    gone = first.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert [path.rpartition("/")[0] for path in gone] == ["data/20261121T033000.000000Z"]
    assert [part["id"].to_pylist() for part in read_generations(str(tmp_path), SOURCE, ORDERS)] == [[3], ["2"]]
    assert (Path(table_url(str(tmp_path), SOURCE, ORDERS)) / GENERATIONS_FILE).exists()


def test_files_that_nobody_refers_to_can_be_listed(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    assert unpublished_files(str(tmp_path), SOURCE, ORDERS) == []
    put(tmp_path, inserts(FIELDS, [{"id": 2}]))
    assert len(unpublished_files(str(tmp_path), SOURCE, ORDERS)) == 1


def test_a_compacted_interval_can_be_published_again(tmp_path: Path) -> None:
    batches = inserts(FIELDS, [{"id": 1}]), inserts(FIELDS, [{"id": 2}], version_id=2, first_seq=2)
    put(tmp_path, *batches)
    DeltaTable(table_url(str(tmp_path), SOURCE, ORDERS)).optimize.compact()
    (commit,) = put(tmp_path, *batches)
    assert (commit.added_files, commit.removed_files) == (2, 1)
    assert ids(tmp_path) == [1, 2]


def test_publishers_beside_each_other_lose_and_double_nothing(tmp_path: Path) -> None:
    def work(number: int) -> None:
        interval = INTERVAL + number % 3 * FIVE_MINUTES
        fields = FIELDS | {f"c{number % 4}": pa.int32()}
        staged = stage(tmp_path / "runs" / str(number), inserts(fields, [{"id": number}]), interval=interval)
        publish(str(tmp_path), SOURCE, ORDERS, interval, staged)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(12)))
    found = read_changes(str(tmp_path), SOURCE, ORDERS)
    # One publisher of each interval came last; its rows are the interval's, whole.
    assert sorted(number % 3 for number in found["id"].to_pylist()) == [0, 1, 2]
    assert {f"c{number}" for number in range(4)} <= set(found.schema.names)


def test_a_table_with_a_strange_name(tmp_path: Path) -> None:
    table = TableName("größe.x", "_a/b %41 'c' 🐬")
    staged = stage(tmp_path / "runs", inserts(FIELDS, [{"id": 1}], table=table))
    publish(str(tmp_path), SOURCE, table, INTERVAL, staged)
    assert read_changes(str(tmp_path), SOURCE, table)["id"].to_pylist() == [1]
    assert published_tables(str(tmp_path), SOURCE) == [table]


def test_a_staged_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    staged: tuple[StagedFile, ...] = stage(tmp_path / "runs", inserts(FIELDS, [{"id": 1}]))
    Path(staged[0].url).unlink()
    with pytest.raises(DamagedFileError, match="a staged file is gone"):
        publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)


def test_pyarrow_reads_the_files_by_themselves(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    uris = DeltaTable(table_url(str(tmp_path), SOURCE, ORDERS)).file_uris()
    assert ds.dataset(uris).to_table()["_interval"].cast(pa.int64()).to_pylist() == [INTERVAL]


def test_publishers_that_make_a_table_at_once_keep_each_others_columns(tmp_path: Path) -> None:
    for round_ in range(4):
        lake, start = tmp_path / str(round_), Barrier(4)

        def work(number: int, lake: Path = lake, start: Barrier = start) -> None:
            interval = INTERVAL + number * FIVE_MINUTES
            rows = inserts(FIELDS | {f"c{number}": pa.int32()}, [{"id": number, f"c{number}": number}])
            staged = stage(lake / "runs" / str(number), rows, interval=interval)
            start.wait()
            publish(str(lake), SOURCE, ORDERS, interval, staged)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        found = read_changes(str(lake), SOURCE, ORDERS).sort_by("id")
        for number in range(4):
            assert found[f"c{number}"].to_pylist() == [number if at == number else None for at in range(4)]
