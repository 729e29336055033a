"""Where the values of a table's columns are in its change tables, for the views over these.
Not here: which versions belong to a table (`lifetimes.py`), whole versions (`view_branches.py`), SQL
(`dialects/views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec.structs import replace

from strata_cdc.changes.arrow import arrow_type, has_many_forms, is_calendar, is_labelled, may_be_invalid
from strata_cdc.dialects.view_source import ColumnSource, ViewColumn
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.row_times import ROW_TIMES
from strata_cdc.schema.model.types import parse_column_type
from strata_cdc.tables.continued import plain_name
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.lifetimes import left_out
from strata_cdc.tables.origins import ValueOrigin, given_since
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.values.verbatim import NUMBER_OF_NO_LABEL, keeps_invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from strata_cdc.dialects.view_source import TypeChange
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.tables.lifetimes import Value


def view_columns(definition: TableDefinition, key: Collection[str]) -> tuple[ViewColumn, ...]:
    """The columns of a view.

    Args:
        definition: The table's definition in the view.
        key: Columns that identify a row.
    """
    folded = {fold_name(name) for name in key}
    return tuple(view_column(column, is_key=fold_name(column.name) in folded) for column in definition.columns)


def view_column(column: Column, *, is_key: bool) -> ViewColumn:
    """A column of a view; `is_key`: whether it is one of those that identify a row."""
    return ViewColumn(
        column.name,
        column_name(column.name),
        _stored([column])[0],
        is_key=is_key,
        is_document=column.column_type == "json",
        is_generated=column.generated is not None and column.generation_expression not in ROW_TIMES,
        has_texts=may_be_invalid(column),
        is_zero=is_calendar(column) and not column.nullable,
        labelled=parse_column_type(column.column_type).kind.value if is_labelled(column) else "",
    )


def kinds_of(definition: TableDefinition) -> dict[str, pa.DataType]:
    """By folded name, the types of the columns in change tables."""
    names = [fold_name(column.name) for column in definition.columns]
    return dict(zip(names, _stored(definition.columns), strict=True))


def source_of(
    value: Value, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    """Where rows of a version have the value of a column.

    Args:
        value: The value according to the history.
        there: Columns of the table in the lake.
        kinds: Types of the version's columns in change tables, by folded name.
    """
    if value.column is None:
        return _source_of_given(value, column)
    column_source = _source_in(value.column, column, there, kinds)
    return replace(column_source, lacking=_source_of_given(left_out(value.column), column, column_source.empty_text))


def converted_source_of(
    origin: ValueOrigin, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    """As `source_of`, through changes of the column's type, with the value's origin according to the history."""
    if origin.column is None:
        return _source_of_given(origin, column)
    for step in origin.steps:
        if step.unknown is not None:
            return ColumnSource(unknown=step.unknown)
    column_source = _source_in(origin.column, column, there, kinds)
    given = left_out(origin.column)
    if not origin.steps:
        return replace(column_source, lacking=_source_of_given(given, column, column_source.empty_text))
    lacking = given if given.unknown else given_since(given.given, origin.column, origin.steps, given.text)
    of_null = given_since(None, origin.column, origin.steps)
    return replace(
        column_source,
        kind=kinds[fold_name(origin.column.name)],
        steps=origin.steps,
        by_text=_needs_texts(origin.steps, column),
        loses_texts=_loses_texts(origin.steps, column),
        lacking=_source_of_given(lacking, column),
        of_null=_source_of_given(of_null, column) if _refuses_null(origin.steps) else None,
    )


def _needs_texts(steps: Sequence[TypeChange], column: ViewColumn) -> bool:
    """Whether conversions depend on what `_invalid` has: on which of the labels that share a text, and in a key on
    which bytes of a text that has several forms."""
    sides = [side for step in steps for side in (step.before, step.after)]
    return any(
        (is_labelled(side) and may_be_invalid(side)) or (column.is_key and has_many_forms(side)) for side in sides
    )


def _loses_texts(steps: Sequence[TypeChange], column: ViewColumn) -> bool:
    """Whether values that no column of the lake holds were changed; invalid dates are not if the type stays a date. A
    key has to be distinguished from others, so there they are if it gets fewer digits."""
    return any(_loses_dates(step, column) or _loses_forms(step) for step in steps)


def _loses_dates(step: TypeChange, column: ViewColumn) -> bool:
    if not is_calendar(step.before):
        return False
    return not (keeps_invalid(step.before, step.after) if column.is_key else is_calendar(step.after))


def _loses_forms(step: TypeChange) -> bool:
    return has_many_forms(step.before) and step.after.character_set is None


def _refuses_null(steps: Sequence[TypeChange]) -> bool:
    return any(step.before.nullable and not step.after.nullable for step in steps)


def _source_in(
    column_then: Column, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    """The source in the column that had the value then."""
    name = column_then.name
    wanted = fold_name(column_name(name))
    kind = kinds[fold_name(name)]
    # Columns of other types have the values of other versions.
    fields = [field for field in there if fold_name(plain_name(field)) == wanted and field.type == kind]
    return ColumnSource(
        tuple(field.name for field in fields),
        is_cast=bool(fields) and kind != column.kind,
        missing=name,
        empty_text=_empty_text(column_then, column),
    )


def _empty_text(then: Column, column: ViewColumn) -> str | None:
    """If no label is empty, an empty text is an ENUM's error value, or a SET without members. If ALTER adds an empty
    label, such a value stays as it is, and is different from the label."""
    if not (column.has_texts and column.labelled):
        return None
    kind = parse_column_type(then.column_type)
    return NUMBER_OF_NO_LABEL if kind.kind.value == column.labelled and "" not in kind.labels else None


def _source_of_given(value: Value | ValueOrigin, column: ViewColumn, empty_text: str | None = None) -> ColumnSource:
    given, text = value.given, value.text
    if given is not None and empty_text is not None and given.as_py() == "":
        text = empty_text
    literal = None if given is None else given.cast(column.kind)
    return ColumnSource(literal=literal, literal_text=text, unknown=value.unknown)


def _stored(columns: Sequence[Column]) -> list[pa.DataType]:
    # By number: two columns may have names that differ only in case, and only the types are needed.
    plain = pa.schema([pa.field(str(at), arrow_type(column)) for at, column in enumerate(columns)])
    return list(OUTPUT.stored(plain).types)
