"""Which column takes which, in any history of types and names: none is lost, shared, or called like another."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.changes.arrow import GEOMETRY, INVALID, TIMESTAMP_UTC, VECTOR
from strata_cdc.schema.model.definition import fold_name
from strata_cdc.tables.continued import CONTINUES, ColumnPlacement, place_columns, plain_name
from strata_cdc.tables.outputs import OUTPUT

TYPES = [pa.int32(), pa.int64(), pa.decimal128(10, 2), pa.decimal128(12, 2), pa.string(), pa.struct([("a", pa.int8())])]
NAMES = ["price", "Price", "price__long", "PRICE__long", "price__long_2", "i", "\u0131", "ss", "ß", "price__long__long"]
SHAPES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TYPES), min_size=1, max_size=5).filter(
    lambda shape: len({fold_name(name) for name in shape}) == len(shape)
)


def fields_of(shape: dict[str, pa.DataType]) -> list[pa.Field]:
    before = pa.struct(list(shape.items()))
    return list(OUTPUT.stored(pa.schema([*shape.items(), ("_before", before), ("_op", pa.string())])))


def with_added(fields: list[pa.Field], added: tuple[pa.Field, ...]) -> list[pa.Field]:
    """As outputs add columns."""
    found = {field.name: field for field in fields}
    for field in added:
        known = found.get(field.name)
        if known is not None:
            grown = pa.struct([*known.type.fields, *field.type.fields])
        found[field.name] = field if known is None else pa.field(field.name, grown)
    return list(found.values())


def place(fields: list[pa.Field], shape: dict[str, pa.DataType]) -> tuple[list[pa.Field], ColumnPlacement]:
    placement = place_columns(fields, fields_of(shape))
    return with_added(fields, placement.added), placement


def targets(shape: dict[str, pa.DataType], placement: ColumnPlacement) -> dict[str, str]:
    return {name: placement.names.get(name, name) for name in shape}


@given(st.lists(SHAPES, max_size=6))
@settings(deadline=None)
def test_any_history(shapes: list[dict[str, pa.DataType]]) -> None:
    fields: list[pa.Field] = []
    went: list[dict[str, str]] = []
    for shape in shapes:
        fields, placement = place(fields, shape)
        went.append(targets(shape, placement))
        assert len(set(went[-1].values())) == len(shape)
    types = {field.name: field.type for field in fields}
    plain = {field.name: plain_name(field) for field in fields}
    # No reader takes two columns for one.
    assert len({name.upper().casefold() for name in types}) == len(types)
    for shape, names in zip(shapes, went, strict=True):
        # What was placed once is placed so again, whatever came since.
        again, placement = place(fields, shape)
        assert (len(again), placement.added, targets(shape, placement)) == (len(fields), (), names)
        for field in fields_of(shape)[: len(shape)]:
            assert types[names[field.name]] == field.type
            assert fold_name(plain[names[field.name]]) == fold_name(field.name)
    images = next((field.type for field in fields if field.name == "_before"), pa.struct([]))
    own = {field.name: (field.type, field.metadata) for field in fields if field.name not in {"_before", "_op"}}
    assert {field.name: (field.type, field.metadata) for field in images.fields} == own


def names_after(*shapes: dict[str, pa.DataType]) -> list[str]:
    fields: list[pa.Field] = []
    for shape in shapes:
        fields, _ = place(fields, shape)
    return [field.name for field in fields if not field.name.startswith("_")]


def test_names() -> None:
    old, new = {"price": pa.decimal128(10, 2)}, {"price": pa.decimal128(12, 2)}
    assert names_after(old, new, old, {"PRICE": pa.decimal128(12, 2)}) == ["price", "price__decimal_12_2"]
    # A column of MySQL's table that is called as a continuation would be, before and after there is one.
    real = {"price__decimal_12_2": pa.decimal128(12, 2)}
    assert names_after(old | real, new | real) == ["price", "price__decimal_12_2", "price__decimal_12_2_2"]
    assert names_after(old, new | real) == ["price", "price__decimal_12_2_2", "price__decimal_12_2"]
    assert names_after(old, new, real) == ["price", "price__decimal_12_2", "price__decimal_12_2__decimal_12_2"]
    assert names_after({"Name": pa.string()}, {"name": pa.int64()}) == ["Name", "Name__long"]


def test_a_reader_is_told_what_a_column_goes_on_from() -> None:
    fields, _ = place([], {"id": pa.int32()})
    _, placement = place(fields, {"id": pa.int64()})
    column, images = placement.added
    assert column.metadata == {CONTINUES.encode(): b"id", b"comment": b"goes on from id: its values of type long"}
    (inside,) = images.type.fields
    assert inside.equals(column, check_metadata=True)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.int8(), "byte"),
        (pa.int16(), "short"),
        (pa.int32(), "integer"),
        (pa.int64(), "long"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(20, 0), "decimal_20_0"),
        (pa.bool_(), "boolean"),
        (pa.string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.binary(), "binary"),
        (pa.date32(), "date"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (TIMESTAMP_UTC, "timestamp"),
        (VECTOR, "array"),
        (GEOMETRY, "struct"),
        (INVALID, "map"),
    ],
)
def test_words_for_types(kind: pa.DataType, words: str) -> None:
    """They are in the names of published columns."""
    other = {"x": pa.int64() if kind != pa.int64() else pa.int32()}
    assert names_after(other, {"x": kind}, other, {"x": kind}) == ["x", f"x__{words}"]
