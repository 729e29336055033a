"""Whoever opens the documented path reads all rows and their values, whatever became of the types of their columns."""

from __future__ import annotations

import importlib.util
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.fs import DeltaStorageHandler

from strata_cdc.quality.check_step.check_interval import spark_url
from strata_cdc.schema.model.definition import fold_name
from strata_cdc.tables.commit import publish
from strata_cdc.tables.continued import CONTINUES
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.read import read_changes
from tests.interposed import interposed
from tests.spark_session import spark
from tests.tables.changes import FIVE_MINUTES, INTERVAL, ORDERS, SOURCE, changes, stage

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["spark"]

Row = dict[str, Any]
DECIMAL10, DECIMAL12, DECIMAL20 = pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(20, 4)
GEOMETRY = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])

HISTORY: list[tuple[dict[str, pa.DataType], Row]] = [
    ({"id": pa.int32(), "price": DECIMAL10, "n": pa.int8()}, {"id": 1, "price": Decimal("1.25"), "n": 1}),
    # int to bigint, decimals that grow: the most frequent changes of a type.
    (
        {"id": pa.int64(), "price": DECIMAL12, "n": pa.int16()},
        {"id": 1 << 40, "price": Decimal("1234567890.25"), "n": 300},
    ),
    ({"id": pa.int64(), "price": DECIMAL20, "n": pa.float64()}, {"id": 3, "price": Decimal("0.0001"), "n": 1.5}),
    # Back to what there was, under a name in another case.
    ({"id": pa.int32(), "Price": DECIMAL10, "n": pa.int8()}, {"id": 4, "Price": Decimal("4.00"), "n": -4}),
    # To something else altogether, and a column called as a continuation is.
    ({"id": pa.string(), "price__decimal_12_2": DECIMAL12}, {"id": "five", "price__decimal_12_2": Decimal("5.00")}),
    (
        {"id": pa.int64(), "ID__long": pa.int64(), "price": DECIMAL12},
        {"id": 6, "ID__long": 66, "price": Decimal("6.00")},
    ),
    # What has fields, a list, and both kinds of time.
    (
        {"id": pa.int64(), "n": GEOMETRY, "at": pa.timestamp("us")},
        {"id": 7, "n": {"srid": 4326, "wkb": b"\1"}, "at": 7},
    ),
    (
        {"id": pa.int64(), "n": pa.list_(pa.float32()), "at": pa.timestamp("us", tz="UTC")},
        {"id": 8, "n": [0.5], "at": 8},
    ),
    ({"id": pa.int64(), "n": pa.int16()}, {"id": 9, "n": 9}),
]


def micros(value: Any, kind: pa.DataType) -> Any:
    return pa.scalar(value, pa.int64()).cast(kind).as_py() if pa.types.is_timestamp(kind) else value


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    lake = tmp_path_factory.mktemp("lake")
    for number, (fields, row) in enumerate(HISTORY, 1):
        image = {name: micros(value, fields[name]) for name, value in row.items()}
        # A DELETE and what becomes of it: every value stands in the row and in the one before it.
        batch = changes(fields, [{"op": "update", "seq": number, "before": image, "after": image}], version_id=number)
        interval = INTERVAL + number // 2 * FIVE_MINUTES + number
        staged = stage(lake / "runs" / str(number), batch, interval=interval)
        publish(str(lake), SOURCE, ORDERS, interval, staged)
    return table_url(str(lake), SOURCE, ORDERS)


def by_dataset(url: str) -> list[Row]:
    found: list[Row] = DeltaTable(url).to_pyarrow_table().to_pylist()
    return found


def by_deltalake_sql(url: str) -> list[Row]:
    found = QueryBuilder().register("changes", DeltaTable(url)).execute("SELECT * FROM changes").read_all()
    rows: list[Row] = pa.table(found).to_pylist()
    return rows


def by_duckdb(url: str) -> list[Row]:
    package = importlib.util.find_spec("duckdb_ext")
    assert package is not None
    assert package.submodule_search_locations is not None
    (extension,) = Path(package.submodule_search_locations[0]).rglob("delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = 'UTC'; LOAD '{extension}'")
        found = connection.execute(f"SELECT * FROM delta_scan('{url}')").arrow()
        rows: list[Row] = pa.table(found).to_pylist()
        return rows


def by_polars(url: str) -> list[Row]:
    return pl.scan_delta(url).collect().to_dicts()


READERS = (by_dataset, by_deltalake_sql, by_duckdb, by_polars)


def continued(url: str) -> dict[str, list[str]]:
    """Columns of the table by the column of which they are the continuation."""
    found: dict[str, list[str]] = {}
    for field in DeltaTable(url).schema().fields:
        found.setdefault(fold_name(str(field.metadata.get(CONTINUES, field.name))), []).append(field.name)
    return found


def comparable(value: Any) -> Any:
    return value.timestamp() if hasattr(value, "timestamp") and value.tzinfo else value


def image_of(row: Row, columns: dict[str, list[str]]) -> Row:
    """What a row has, by the column of MySQL's table."""
    image: Row = {}
    for plain, names in columns.items():
        values = [row[name] for name in names if row.get(name) is not None]
        assert len(values) <= 1
        if values and not plain.startswith("_"):
            image[plain] = comparable(values[0])
    return image


def check_rows(rows: list[Row], url: str) -> None:
    columns = continued(url)
    assert [row["_seq"] for row in sorted(rows, key=lambda row: row["_seq"])] == list(range(1, len(HISTORY) + 1))
    for row in rows:
        fields, wanted = HISTORY[row["_seq"] - 1]
        expected = {fold_name(name): comparable(micros(value, fields[name])) for name, value in wanted.items()}
        assert image_of(row, columns) == expected
        assert image_of(row["_before"], columns) == expected


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_all_rows_at_the_documented_path(read: Callable[[str], list[Row]], url: str) -> None:
    check_rows(read(url), url)


def test_the_names_are_unlike_for_every_reader(url: str) -> None:
    names = DeltaTable(url).to_pyarrow_table().column_names
    assert len({name.lower() for name in names}) == len(names)
    assert [name for name in names if not name.startswith("_")][:3] == ["id", "price", "n"]


def test_optimized_and_vacuumed_it_reads_the_same(url: str) -> None:
    table = DeltaTable(url)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    for read in READERS:
        check_rows(read(url), url)


def test_arrow_reads_without_calling_python(tmp_path: Path) -> None:
    """A thread of Arrow's that calls Python while the interpreter ends aborts the process: seen in 1 of 7 scripts."""

    def refuse(*_: object) -> None:
        raise AssertionError("deltalake's file system is written in Python")

    lake = str(tmp_path / "a lake, ü #1")
    fields, row = HISTORY[0]
    staged = stage(f"{lake}/runs/a", changes(fields, [{"op": "insert", "after": row}]))
    with interposed(refuse, (DeltaStorageHandler, "from_table")):
        publish(lake, SOURCE, ORDERS, INTERVAL, staged)
        assert read_changes(lake, SOURCE, ORDERS).num_rows == 1


def test_read_as_one_where_types_agree(tmp_path: Path) -> None:
    for number, (fields, row) in enumerate(HISTORY[:2], 1):
        batch = changes(fields, [{"op": "update", "seq": number, "before": row, "after": row}], version_id=number)
        staged = stage(tmp_path / str(number), batch, interval=INTERVAL + number)
        publish(str(tmp_path), SOURCE, ORDERS, INTERVAL + number, staged)
    found = read_changes(str(tmp_path), SOURCE, ORDERS).sort_by("_seq")
    assert found.schema.names[:3] == ["id", "price", "n"]
    assert found.schema.field("price").type == DECIMAL12
    images = [row for _, row in HISTORY[:2]]
    assert found.select(["id", "price", "n"]).to_pylist() == images
    assert found["_before"].to_pylist() == images
    assert read_changes(str(tmp_path), SOURCE, ORDERS, columns=["PRICE"]).column_names == ["price"]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_all_rows_by_the_files(spark: Any, url: str) -> None:
    uris = DeltaTable(url).file_uris()
    frame = spark.read.option("mergeSchema", "true").parquet(*map(spark_url, uris))
    check_rows(frame.toArrow().to_pylist(), url)
