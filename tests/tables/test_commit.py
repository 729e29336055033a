"""Publishing: what readers see after each publication, repeated, beside itself, over changes of shape."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from strata_cdc.errors import DamagedFileError, LostTableError, Usage
from strata_cdc.files.storage import delete_file, write_file
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.commit import publish
from strata_cdc.tables.layout import changes_url, table_url
from strata_cdc.tables.pinned import find_damage
from strata_cdc.tables.read import read_changes, read_columns
from tests.mirrors.delta_readers import READERS
from tests.published import published_tables, unpublished_files
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, changes, inserts, stage

if TYPE_CHECKING:
    from strata_cdc.tables.write import StagedFile

FIELDS = {"id": pa.int32(), "name": pa.string()}
LATER = INTERVAL + FIVE_MINUTES


def put(lake: Path, *batches: Any, interval: int = INTERVAL, **given: Any) -> Any:
    staged = stage(lake / "runs" / "r1", *batches, interval=interval, **given)
    return publish(str(lake), SOURCE, ORDERS, interval, staged)


def ids(lake: Path, **given: Any) -> list[int]:
    return sorted(read_changes(str(lake), SOURCE, ORDERS, **given)["id"].to_pylist())


def test_what_is_published_is_read(tmp_path: Path) -> None:
    commit = put(tmp_path, inserts(FIELDS, [{"id": 1}, {"id": 2}]))
    assert (commit.rows, commit.added_files, commit.removed_files) == (2, 1, 0)
    assert ids(tmp_path) == [1, 2]
    assert published_tables(str(tmp_path), SOURCE) == [ORDERS]


def test_nothing_is_committed_when_nothing_differs(tmp_path: Path) -> None:
    batch = inserts(FIELDS, [{"id": 1}])
    first = put(tmp_path, batch)
    again = put(tmp_path, batch)
    assert again.version == first.version
    assert (again.rows, again.added_files, again.removed_files) == (1, 0, 0)


def test_an_interval_done_again_replaces_its_rows_and_no_others(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    put(tmp_path, inserts(FIELDS, [{"id": 2}]), interval=LATER)
    commit = put(tmp_path, inserts(FIELDS, [{"id": 3}, {"id": 4}]))
    assert (commit.added_files, commit.removed_files) == (1, 1)
    assert ids(tmp_path) == [2, 3, 4]


def test_an_interval_that_lost_all_its_rows_is_emptied(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    commit = publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, [])
    assert (commit.rows, commit.removed_files) == (0, 1)
    assert ids(tmp_path) == []


def test_nothing_at_all_makes_no_table(tmp_path: Path) -> None:
    assert publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, []) is None
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


def test_columns_come_and_go(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1, "name": "a"}]))
    new = {"city": pa.string(), "id": pa.int32(), "seen": pa.timestamp("us")}
    row = {"id": 2, "city": "c"}
    put(tmp_path, changes(new, [{"op": "update", "before": row, "after": row}], version_id=2), interval=LATER)
    found = read_changes(str(tmp_path), SOURCE, ORDERS).sort_by("id")
    assert found["name"].to_pylist() == ["a", None]
    assert found["city"].to_pylist() == [None, "c"]
    assert found["_before"].to_pylist() == [None, {"id": 2, "name": None, "city": "c", "seen": None}]


def test_a_type_without_a_common_one_is_told(tmp_path: Path) -> None:
    put(tmp_path, inserts({"id": pa.int32(), "x": pa.int32()}, [{"id": 1}]))
    put(tmp_path, inserts({"id": pa.int32(), "x": pa.string()}, [{"id": 2}], version_id=2), interval=LATER)
    with pytest.raises(Usage, match="x is int32 in some rows and string in others"):
        read_changes(str(tmp_path), SOURCE, ORDERS)
    assert ids(tmp_path, columns=["id"]) == [1, 2]
    assert [part.num_rows for part in read_columns(str(tmp_path), SOURCE, ORDERS)] == [2]


def test_an_interval_over_a_change_of_type_is_one_commit(tmp_path: Path) -> None:
    old, new = {"id": pa.int32(), "x": pa.int32()}, {"id": pa.int32(), "x": pa.int64()}
    batches = inserts(old, [{"id": 1, "x": 1}]), inserts(new, [{"id": 2, "x": 2}], version_id=2, first_seq=2)
    commit = put(tmp_path, *batches)
    assert (commit.rows, commit.added_files) == (2, 2)
    assert put(tmp_path, *batches).added_files == 0
    found = read_changes(str(tmp_path), SOURCE, ORDERS).sort_by("id")
    assert found.schema.field("x").type == pa.int64()
    assert found["x"].to_pylist() == [1, 2]


def test_a_full_vacuum_spares_what_is_published(tmp_path: Path) -> None:
    put(tmp_path, inserts({"id": pa.int32()}, [{"id": 1}]))
    put(tmp_path, inserts({"id": pa.int64()}, [{"id": 2}], version_id=2), interval=LATER)
    put(tmp_path, inserts({"id": pa.int32()}, [{"id": 3}]))
    table = DeltaTable(table_url(str(tmp_path), SOURCE, ORDERS))
    gone = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert [path.rpartition("/")[0] for path in gone] == ["data/20261121T033000.000000Z"]
    assert ids(tmp_path) == [2, 3]


def test_files_that_nobody_refers_to_can_be_listed(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    assert unpublished_files(str(tmp_path), SOURCE, ORDERS) == []
    put(tmp_path, inserts(FIELDS, [{"id": 2}]))
    assert len(unpublished_files(str(tmp_path), SOURCE, ORDERS)) == 1


def test_a_compacted_interval_can_be_published_again(tmp_path: Path) -> None:
    batches = inserts(FIELDS, [{"id": 1}]), inserts(FIELDS, [{"id": 2}], version_id=2, first_seq=2)
    put(tmp_path, *batches)
    DeltaTable(table_url(str(tmp_path), SOURCE, ORDERS)).optimize.compact()
    commit = put(tmp_path, *batches)
    assert (commit.rows, commit.added_files, commit.removed_files) == (2, 0, 0), "they are the same rows"
    commit = put(tmp_path, *batches[:1])
    assert (commit.added_files, commit.removed_files) == (1, 1)
    assert ids(tmp_path) == [1]


def test_publishers_beside_each_other_lose_and_double_nothing(tmp_path: Path) -> None:
    types = [pa.int32(), pa.int64(), pa.decimal128(10, 2), pa.string()]

    def work(number: int) -> None:
        interval = INTERVAL + number % 3 * FIVE_MINUTES
        fields = FIELDS | {f"c{number % 4}": pa.int32(), "x": types[number // 3]}
        staged = stage(tmp_path / "runs" / str(number), inserts(fields, [{"id": number}]), interval=interval)
        publish(str(tmp_path), SOURCE, ORDERS, interval, staged)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(12)))
    found = read_changes(str(tmp_path), SOURCE, ORDERS, columns=["id", *(f"c{number}" for number in range(4))])
    # One publisher of each interval came last; its rows are the interval's, whole.
    assert sorted(number % 3 for number in found["id"].to_pylist()) == [0, 1, 2]
    assert {f"c{number}" for number in range(4)} <= set(found.schema.names)
    (columns,) = read_columns(str(tmp_path), SOURCE, ORDERS)
    own = [field for field in columns.schema if field.name.startswith("x")]
    assert sorted(map(str, types)) == sorted(str(field.type) for field in own)


def test_a_table_with_a_strange_name(tmp_path: Path) -> None:
    table = TableName("größe.x", "_a/b %41 'c' 🐬")
    staged = stage(tmp_path / "runs", inserts(FIELDS, [{"id": 1}], table=table))
    publish(str(tmp_path), SOURCE, table, INTERVAL, staged)
    assert read_changes(str(tmp_path), SOURCE, table)["id"].to_pylist() == [1]
    assert published_tables(str(tmp_path), SOURCE) == [table]


def test_a_staged_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    staged: tuple[StagedFile, ...] = stage(tmp_path / "runs", inserts(FIELDS, [{"id": 1}]))
    Path(staged[0].url).unlink()
    with pytest.raises(DamagedFileError, match="a staged file is gone") as caught:
        publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    assert "Decode the run again" in str(caught.value)


def test_a_damaged_log_is_the_tables_loss_and_says_what_makes_it_anew(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    log = Path(table_url(str(tmp_path), SOURCE, ORDERS)) / "_delta_log"
    for commit in log.glob("*.json"):
        commit.write_text("{}")
    with pytest.raises(LostTableError, match="strata lake rebuild --source shop") as caught:
        put(tmp_path, inserts(FIELDS, [{"id": 2}]))
    assert caught.value.table == str(ORDERS)


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


def test_on_any_storage(lake: str) -> None:
    shapes = ({"id": pa.int32()}, {"id": pa.int64()}, {"id": pa.int32()})
    for number, shape in enumerate(shapes, 1):
        interval = INTERVAL + number * FIVE_MINUTES
        staged = stage(f"{lake}/runs", inserts(shape, [{"id": number}], version_id=number), interval=interval)
        publish(lake, SOURCE, ORDERS, interval, staged)
    assert sorted(read_changes(lake, SOURCE, ORDERS)["id"].to_pylist()) == [1, 2, 3]
    assert [part.num_rows for part in read_columns(lake, SOURCE, ORDERS)] == [3]
    assert find_damage(staged) == {}
    write_file(staged[0].url, b"PAR1")
    with pytest.raises(DamagedFileError, match="4 bytes"):
        publish(lake, SOURCE, ORDERS, INTERVAL, staged)
    delete_file(staged[0].url)
    with pytest.raises(DamagedFileError, match="is gone"):
        publish(lake, SOURCE, ORDERS, INTERVAL, staged)


@pytest.mark.parametrize("name", ["a b", "ü", "100%", "a#b", "it's"])
def test_a_lake_may_be_called_oddly(tmp_path: Path, name: str) -> None:
    lake = str(tmp_path / name / "lake")
    for number in (1, 2):
        staged = stage(f"{lake}/runs", inserts({"id": pa.int32()}, [{"id": number}], version_id=1), interval=INTERVAL)
        publish(lake, SOURCE, ORDERS, INTERVAL, staged)
    assert read_changes(lake, SOURCE, ORDERS)["id"].to_pylist() == [2]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_lies_in_its_table_is_committed_as_it_is(tmp_path: Path) -> None:
    rows = inserts(FIELDS, [{"id": 1}, {"id": 2}])
    staged = stage(tmp_path / "run", rows, changes=changes_url(str(tmp_path), SOURCE))
    stamp = Path(staged[0].url).stat().st_mtime_ns
    commit = publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    assert commit is not None
    assert (commit.rows, ids(tmp_path)) == (2, [1, 2])
    assert Path(staged[0].url).stat().st_mtime_ns == stamp
    assert not Path(tmp_path, "run").exists()
    again = publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    assert again is not None
    assert (again.version, again.added_files) == (commit.version, 0)


@pytest.mark.parametrize("how", ["gone", "other"])
def test_what_lies_in_its_table_is_committed_only_if_it_is_what_was_decoded(tmp_path: Path, how: str) -> None:
    staged = stage(tmp_path / "run", inserts(FIELDS, [{"id": 1}]), changes=changes_url(str(tmp_path), SOURCE))
    path = Path(staged[0].url)
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-5] + b"x" + path.read_bytes()[-4:])
    with pytest.raises(DamagedFileError, match=r"is gone|has other bytes"):
        publish(str(tmp_path), SOURCE, ORDERS, INTERVAL, staged)
    assert ORDERS not in published_tables(str(tmp_path), SOURCE)


def test_what_is_not_committed_is_seen_by_no_reader(tmp_path: Path) -> None:
    put(tmp_path, inserts(FIELDS, [{"id": 1}]))
    stage(tmp_path / "run", inserts(FIELDS, [{"id": 2}], first_seq=9), changes=changes_url(str(tmp_path), SOURCE))
    url = table_url(str(tmp_path), SOURCE, ORDERS)
    assert len(list(Path(url).rglob("*.parquet"))) == 2
    for read in READERS:
        assert read(url, None)["id"].to_pylist() == [1], read
