"""What a Parquet file's columns are encoded as, by what is in them; and that everybody reads them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, convert_to_deltalake
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


PACKED = ("id", "tiny", "small", "big", "random", "price", "sum", "day", "at", "moment")


def numbers() -> dict[str, pa.Array]:
    """Columns of all types that are packed, with their bounds, and of types like them that are not."""
    drawn = [int.from_bytes(sha256(str(at).encode()).digest()[:8], "big", signed=True) for at in range(ROWS)]
    first = datetime(1, 1, 1, tzinfo=UTC)
    at = [first + timedelta(days=1217 * one, microseconds=abs(drawn[one]) % 10**11) for one in range(ROWS)]
    return {
        "tiny": pa.array([None if one % 5 == 0 else one % 256 - 128 for one in range(ROWS)], pa.int8()),
        "small": pa.array([(one * 7919) % 65536 - 32768 for one in range(ROWS)], pa.int16()),
        "big": pa.array([(-(1 << 63), (1 << 63) - 1, 0)[one % 3] for one in range(ROWS)], pa.int64()),
        "random": pa.array(drawn, pa.int64()),
        "price": pa.array([Decimal(one % 10**9).scaleb(-2) for one in drawn], pa.decimal128(9, 2)),
        "sum": pa.array([Decimal(one % 10**18 - 5 * 10**17).scaleb(-4) for one in drawn], pa.decimal128(18, 4)),
        "unsigned": pa.array([Decimal(one % (1 << 64)) for one in drawn], pa.decimal128(20, 0)),
        "day": pa.array([one.date() for one in at], pa.date32()),
        "at": pa.array([None if one.year < 1600 else one.replace(tzinfo=None) for one in at], pa.timestamp("us")),
        "moment": pa.array(at, pa.timestamp("us", tz="UTC")),
        "ratio": pa.array([one / 7 for one in drawn], pa.float64()),
        "flag": pa.array([one % 3 == 0 for one in range(ROWS)]),
    }


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
            **numbers(),
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
        **{f"{image}{name}": "DELTA_BINARY_PACKED" for name in PACKED for image in ("", "_before.")},
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


@pytest.mark.parametrize(
    ("different", "rows", "has_dictionary"),
    [(16, 3000, True), (300, 5000, True), (300, 2000, False), (5000, 100_000, True), (100_000, 100_000, False)],
)
def test_a_dictionary_is_for_values_that_come_again(different: int, rows: int, has_dictionary: bool):
    generator = random.Random(7)
    names = [sha256(str(generator.randrange(different)).encode()).hexdigest()[:12] for _ in range(rows)]
    assert ("name" in choose_encodings(pa.table({"name": names})).dictionary) is has_dictionary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows, folder = some_of_all(), tmp_path_factory.mktemp("all")
    write(folder / "a.parquet", rows, rows.slice(100))
    return folder


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    rows = some_of_all()
    return pa.concat_tables([rows, rows.slice(100)]).sort_by([("_seq", "ascending"), ("large", "ascending")])


def ordered(found: pa.Table, expected: pa.Table) -> pa.Table:
    return found.select(expected.schema.names).cast(expected.schema).sort_by("_seq")


def test_every_encoding_is_used(folder: Path):
    used = pq.read_metadata(folder / "a.parquet").row_group(0)
    encodings = {used.column(at).path_in_schema: used.column(at).encodings for at in range(used.num_columns)}
    assert "DELTA_LENGTH_BYTE_ARRAY" in encodings["token"]
    assert "DELTA_LENGTH_BYTE_ARRAY" in encodings["_before.hash"]
    assert "RLE_DICTIONARY" in encodings["_before.state"]
    for name in PACKED:
        assert "DELTA_BINARY_PACKED" in encodings[name]
        assert "DELTA_BINARY_PACKED" in encodings[f"_before.{name}"]


@pytest.mark.spark
def test_spark_reads_every_encoding(folder: Path, expected: pa.Table, spark: Any):
    assert ordered(spark.read.parquet(str(folder / "a.parquet")).toArrow(), expected).equals(expected)


def test_duckdb_reads_every_encoding(folder: Path, expected: pa.Table):
    with duckdb.connect() as connection:
        found = pa.table(connection.execute(f"SET TimeZone = 'UTC'; FROM '{folder}/a.parquet'").arrow())
    assert ordered(found, expected).equals(expected)


def test_deltalake_reads_every_encoding(folder: Path, expected: pa.Table):
    convert_to_deltalake(folder)
    table = DeltaTable(folder)
    assert ordered(table.to_pyarrow_table(), expected).equals(expected)
    found = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
    assert ordered(pa.table(found), expected).equals(expected)


def test_pandas_reads_every_encoding(folder: Path, expected: pa.Table):
    found = pd.read_parquet(folder / "a.parquet", dtype_backend="pyarrow").sort_values("_seq", kind="stable")
    for name in (*PACKED, "unsigned", "token", "hash", "state", "note"):
        assert found[name].tolist() == pd.Series(expected[name], dtype=pd.ArrowDtype(expected[name].type)).tolist()


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
