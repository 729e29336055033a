"""What a Parquet file's columns are encoded as, by what is in them; and that everybody reads them."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.tables.encodings import choose_encodings
from strata_cdc.tables.row_groups import parquet_writer, write_row_group
from tests.spark_session import spark

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["spark"]
ROWS = 3000


def change_rows(columns: dict[str, pa.Array]) -> pa.Table:
    """A table with these columns, images before that lack every third row, and some of the columns of every change."""
    rows = len(next(iter(columns.values())))
    image = pa.StructArray.from_arrays(
        list(columns.values()), list(columns), mask=pa.array([at % 3 == 0 for at in range(rows)])
    )
    seqs = pa.array(range(rows), pa.int64())
    gtids = pa.array([f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{at}" for at in range(rows)])
    return pa.table({**columns, "_before": image, "_op": pa.array(["update"] * rows), "_gtid": gtids, "_seq": seqs})


def some_of_all() -> pa.Table:
    texts = [sha256(str(at).encode()) for at in range(ROWS)]
    return change_rows(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "token": pa.array([None if at % 7 == 0 else text.hexdigest() for at, text in enumerate(texts)]),
            "hash": pa.array([text.digest() for text in texts], pa.binary()),
            "state": pa.array([("new", "sent", None)[at % 3] for at in range(ROWS)]),
            "note": pa.array(
                [f"order {at} of a customer, to be sent to the same address as before" for at in range(ROWS)]
            ),
            "large": pa.array([text.hexdigest() * 100 for text in texts]),
            "empty": pa.nulls(ROWS, pa.string()),
        }
    )


def write(path: Path, *tables: pa.Table) -> bytes:
    with parquet_writer(path, tables[0]) as writer:
        for table in tables:
            write_row_group(writer, table)
    return path.read_bytes()


def test_texts_are_encoded_by_what_is_in_them():
    found = choose_encodings(some_of_all())
    assert found.dictionary == ["_op", "state", "_before.state"]
    assert found.others == {
        "_seq": "DELTA_BINARY_PACKED",
        **dict.fromkeys(["token", "_before.token", "hash", "_before.hash"], "DELTA_LENGTH_BYTE_ARRAY"),
        "_gtid": "DELTA_BYTE_ARRAY",
    }


def test_a_dot_in_a_name_is_no_path(tmp_path: Path):
    tokens = pa.array([sha256(str(at).encode()).hexdigest() for at in range(ROWS)])
    numbers = pa.array(range(ROWS), pa.int32())
    rows = change_rows({"c": tokens, "_before.c": numbers, "a.b": tokens, "g": tokens, "_before.g": tokens})
    write(tmp_path / "a", rows)
    assert pq.read_table(tmp_path / "a").equals(rows)


def test_gtids_of_large_transactions_get_a_dictionary():
    rows = some_of_all()
    at = rows.schema.get_field_index("_gtid")
    assert "_gtid" in choose_encodings(rows.set_column(at, "_gtid", pa.array(["g:1"] * ROWS))).dictionary


@pytest.mark.spark
def test_spark_reads_every_encoding(tmp_path: Path, spark: Any):
    rows = some_of_all()
    write(tmp_path / "a.parquet", rows, rows.slice(100))
    used = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    encodings = {used.column(at).path_in_schema: used.column(at).encodings for at in range(used.num_columns)}
    assert "DELTA_LENGTH_BYTE_ARRAY" in encodings["token"]
    assert "DELTA_LENGTH_BYTE_ARRAY" in encodings["_before.hash"]
    assert "RLE_DICTIONARY" in encodings["_before.state"]
    found = spark.read.parquet(str(tmp_path)).toArrow()
    expected = pa.concat_tables([rows, rows.slice(100)])
    assert found.cast(expected.schema).sort_by("_seq").equals(expected.sort_by("_seq"))


texts = st.lists(st.none() | st.text(max_size=20) | st.sampled_from(["a", "b"]), min_size=1, max_size=60)


@given(texts, st.integers(1, 40))
def test_any_texts_are_read_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, values: list[str | None], times: int
):
    folder = tmp_path_factory.mktemp("any")
    binary = [None if value is None else value.encode() for value in values]
    rows = change_rows({"t": pa.array(values * times, pa.string()), "b": pa.array(binary * times, pa.binary())})
    content = write(folder / "a", rows)
    assert pq.read_table(folder / "a").equals(rows)
    assert write(folder / "b", rows) == content
