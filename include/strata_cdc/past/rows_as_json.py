"""Rows of a table at a moment as JSON values by name, and the row with a key among them.
Not here: the table at a moment (`table_at.py`), images of changes (`table_changes.py`)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from strata_cdc.arrow_columns import no_rows
from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.past.key_conversions import ConvertedValues
from strata_cdc.past.key_texts import KeyImage, KeyValues
from strata_cdc.schema.model.types import parse_column_type
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import exact_names, verbatim_name, verbatim_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.dialects.view_source import TypeChange
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import Column, TableDefinition


def json_columns(rows: pa.Table, definition: TableDefinition, names: Sequence[str]) -> list[list[Any]]:
    """The values of some columns as JSON has them, column by column; a value that a column does not hold, such as a
    zero date, is the text of it.

    Args:
        rows: In `exact_schema` (`tables/convert.py`).
        definition: The definition of the rows.
        names: The columns, as the definition spells them.
    """
    texts = verbatim_names(definition)
    columns = []
    for name in names:
        column = definition.column(name)
        if column is None:
            raise KeyError(name)
        kind = parse_column_type(column.column_type)
        values = JSON_VALUES[kind.kind](kind)(rows[column_name(name)].combine_chunks())
        if name in texts and rows[texts[name]].null_count < rows.num_rows:
            verbatim = rows[texts[name]].to_pylist()
            values = [text if value is None else value for value, text in zip(values, verbatim, strict=True)]
        columns.append(values)
    return columns


def json_rows_of(rows: pa.Table, definition: TableDefinition) -> list[dict[str, Any]]:
    """Rows as JSON values by name; arguments as for `json_columns`."""
    names = [column.name for column in definition.columns]
    columns = json_columns(rows, definition, names)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def rows_with_key(
    mirror: Mirror, names: Sequence[str], key: Sequence[str], since: Sequence[Sequence[TypeChange]] = ()
) -> pa.Table:
    """The rows of a mirror that have a key, in `exact_schema` and with `_seq`; of a primary key, at most one.

    Args:
        names: The columns of the key, as its definition spells them.
        key: Their values as texts (`key_texts.py`).
        since: By column, the conversions after which they are these values; empty: none.

    Raises:
        DamagedFileError: A file is gone or damaged.
        LakeUnavailableError: The storage does not answer.
    """
    wanted: list[KeyValues | ConvertedValues] = []
    for name, text, steps in zip(names, key, since or ((),) * len(key), strict=True):
        column = mirror.definition.column(name)
        if column is None:
            return no_rows(mirror.exact_schema)
        wanted.append(ConvertedValues(column, steps, text) if steps else KeyValues.from_texts(column, [text]))
    columns = exact_names(mirror.definition, [column_name(name) for name in names])
    parts = [no_rows(mirror.exact_schema)]
    for path, file in mirror.snapshot.files.items():
        alone = replace(mirror, snapshot=replace(mirror.snapshot, files={path: file}))
        if any(pc.any(_has(rows, wanted)).as_py() for rows in alone.exact_batches(columns)):
            parts += [rows.filter(_has(rows, wanted)) for rows in alone.exact_batches()]
    return pa.concat_tables(parts)


def _has(rows: pa.Table, wanted: Sequence[KeyValues | ConvertedValues]) -> pa.Array:
    return reduce(pc.and_, (values.among(key_image(rows, values.column)) for values in wanted))


def key_image(rows: pa.Table, column: Column) -> KeyImage:
    """The values of a column of a key; rows as for `json_columns`."""
    beside = verbatim_name(column.name)
    verbatim = rows[beside].combine_chunks() if beside in rows.schema.names else None
    return KeyImage(rows[column_name(column.name)].combine_chunks(), verbatim)
