"""A Parquet file whose columns get other names: pyarrow reads the same values, and the pages are the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.tables.parquet_names import rename_columns
from tests.tables.changes import INTERVAL, changes, stage

IMAGE = {
    "a": pa.int32(),
    "b": pa.string(),
    "g": pa.struct([("a", pa.int32()), ("b", pa.binary())]),
    "v": pa.list_(pa.float32()),
    "t": pa.timestamp("us", tz="UTC"),
    "ä": pa.decimal128(38, 2),
}
NAMES = st.dictionaries(
    st.sampled_from(list(IMAGE)), st.text("xyz_é🐬", min_size=1, max_size=300), max_size=len(IMAGE)
).filter(lambda names: len({*names.values(), *(set(IMAGE) - set(names))}) == len(IMAGE))


def parquet(groups: int) -> bytes:
    row = {"a": 1, "b": "b", "g": {"a": 2, "b": b"x"}, "v": [1.5], "t": None, "ä": None}
    rows = [{"op": "update", "before": row, "after": {**row, "a": at}, "missing": ["a"]} for at in range(40)]
    table = pa.Table.from_batches([changes(IMAGE, rows).batch])
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=len(rows) // groups, compression="zstd")
    return sink.getvalue()


FILES = {groups: parquet(groups) for groups in (1, 20)}


def renamed(schema: pa.Schema, names: dict[str, str]) -> pa.Schema:
    fields: list[pa.Field] = []
    for field in schema:
        if field.name == "_before":
            fields.append(
                field.with_type(pa.struct([one.with_name(names.get(one.name, one.name)) for one in field.type]))
            )
        else:
            fields.append(field.with_name(names.get(field.name, field.name)))
    return pa.schema(fields)


def values(table: pa.Table) -> list[Any]:
    """All columns, those in `_before` too, without the names."""
    at = table.schema.get_field_index("_before")
    images = table.column(at).combine_chunks()
    own = [column.combine_chunks() for column in table.remove_column(at).columns]
    return [*own, images.is_null(), *images.flatten()]


@given(NAMES, st.sampled_from([1, 20]))
@settings(max_examples=40, deadline=None)
def test_values_stay(names: dict[str, str], groups: int) -> None:
    content = FILES[groups]
    parts = rename_columns(content, names)
    made = b"".join(parts)
    was, now = pq.read_table(io.BytesIO(content)), pq.read_table(io.BytesIO(made))
    assert now.schema == renamed(was.schema, names)
    assert all(column.equals(other) for column, other in zip(values(now), values(was), strict=True))
    assert bytes(parts[0]) == content[: len(parts[0])]
    metadata = pq.read_metadata(io.BytesIO(made))
    assert metadata.num_row_groups == pq.read_metadata(io.BytesIO(content)).num_row_groups
    paths = {metadata.row_group(0).column(at).path_in_schema for at in range(metadata.num_columns)}
    assert {names.get(name, name) for name in ("a", "b", "t")} <= paths
    assert {f"_before.{names.get(name, name)}" for name in ("a", "b", "t")} <= paths


def test_columns_inside_of_others_keep_their_names() -> None:
    found = pq.read_table(io.BytesIO(b"".join(rename_columns(FILES[1], {"a": "n"}))))
    assert [field.name for field in found.schema.field("g").type] == ["a", "b"]
    assert [field.name for field in found.schema.field("_before").type] == ["n", "b", "g", "v", "t", "ä"]
    assert found["_missing"].to_pylist()[0] == ["a"]


def test_without_names_nothing_is_copied() -> None:
    assert rename_columns(FILES[1], {})[0] is FILES[1]


def test_as_the_writer_writes_them(tmp_path: Path) -> None:
    rows = [{"op": "insert", "after": {"a": at}} for at in range(3)]
    (file,) = stage(tmp_path, changes({"a": pa.int32()}, rows), interval=INTERVAL)
    found = pq.read_table(io.BytesIO(b"".join(rename_columns(Path(file.url).read_bytes(), {"a": "a__long"}))))
    assert found["a__long"].to_pylist() == [0, 1, 2]
    assert found.schema.field("_committed_at").type == pa.timestamp("us", tz="UTC")
