"""Where the values of a table's columns are in its change tables, for the views over these.
Not here: which versions belong to a table (`lifetimes.py`), SQL (`dialects/views.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec.structs import replace

from strata_cdc.changes.arrow import arrow_type, has_many_forms, is_calendar, is_labelled, may_be_invalid
from strata_cdc.dialects.conversions import stay_apart
from strata_cdc.dialects.view_source import Branch, ColumnSource, ViewColumn
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import parse_column_type
from strata_cdc.tables.continued import plain_name
from strata_cdc.tables.current_rows import ROW_TIMES
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.lifetimes import left_out
from strata_cdc.tables.origins import given_since
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.values.verbatim import NUMBER_OF_NO_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from strata_cdc.dialects.view_source import TypeChange
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.tables.lifetimes import TableLifetime, Value
    from strata_cdc.tables.origins import ValueOrigin


def view_columns(definition: TableDefinition, key: Collection[str]) -> tuple[ViewColumn, ...]:
    """The columns of a view.

    Args:
        definition: The table's definition in the view.
        key: Columns that identify a row.
    """
    folded = {fold_name(name) for name in key}
    return tuple(
        ViewColumn(
            column.name,
            column_name(column.name),
            kind,
            is_key=fold_name(column.name) in folded,
            is_document=column.column_type == "json",
            is_generated=column.generated is not None and column.generation_expression not in ROW_TIMES,
            has_texts=may_be_invalid(column),
            is_zero=is_calendar(column) and not column.nullable,
            labelled=parse_column_type(column.column_type).kind.value if is_labelled(column) else "",
        )
        for column, kind in zip(definition.columns, _stored(definition), strict=True)
    )


def branches_of(
    life: TableLifetime, fields: Mapping[TableName, Sequence[pa.Field]], columns: Sequence[ViewColumn]
) -> list[Branch]:
    """The branches of a view; versions whose values are in the same columns are one branch.

    `life` is the table's lifetime, `fields` has the columns of each change table that exists, and `columns` are the
    columns of the view.
    """
    return _branches(life, fields, columns, place_of)


def _branches(
    life: TableLifetime,
    fields: Mapping[TableName, Sequence[pa.Field]],
    columns: Sequence[ViewColumn],
    place: Callable[[Value, ViewColumn, Sequence[pa.Field], Mapping[str, pa.DataType]], ColumnSource],
) -> list[Branch]:
    found: dict[tuple[str, tuple[ColumnSource, ...]], list[int]] = {}
    for era in life.eras:
        if era.name in fields:
            kinds = kinds_of(era.definition)
            there = fields[era.name]
            places = tuple(
                place(value, column, there, kinds) for value, column in zip(era.values, columns, strict=True)
            )
            found.setdefault((str(era.name), places), []).append(era.version_id)
    return [Branch(relation, tuple(versions), places) for (relation, places), versions in found.items()]


def held_branches_of(
    life: TableLifetime, fields: Mapping[TableName, Sequence[pa.Field]], columns: Sequence[ViewColumn]
) -> list[Branch]:
    """As `branches_of`, for the values that the table's rows have now; the same arguments."""
    return _branches(life, fields, columns, held_place_of)


def converted_branches_of(
    life: TableLifetime, fields: Mapping[TableName, Sequence[pa.Field]], columns: Sequence[ViewColumn]
) -> list[Branch]:
    """As `branches_of`, with the values of columns that had another type then; the same arguments."""
    return _branches(life, fields, columns, converted_place_of)


def kinds_of(definition: TableDefinition) -> dict[str, pa.DataType]:
    """By folded name, the types of the columns in change tables."""
    return dict(zip([fold_name(column.name) for column in definition.columns], _stored(definition), strict=True))


def place_of(
    value: Value, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    """Where rows of a version have the value of a column.

    Args:
        value: The value according to the history.
        column: The column of the view.
        there: Columns of the table in the lake.
        kinds: Types of the version's columns in change tables, by folded name.
    """
    if value.column is None:
        return _place_of_given(value, column)
    place = _place_in(value.column, column, there, kinds)
    return replace(place, lacking=_place_of_given(left_out(value.column), column))


def held_place_of(
    value: Value, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    """As `place_of`; if the server may have changed a value, it is not known."""
    if value.column is None and value.origin.column is None:
        return _place_of_given(value.origin, column)
    if value.changed is not None:
        return ColumnSource(unknown=value.changed)
    return place_of(value, column, there, kinds)


def converted_place_of(
    value: Value, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    """As `place_of`, through changes of the column's type."""
    origin = value.origin
    if origin.column is None:
        return _place_of_given(origin, column)
    place = _place_in(origin.column, column, there, kinds)
    given = left_out(origin.column)
    if not origin.steps:
        return replace(place, lacking=_place_of_given(given, column))
    if column.is_key and (column.has_texts or not all(map(stay_apart, origin.steps))):
        return ColumnSource(unknown=f"what distinguishes rows that had {origin.column.column_type} in {column.name}")
    lacking = given if given.unknown else given_since(given.given, origin.column, origin.steps)
    of_null = given_since(None, origin.column, origin.steps)
    return replace(
        place,
        kind=kinds[fold_name(origin.column.name)],
        steps=origin.steps,
        loses_texts=_loses_texts(origin.steps),
        lacking=_place_of_given(lacking, column),
        of_null=_place_of_given(of_null, column) if _refuses_null(origin.steps) else None,
    )


def _loses_texts(steps: Sequence[TypeChange]) -> bool:
    """Whether values that no column of the lake holds were changed; invalid dates are not, if the type stays a date."""
    return any(
        (is_calendar(step.before) and not is_calendar(step.after))
        or (has_many_forms(step.before) and step.after.character_set is None)
        for step in steps
    )


def _refuses_null(steps: Sequence[TypeChange]) -> bool:
    return any(step.before.nullable and not step.after.nullable for step in steps)


def _place_in(
    found: Column, column: ViewColumn, there: Sequence[pa.Field], kinds: Mapping[str, pa.DataType]
) -> ColumnSource:
    """The source in the column that had the value then."""
    name = found.name
    wanted = fold_name(column_name(name))
    kind = kinds[fold_name(name)]
    # Columns of other types have the values of other versions.
    fields = [field for field in there if fold_name(plain_name(field)) == wanted and field.type == kind]
    return ColumnSource(
        tuple(field.name for field in fields),
        is_cast=bool(fields) and kind != column.kind,
        missing=name,
        empty_text=_empty_text(found, column),
    )


def _empty_text(then: Column, column: ViewColumn) -> str | None:
    """If no label is empty, an empty text is an ENUM's error value, or a SET without members. If ALTER adds an empty
    label, such a value stays as it is, and is different from the label."""
    if not (column.has_texts and column.labelled):
        return None
    kind = parse_column_type(then.column_type)
    return NUMBER_OF_NO_LABEL if kind.kind.value == column.labelled and "" not in kind.labels else None


def _place_of_given(value: Value | ValueOrigin, column: ViewColumn) -> ColumnSource:
    given = value.given
    return ColumnSource(literal=None if given is None else given.cast(column.kind), unknown=value.unknown)


def _stored(definition: TableDefinition) -> list[pa.DataType]:
    # By number: two columns may have names that differ only in case, and only the types are needed.
    plain = pa.schema([pa.field(str(at), arrow_type(column)) for at, column in enumerate(definition.columns)])
    return list(OUTPUT.stored(plain).types)
