"""What rows of one version had for a current column, and each change of the column's type since.
Not here: which versions belong to a table (`lifetimes.py`), the conversions themselves (`convert.py`, in SQL
`dialects/conversions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import arrow_type, may_be_invalid
from strata_cdc.dialects.view_source import TypeChange
from strata_cdc.errors import ReadAgainError
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect
from strata_cdc.tables.convert import convert_column
from strata_cdc.tables.values.verbatim import converted_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import Column


class ValueOrigin(Struct, frozen=True):
    """What rows of one version had for a current column, and what happened to it since."""

    column: Column | None = None
    """The column as it was then; None if it did not exist, or it is not known what happened to it."""
    steps: tuple[TypeChange, ...] = ()
    """The statements that changed its values since, in order."""
    given: pa.Scalar | None = None
    """Without a column: what existing rows have now; None for NULL."""
    text: str | None = None
    """What `_invalid` would have for `given`."""
    unknown: str | None = None
    """Why the log does not show the value."""


def step_of(before: Column, after: Column, effect: RowEffect) -> TypeChange | str | None:
    """What a statement did to the values of a column that stays.

    Args:
        before: The column before the statement.
        after: The column after the statement.
        effect: The effect of the statement.

    Returns:
        The conversion; a text if it is not known what the server made of the values; None if they did not change.
    """
    if after.name in {converted.column for converted in effect.converted}:
        return TypeChange(before, after, effect.truncates_fractions, effect.time_zone, effect.numbers_zeros)
    if effect.reason and (after.generated is not None or _type_of(before) != _type_of(after)):
        return f"{shown_step(before, after)} ({effect.reason})"
    return None


def shown_step(before: Column, after: Column) -> str:
    """The open question for people, if it is not known what a statement did to a column's values."""
    return f"what became of {before.name} when it was {before.column_type} and got {after.column_type}"


def _type_of(column: Column) -> tuple[object, ...]:
    return column.column_type, column.character_set, column.nullable, column.auto_increment


def given_since(
    value: pa.Scalar | None, column: Column, steps: Sequence[TypeChange], text: str | None = None
) -> ValueOrigin:
    """The result of several conversions of one value.

    Args:
        value: The column's value; None for NULL.
        column: The column as it was before the first conversion.
        steps: The conversions, in order.
        text: What `_invalid` would have for the value.
    """
    kind = arrow_type(column)
    values = pa.chunked_array([pa.nulls(1, kind) if value is None else pa.array([value.as_py()], kind)])
    try:
        values, texts = converted_since(values, pa.chunked_array([pa.array([text], pa.string())]), steps)
    except ReadAgainError as error:
        return ValueOrigin(unknown=error.facts().message)
    return ValueOrigin(given=values[0] if values[0].is_valid else None, text=texts[0].as_py())


def converted_since(
    values: pa.ChunkedArray, texts: pa.ChunkedArray, steps: Sequence[TypeChange]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Values after several conversions, with what `_invalid` has for them then.

    Args:
        values: The values before.
        texts: What `_invalid` has for them; NULL for most.
        steps: The conversions, in order.

    Raises:
        ReadAgainError: It is not known what the server made of some of them.
    """
    for step in steps:
        after = stepped(values, step)
        if may_be_invalid(step.before) or may_be_invalid(step.after):
            texts = converted_texts(texts, values, after, step.before, step.after)
        if not may_be_invalid(step.after):
            texts = pa.chunked_array([pa.nulls(len(texts), pa.string())])
        values = after
    return values, texts


def stepped(values: pa.ChunkedArray, step: TypeChange) -> pa.ChunkedArray:
    """The result of a conversion of values, computed as for mirrors.

    Raises:
        ReadAgainError: It is not known what the server made of some of them.
    """
    effect = RowEffect(
        kind=EffectKind.CONVERT,
        truncates_fractions=step.truncates,
        time_zone=step.time_zone,
        numbers_zeros=step.numbers_zeros,
    )
    return convert_column(values, step.before, step.after, effect)
