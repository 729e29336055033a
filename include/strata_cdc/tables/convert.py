"""What an ALTER TABLE does to existing rows, computed as the server does it: for replays and mirrors that pass DDL.
Not here: which effect it has (`schema/history/effects.py`), single values (`values/`), the rows between two statements
(`state.py`)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.arrow_columns import no_rows
from strata_cdc.changes.arrow import GEOMETRY, arrow_type, may_be_invalid
from strata_cdc.errors import ReadAgainError
from strata_cdc.schema.model.conversions import ValueClass, keeps_values
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.schema.model.types import TypeKind
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.values.constants import constant
from strata_cdc.tables.values.known import converted
from strata_cdc.tables.values.pair import Pair
from strata_cdc.tables.values.verbatim import constant_text, converted_texts, refuse_zeroed
from strata_cdc.tables.verbatim import verbatim_name, verbatim_names

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.schema.model.row_effects import RowEffect


def state_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of a table's rows, with their names in its change table."""
    return pa.schema([pa.field(column_name(column.name), arrow_type(column)) for column in definition.columns])


def exact_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of `state_schema`, then the text columns for values that they do not hold."""
    texts = [pa.field(name, pa.string()) for name in verbatim_names(definition).values()]
    return pa.schema([*state_schema(definition), *texts])


def convert_exact_rows(rows: pa.Table, old: TableDefinition, new: TableDefinition, effect: RowEffect) -> pa.Table:
    """Converts rows in `exact_schema` from one definition to another; arguments and errors as in `convert_rows`."""
    converted_rows = convert_rows(rows, old, new, effect)
    fills = {filled.column: filled.value for filled in effect.filled}
    texts_of = verbatim_names(old)
    for column, before in effect.columns(old, new) if rows.num_rows else ():
        name, known = verbatim_name(column.name), None if before is None else texts_of.get(before.name)
        if before is not None and known is not None:
            refuse_zeroed(rows[known], before, effect.zeroed_dates)
        if before is None:
            texts = pa.chunked_array([constant_text(column, fills.get(column.name), rows.num_rows)])
        elif known is None and not may_be_invalid(column):
            continue
        else:
            nothing = pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
            held = rows[column_name(before.name)], converted_rows[column_name(column.name)]
            texts = converted_texts(nothing if known is None else rows[known], *held, before, column)
        if may_be_invalid(column):
            converted_rows = converted_rows.append_column(pa.field(name, pa.string()), texts)
    schema = exact_schema(new)
    return converted_rows.select(schema.names) if rows.num_rows else no_rows(schema)


def convert_rows(rows: pa.Table, old: TableDefinition, new: TableDefinition, effect: RowEffect) -> pa.Table:
    """Converts rows from one definition to another.

    Args:
        rows: With the columns of `old`, by their names in the change table.
        new: The definition that they get.
        effect: What the statement between the two does to rows.

    Raises:
        ReadAgainError: The server computed values that the log does not show: defaults like CURRENT_TIMESTAMP,
            generated columns, conversions that depend on the session, values that did not fit. Never raised without
            rows.
    """
    if rows.num_rows == 0:
        return no_rows(state_schema(new))
    if effect.kind is EffectKind.READ_AGAIN:
        raise ReadAgainError(effect.reason, remedy="Read the table's rows from the server again.")
    fills = {filled.column: filled.value for filled in effect.filled}
    arrays = [
        constant(column, fills[column.name], rows.num_rows)
        if before is None
        else convert_column(rows[column_name(before.name)], before, column, effect)
        for column, before in effect.columns(old, new)
    ]
    return pa.Table.from_arrays(arrays, schema=state_schema(new))


# Columns that were there ------------------------------------------------------------------------


def convert_column(values: pa.ChunkedArray, before: Column, after: Column, effect: RowEffect) -> pa.ChunkedArray:
    """The values of one existing column, in its new type; arguments and errors as in `convert_rows`."""
    if keeps_values(before, after) or after.generated is not None:
        return values
    pair = Pair.from_columns(before, after, truncates=effect.truncates_fractions, time_zone=effect.time_zone)
    if after.auto_increment and not before.auto_increment:
        _require_numbers(values, pair, effect)
    result = pa.chunked_array([converted(chunk, pair) for chunk in values.chunks], type=arrow_type(after))
    return _without_nulls(result, pair) if before.nullable and not after.nullable and result.null_count else result


def _require_numbers(values: pa.ChunkedArray, pair: Pair, effect: RowEffect) -> None:
    """Refuses values that are NULL or 0, because AUTO_INCREMENT gives numbers to them."""
    has_zeros = effect.numbers_zeros and pc.any(pc.equal(values.cast(pa.float64()), 0.0)).as_py()
    if values.null_count or has_zeros:
        pair.refuse("values are NULL or 0, which AUTO_INCREMENT gives numbers")


_ZERO_DATES = frozenset({ValueClass.DATE, ValueClass.DATETIME})


def _without_nulls(values: pa.ChunkedArray, pair: Pair) -> pa.ChunkedArray:
    """Replaces NULL by the type's zero, as the server does outside strict mode; in strict mode the statement fails."""
    kind = pair.classes[1]
    if kind in _ZERO_DATES:
        return values
    if values.type == GEOMETRY or kind in {ValueClass.JSON, ValueClass.VECTOR, ValueClass.TIMESTAMP}:
        pair.refuse("values are NULL")
    if pa.types.is_string(values.type):
        zero = "" if kind is not ValueClass.DECIMAL else _zero_text(pair)
        return values.fill_null(zero)
    if pa.types.is_binary(values.type):
        return values.fill_null(b"\0" * (pair.new.length or 0) if pair.new.kind is TypeKind.BINARY else b"")
    if pa.types.is_boolean(values.type):
        return values.fill_null(fill_value=False)
    return values.fill_null(pa.scalar(Decimal(0) if pa.types.is_decimal(values.type) else 0, values.type))


def _zero_text(pair: Pair) -> str:
    decimals = pair.new.decimals or 0
    return "0." + "0" * decimals if decimals else "0"
