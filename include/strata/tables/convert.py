"""What an ALTER TABLE does to the rows that are there, as the server does it: for replays that reach over DDL.
Not here: what the ALTER asks for (`schema/ddl/changes.py`), the rows between two of them (`state.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import Usage
from strata.rows.arrow import arrow_type
from strata.schema.model.folding import fold_name
from strata.schema.model.types import TypeKind, parse_column_type
from strata.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from strata.schema.model.definition import Column, TableDefinition

_WIDEST = 38


def state_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of a table's rows, as its change table calls them."""
    return pa.schema([pa.field(column_name(column.name), arrow_type(column)) for column in definition.columns])


def convert_rows(
    rows: pa.Table,
    old: TableDefinition,
    new: TableDefinition,
    renamed: Mapping[str, str],
    added: Collection[str] = (),
) -> pa.Table:
    """Rows of one shape in another.

    Args:
        rows: With the columns of `old` as the change table calls them.
        old: The shape they have.
        new: The shape they get.
        renamed: New name -> old name, of columns that were renamed.
        added: New columns, even where the old shape has one of that name (dropped and added in one statement).

    Raises:
        Usage: The server computed values that nothing in the log tells: defaults like CURRENT_TIMESTAMP, generated
            columns, conversions that depend on the session.
    """
    sources = {fold_name(name): fold_name(source) for name, source in renamed.items()}
    taken = set(sources.values())
    fresh = {fold_name(name) for name in added}
    old_columns = {fold_name(column.name): column for column in old.columns}
    arrays = []
    for column in new.columns:
        name = fold_name(column.name)
        source = sources.get(name, name)
        if name in fresh or source not in old_columns or (name not in sources and name in taken):
            arrays.append(_default(column, rows.num_rows))
        else:
            before = old_columns[source]
            arrays.append(_convert(rows[column_name(before.name)], before, column))
    return pa.Table.from_arrays(arrays, schema=state_schema(new))


def _default(column: Column, count: int) -> pa.Array:
    """What the rows that are there get in a column that is added."""
    kind = parse_column_type(column.column_type)
    implicit = kind.labels[0] if kind.kind is TypeKind.ENUM else kind.kind.facts.implicit_default
    if column.generated is not None or column.default_is_expression:
        if count == 0:
            return pa.nulls(0, arrow_type(column))
        raise Usage(f"the log does not tell what existing rows got in the new column {column.name}")
    text = column.default if column.default is not None or column.nullable else implicit
    if text is None:
        return pa.nulls(count, arrow_type(column))
    target = arrow_type(column)
    if pa.types.is_binary(target):
        return pa.repeat(pa.scalar(text.encode(), target), count)
    return pa.repeat(_cast(pa.chunked_array([pa.array([text])]), target)[0], count).cast(target)


def _convert(values: pa.ChunkedArray, before: Column, after: Column) -> pa.ChunkedArray:
    target = arrow_type(after)
    if values.type == target:
        return _shortened(values, after)
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(target):
        raise Usage(f"{before.name}: what a conversion between DATETIME and TIMESTAMP gives depends on the session")
    try:
        return _shortened(_cast(values, target), after)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise Usage(
            f"{after.name}: how MySQL converts {before.column_type} to {after.column_type} is not known here: {error}"
        ) from error


def _shortened(values: pa.ChunkedArray, after: Column) -> pa.ChunkedArray:
    """Fraction digits that the new type has no room for are rounded, half up (manual, "Fractional Seconds")."""
    kind = parse_column_type(after.column_type)
    if kind.kind in {TypeKind.DATETIME, TypeKind.TIMESTAMP, TypeKind.TIME} and (kind.length or 0) < 6:
        unit = 10 ** (6 - (kind.length or 0))
        micros = values.cast(pa.int64())
        rest = pc.subtract(
            micros, pc.multiply(pc.floor(pc.divide(pc.cast(micros, pa.float64()), unit)).cast(pa.int64()), unit)
        )
        if pc.any(pc.not_equal(rest, 0)).as_py():
            up = pc.if_else(pc.greater_equal(pc.multiply(rest, 2), unit), unit, 0)
            return pc.add(pc.subtract(micros, rest), up).cast(values.type)
    if kind.kind is TypeKind.CHAR:
        return pc.utf8_rtrim(values, " ")
    return values


def _cast(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """A cast as MySQL does it: numbers that lose digits are rounded, half away from zero."""
    given = values.type
    if pa.types.is_decimal(target):
        if pa.types.is_integer(given):
            values = values.cast(pa.decimal128(_WIDEST, 0)) if target.scale == 0 else _scaled(values, target.scale)
        elif (pa.types.is_decimal(given) and given.scale > target.scale) or pa.types.is_floating(given):
            values = pc.round(values, target.scale, round_mode="half_towards_infinity")
        return values.cast(pa.decimal128(_WIDEST, target.scale)).cast(target)
    if pa.types.is_integer(target) and pa.types.is_decimal(given):
        return pc.round(values, 0, round_mode="half_towards_infinity").cast(pa.decimal128(_WIDEST, 0)).cast(target)
    if pa.types.is_integer(target) and pa.types.is_floating(given):
        return pc.round(values, 0, round_mode="half_to_even").cast(target)
    return values.cast(target)


def _scaled(values: pa.ChunkedArray, scale: int) -> pa.ChunkedArray:
    return values.cast(pa.decimal128(_WIDEST - scale, 0)).cast(pa.decimal128(_WIDEST, scale))
