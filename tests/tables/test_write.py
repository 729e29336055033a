"""Staged files: what is in them, what they are called, what stays after a failure."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.layout import METADATA
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.write import ChangeWriter, StagedFile
from tests.tables.changes import INTERVAL, ORDERS, SOURCE, changes, inserts, stage

FIELDS = {"id": pa.int32(), "name": pa.string(), "born": pa.date32()}


def test_a_file_has_all_columns_of_a_change_table(tmp_path: Path) -> None:
    (file,) = stage(tmp_path, inserts(FIELDS, [{"id": 1, "name": "a"}, {"id": 2}]))
    found = pq.read_table(file.url)
    assert found.schema.names == [*FIELDS, *METADATA]
    assert found.schema.field("_interval").type == pa.timestamp("us", tz="UTC")
    assert found["_interval"].cast(pa.int64()).to_pylist() == [INTERVAL, INTERVAL]
    assert found["_source"].to_pylist() == [SOURCE, SOURCE]
    assert found["name"].to_pylist() == ["a", None]
    assert all(field.nullable for field in found.schema)


def test_the_report_says_what_is_in_the_file(tmp_path: Path) -> None:
    rows = [
        {"op": "insert", "seq": 5, "after": {"id": 7}},
        {"op": "update", "seq": 9, "before": {"id": 7}, "after": {"id": -3}, "missing": ["name"]},
        {"op": "insert", "seq": 8, "after": {"id": 8}, "invalid": {"born": "0000-00-00"}},
        {"op": "insert", "seq": 7, "after": {"id": 9}, "missing": [], "invalid": {}},
    ]
    (file,) = stage(tmp_path, changes(FIELDS, rows))
    assert (file.name, file.rows, file.min_seq, file.max_seq) == (ORDERS, 4, 5, 9)
    assert (file.partial_rows, file.invalid_rows) == (1, 1)
    assert file.size_bytes == Path(file.url).stat().st_size
    stats = json.loads(file.statistics)
    assert (stats["numRecords"], stats["minValues"]["id"], stats["maxValues"]["id"]) == (4, -3, 9)
    assert (stats["nullCount"]["born"], stats["nullCount"]["id"]) == (4, 0)
    assert msgspec.json.decode(msgspec.json.encode(file), type=StagedFile) == file


def test_equal_slices_give_equal_files(tmp_path: Path) -> None:
    batch = inserts(FIELDS, [{"id": 1}, {"id": 2}])
    first, second = stage(tmp_path / "a", batch), stage(tmp_path / "b", batch)
    assert [file.file_name for file in first] == [file.file_name for file in second]
    assert Path(first[0].url).read_bytes() == Path(second[0].url).read_bytes()


def test_other_content_another_slice_or_another_place_in_it_give_other_names(tmp_path: Path) -> None:
    batch = inserts(FIELDS, [{"id": 1}])
    names = [
        file.file_name
        for staged in (
            stage(tmp_path / "a", batch),
            stage(tmp_path / "b", inserts(FIELDS, [{"id": 2}])),
            stage(tmp_path / "c", batch, slice_key="binlog.000001:9"),
        )
        for file in staged
    ]
    assert len(set(names)) == 3


def test_versions_and_tables_have_files_of_their_own(tmp_path: Path) -> None:
    other = TableName("shop", "größe/2")
    staged = stage(
        tmp_path,
        inserts(FIELDS, [{"id": 1}], version_id=1),
        inserts({"id": pa.int64()}, [{"id": 2}], version_id=2, first_seq=2),
        inserts(FIELDS, [{"id": 3}], version_id=1, first_seq=3),
        inserts({"id": pa.int64()}, [{"id": 2}], version_id=9, table=other),
    )
    assert [(file.table, file.version_id, file.rows) for file in staged] == [
        ("größe/2", 9, 1),
        ("orders", 1, 2),
        ("orders", 2, 1),
    ]
    assert len({file.url for file in staged}) == 3


def test_small_batches_are_joined_into_row_groups(tmp_path: Path) -> None:
    whole = FileLimits().row_group_rows
    rows = whole // 4
    batch = inserts({"id": pa.int64()}, [{"id": at} for at in range(rows)])
    (file,) = stage(tmp_path, *[batch] * 5)
    groups = pq.read_metadata(file.url)
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [whole, rows]


def test_a_file_that_grows_too_large_ends(tmp_path: Path) -> None:
    one = [inserts(FIELDS, [{"id": at}], first_seq=at) for at in range(1, 6)]
    staged = stage(tmp_path, *one, limits=FileLimits(row_group_rows=2, file_bytes=100))
    assert [(file.rows, file.min_seq, file.max_seq) for file in staged] == [(2, 1, 2), (2, 3, 4), (1, 5, 5)]


def test_columns_that_are_called_like_ours_get_another_underscore(tmp_path: Path) -> None:
    fields = {"_op": pa.string(), "_SEQ": pa.int32(), "__op": pa.int32(), "_mine": pa.int32()}
    row = {"_op": "x", "_SEQ": 5, "__op": 6, "_mine": 7}
    (file,) = stage(tmp_path, changes(fields, [{"op": "update", "before": row, "after": row}, {"op": "insert"}]))
    found = pq.read_table(file.url)
    assert found.schema.names == ["__op", "__SEQ", "___op", "_mine", *METADATA]
    assert found["_op"].to_pylist() == ["update", "insert"]
    renamed = {"__op": "x", "__SEQ": 5, "___op": 6, "_mine": 7}
    assert found["_before"].to_pylist() == [renamed, None]
    assert found["__op"].to_pylist() == ["x", None]


def test_a_failure_in_the_middle_leaves_no_file(tmp_path: Path) -> None:
    def decode_and_fail() -> None:
        with ChangeWriter(str(tmp_path), source=SOURCE, interval=INTERVAL, slice_key="x") as writer:
            writer.write(inserts(FIELDS, [{"id": 1}]))  # type: ignore[arg-type]  # has the same fields
            raise RuntimeError

    with pytest.raises(RuntimeError):
        decode_and_fail()
    assert list(tmp_path.rglob("*")) == []


def test_an_empty_batch_makes_no_file(tmp_path: Path) -> None:
    assert stage(tmp_path, inserts(FIELDS, [])) == ()


def test_a_lake_that_takes_nothing_is_reported(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    with pytest.raises(LakeUnavailableError, match="blocked"):
        stage(tmp_path / "blocked", inserts(FIELDS, [{"id": 1}]))
