"""Rows with texts of the values that their columns do not hold: in memory, each such column has a second one for these.

A change table has these texts in its map `_invalid`, and a mirror in a map of the same name. In memory they are in a
column like any other, so that keys and rows that are different on the server are never equal here.
Not here: which values these are (`changes/arrow.py`, `may_be_invalid`), keys (`mirrors/layout.py`).
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE, INVALID, may_be_invalid
from strata_cdc.tables.layout import column_name, own_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.schema.model.definition import TableDefinition

    Columns = dict[str, pa.ChunkedArray]

INVALID_COLUMN: Final = "_invalid"
_PREFIX: Final = f"{INVALID_COLUMN}\0"
"""No identifier of MySQL has a NUL (manual, "Schema Object Names")."""


def verbatim_name(name: str) -> str:
    """The name of the text column of a column, from MySQL's name of that column."""
    return f"{_PREFIX}{name}"


def column_of_verbatim(name: str) -> str | None:
    """MySQL's name of the column whose texts a column has; None if it is not a text column."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def verbatim_names(definition: TableDefinition) -> dict[str, str]:
    """MySQL's name of each column that may have such values -> the name of its text column."""
    return {column.name: verbatim_name(column.name) for column in definition.columns if may_be_invalid(column)}


def exact_names(definition: TableDefinition, names: Sequence[str]) -> tuple[str, ...]:
    """Some columns, by their names in the change table, and their text columns: these distinguish all values."""
    texts = {column_name(of): name for of, name in verbatim_names(definition).items()}
    return (*names, *(texts[name] for name in names if name in texts))


def exact_changes(changes: pa.Table, definition: TableDefinition) -> pa.Table:
    """Changes with text columns for both images; in `_before`, for the columns that it has.

    Args:
        changes: With the columns of `definition`, `_before` and `_invalid`.
    """
    names = verbatim_names(definition)
    if not names or any(name in changes.schema.names for name in names.values()):
        return changes
    invalid, images = changes[INVALID_COLUMN], changes[BEFORE]
    inside = {images.type.field(at).name: pc.struct_field(images, [at]) for at in range(images.type.num_fields)}
    for of, name in names.items():
        changes = changes.append_column(pa.field(name, pa.string()), _texts(invalid, of))
        if column_name(of) in inside:
            inside[name] = _texts(invalid, f"{BEFORE}.{of}")
    if len(inside) > images.type.num_fields:
        arrays = [column.combine_chunks() for column in inside.values()]
        made = pa.StructArray.from_arrays(arrays, list(inside), mask=images.is_null().combine_chunks())
        changes = changes.set_column(changes.schema.get_field_index(BEFORE), BEFORE, pa.chunked_array([made]))
    return changes


def has_values(columns: Mapping[str, pa.ChunkedArray], names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """For each column, including text columns, whether a row has a value in it or in its text column."""
    present = {}
    for name in names:
        of = column_of_verbatim(name)
        beside = column_name(of) if of is not None else verbatim_name(own_name(name))
        either = [columns[column].is_valid() for column in (name, beside) if column in columns]
        present[name] = either[0] if len(either) == 1 else pc.or_(*either)
    return present


def coalesced(first: Columns, second: Columns, names: Sequence[str]) -> Columns:
    """Some columns, including text columns: from `first` if a row has a value there, else from `second`."""
    has = has_values(first, names)
    return {name: pc.if_else(has[name], first[name], second[name]) for name in names}


def with_all(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows that have a value or a text in all of some columns."""
    has = has_values({name: rows[name] for name in rows.schema.names}, names)
    return rows.filter(reduce(pc.and_, has.values())) if has else rows


def own_texts(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: with texts instead of the values that columns do not hold."""
    texts = {column_of_verbatim(name): text for name, text in row.items() if text is not None}
    return {name: texts.get(own_name(name), value) for name, value in row.items() if column_of_verbatim(name) is None}


def image_texts(invalid: pa.ChunkedArray, prefix: str) -> pa.ChunkedArray:
    """The map with only the texts of images of one kind, by their columns' names; without differences of documents."""
    if invalid.null_count == len(invalid):
        return invalid
    texts = []
    for entries in invalid.to_pylist():
        # For a document, the text is a list of differences; all other texts begin with a digit.
        own = [(name, text) for name, text in entries or () if text[:1].isdigit()]
        own = [(name.removeprefix(f"{BEFORE}."), text) for name, text in own if name.startswith(BEFORE) is bool(prefix)]
        texts.append(own or None)
    return pa.chunked_array([pa.array(texts, INVALID)])


def opened(invalid: pa.ChunkedArray | None, names: Iterable[str], count: int, image: str = "") -> Columns:
    """The text columns of some rows, by their names.

    Args:
        invalid: The map of the rows; None if they have none.
        names: Names of text columns.
        count: Number of rows.
        image: Prefix of the names of columns in the map.
    """
    invalid_texts = pa.chunked_array([pa.nulls(count, INVALID)]) if invalid is None else invalid
    return {name: _texts(invalid_texts, f"{image}{column_of_verbatim(name)}") for name in names}


def map_in(rows: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | None:
    """The map `_invalid` that rows have; None if no row has a value in it."""
    if INVALID_COLUMN not in rows.schema.names:
        return None
    invalid = rows.column(INVALID_COLUMN)
    chunks = invalid if isinstance(invalid, pa.ChunkedArray) else pa.chunked_array([invalid])
    return chunks.cast(INVALID) if chunks.null_count < len(chunks) else None


def map_of(rows: pa.Table | pa.RecordBatch) -> pa.ChunkedArray | None:
    """The map `_invalid` for rows: their own, or made from their text columns; None if no row has a value in it."""
    if INVALID_COLUMN in rows.schema.names:
        return map_in(rows)
    made = _closed(rows)
    return None if made is None else pa.chunked_array([made])


def _closed(rows: pa.Table | pa.RecordBatch) -> pa.Array | None:
    own = {name: column_of_verbatim(name) for name in rows.schema.names}
    columns = {of: rows.column(name) for name, of in own.items() if of is not None}
    columns = {of: _one(column) for of, column in columns.items() if column.null_count < len(column)}
    if not columns:
        return None
    there = np.stack([np.asarray(column.is_valid()) for column in columns.values()], axis=1)
    places, which = np.nonzero(there)
    counts = there.sum(axis=1)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    keys = pa.array(list(columns), pa.string()).take(pa.array(which))
    # All texts of a column come after those of the previous column.
    texts = pa.concat_arrays(list(columns.values())).take(pa.array(which * rows.num_rows + places))
    starts = pa.array(offsets.astype(np.int32), mask=np.append(counts == 0, [False]))
    return pa.MapArray.from_arrays(starts, keys, texts)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _texts(invalid: pa.ChunkedArray, key: str) -> pa.ChunkedArray:
    if invalid.null_count == len(invalid):
        return pa.chunked_array([pa.nulls(len(invalid), pa.string())])
    return pc.map_lookup(invalid, key, "first")
