"""Unites the columns of a change table that belong to one column of MySQL's table (one for each type that it had).
Not here: which columns these are (`continued.py`), types that can hold the values of others (`common_types.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.errors import Usage
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.common_types import common_type
from strata_cdc.tables.continued import CONTINUES, plain_name
from strata_cdc.tables.layout import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Columns = dict[str, pa.ChunkedArray]


def columns_of(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """The columns of a change table for some columns of MySQL's table, in the order of these."""
    return [field.name for name in names for field in schema if fold_name(plain_name(field)) == fold_name(name)]


def united(changes: pa.Table) -> pa.Table:
    """Changes with one column for each column of MySQL's table.

    Raises:
        TypeError: A column has had types without a common type; the message names the column.
    """
    if not any(CONTINUES.encode() in (field.metadata or {}) for field in changes.schema):
        return changes
    columns = {field.name: (field, changes[field.name]) for field in changes.schema}
    if BEFORE in columns:
        field, images = columns[BEFORE]
        columns[BEFORE] = field, _struct(_united(_inside(images)), images)
    named = _united(columns.values())
    return pa.Table.from_arrays(list(named.values()), names=list(named))


def as_schema(changes: pa.Table, schema: pa.Schema, before: pa.Schema | None = None) -> pa.Table:
    """Changes that one schema version has decoded, in the columns of this version, with their types.

    Args:
        changes: In the form of the change table.
        schema: The columns of the version, with the names that they have in a change table without several types.
        before: The columns that images before have; None for all.

    Returns:
        The columns of the schema, `_before` with the same or some of them, and Strata's own columns.
    """
    images = changes[BEFORE]
    inside = _as_fields(_inside(images), schema if before is None else before)
    columns: Columns = _as_fields(((field, changes[field.name]) for field in changes.schema), schema)
    columns[BEFORE] = _struct(inside, images)
    named = {**columns, **{name: changes[name] for name in METADATA if name != BEFORE and name in changes.schema.names}}
    return pa.Table.from_arrays(list(named.values()), names=list(named))


def _united(columns: Iterable[tuple[pa.Field, pa.ChunkedArray]]) -> Columns:
    united_columns: Columns = {}
    for field, column in columns:
        name = plain_name(field)
        united_columns[name] = _filled(name, united_columns[name], column) if name in united_columns else column
    return united_columns


def _filled(name: str, first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Puts two columns together; in each row at most one has a value."""
    kind = common_type(first.type, second.type)
    if kind is None:
        raise TypeError(f"{name} is {first.type} in some rows and {second.type} in others")
    return pc.coalesce(first.cast(kind), second.cast(kind))


def _inside(images: pa.ChunkedArray) -> list[tuple[pa.Field, pa.ChunkedArray]]:
    return [(images.type.field(at), pc.struct_field(images, [at])) for at in range(images.type.num_fields)]


def _struct(fields: Columns, images: pa.ChunkedArray) -> pa.ChunkedArray:
    """A struct of these fields; it is NULL where the images are NULL."""
    arrays = [column.combine_chunks() for column in fields.values()]
    made = pa.StructArray.from_arrays(arrays, list(fields), mask=images.is_null().combine_chunks())
    return pa.chunked_array([made])


def _as_fields(columns: Iterable[tuple[pa.Field, pa.ChunkedArray]], schema: pa.Schema) -> Columns:
    by_name: dict[str, list[pa.ChunkedArray]] = {}
    for field, column in columns:
        by_name.setdefault(fold_name(plain_name(field)), []).append(column)
    return {field.name: _of_type(field, by_name.get(fold_name(field.name), [])) for field in schema}


def _of_type(field: pa.Field, columns: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    for column in columns:
        if column.type == field.type or len(columns) == 1:
            return column
    raise Usage(f"the change table has no column of type {field.type} for {field.name}")
