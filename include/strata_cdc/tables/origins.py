"""What rows of one version had for a column of now, through each change of the column's type since.
Not here: which versions are a table's (`lifetimes.py`), the conversions themselves (`convert.py`, in SQL
`dialects/conversions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.dialects.view_source import TypeChange
from strata_cdc.errors import ReadAgainError
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect
from strata_cdc.tables.convert import convert_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import Column


class ValueOrigin(Struct, frozen=True):
    """What rows of one version had for a column of now, and what became of it since."""

    column: Column | None = None
    """As it was then; None if it was not there, or nobody knows what became of it."""
    steps: tuple[TypeChange, ...] = ()
    """That changed its values since, in order."""
    given: pa.Scalar | None = None
    """Without a column: what the rows that were there have by now; None for NULL."""
    unknown: str | None = None
    """Why the log does not tell."""


def step_of(before: Column, after: Column, effect: RowEffect) -> TypeChange | str | None:
    """What a statement made of the values of a column that stays.

    Args:
        before: The column.
        after: The column behind the statement.
        effect: Of the statement.

    Returns:
        The conversion; a text where nobody knows what the server made of them; None where they are as they were.
    """
    if after.name in {one.column for one in effect.converted}:
        return TypeChange(before, after, effect.truncates_fractions, effect.time_zone, effect.numbers_zeros)
    if effect.reason and (after.generated is not None or _type_of(before) != _type_of(after)):
        return f"{shown_step(before, after)} ({effect.reason})"
    return None


def shown_step(before: Column, after: Column) -> str:
    """What is asked for where nobody knows what a statement made of a column's values, for people."""
    return f"what became of {before.name} when it was {before.column_type} and got {after.column_type}"


def _type_of(column: Column) -> tuple[object, ...]:
    return column.column_type, column.character_set, column.nullable, column.auto_increment


def given_since(value: pa.Scalar | None, column: Column, steps: Sequence[TypeChange]) -> ValueOrigin:
    """What became of one value through conversions.

    Args:
        value: Of the column; None for NULL.
        column: As it was before the first of them.
        steps: The conversions, in order.
    """
    kind = arrow_type(column)
    found = pa.chunked_array([pa.nulls(1, kind) if value is None else pa.array([value.as_py()], kind)])
    try:
        for step in steps:
            found = stepped(found, step)
    except ReadAgainError as error:
        return ValueOrigin(unknown=error.facts().message)
    return ValueOrigin(given=found[0] if found[0].is_valid else None)


def stepped(values: pa.ChunkedArray, step: TypeChange) -> pa.ChunkedArray:
    """What a conversion makes of values, as mirrors compute it.

    Raises:
        ReadAgainError: Nobody knows what the server made of some of them.
    """
    effect = RowEffect(
        kind=EffectKind.CONVERT,
        truncates_fractions=step.truncates,
        time_zone=step.time_zone,
        numbers_zeros=step.numbers_zeros,
    )
    return convert_column(values, step.before, step.after, effect)
