"""The two columns of a conversion, and what all conversions need.
Not here: the conversions (`numbers.py`, `texts.py`, `labels.py`, `moments.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.errors import ReadAgainError
from strata_cdc.schema.model.conversions import value_class
from strata_cdc.schema.model.time_zones import offset_of
from strata_cdc.schema.model.types import ColumnType, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.model.conversions import ValueClass
    from strata_cdc.schema.model.definition import Column


class Pair(Struct, frozen=True):
    """A column before and after a statement."""

    before: Column
    after: Column
    old: ColumnType
    """The type before."""
    new: ColumnType
    """The type afterwards."""
    classes: tuple[ValueClass, ValueClass]
    """How values of these types are converted."""
    target: pa.DataType
    truncates: bool = False
    """Whether fractions of seconds are cut, not rounded."""
    offset_seconds: int | None = None
    """Offset of the session's time zone, east of UTC; None if it is not known."""

    @classmethod
    def from_columns(
        cls, before: Column, after: Column, *, truncates: bool = False, time_zone: str | None = None
    ) -> Pair:
        """The pair of two columns."""
        old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
        classes = value_class(old.kind), value_class(new.kind)
        return cls(before, after, old, new, classes, arrow_type(after), truncates, offset_of(time_zone))

    def refuse(self, what: str) -> NoReturn:
        """Raises an error that names the values that the server changed in a way that is not known.

        Raises:
            ReadAgainError: Always.
        """
        raise ReadAgainError(
            f"{self.after.name}: what {self.before.column_type} became as {self.after.column_type} is not known "
            f"here where {what}"
        )

    def require(self, holds: pa.Array, what: str) -> None:
        """Refuses the column unless a condition holds for all values that are not NULL.

        Raises:
            ReadAgainError: The condition does not hold.
        """
        if pc.all(holds, min_count=0).as_py() is False:
            self.refuse(what)


def by_value(values: pa.Array, function: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    """Applies a Python function to each different value; NULL stays NULL."""
    encoded = values.dictionary_encode()
    return pa.array([function(value) for value in encoded.dictionary.to_pylist()], target).take(encoded.indices)
