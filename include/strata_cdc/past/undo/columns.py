"""The columns of a change and of the table as it is now: which is which, and values in the types of now.

A value that a statement is to store is converted exactly or not at all: as ALTER TABLE converts it, and only if the way
back gives the same value. A value that the table should have now went through each ALTER since.
Not here: SQL (`literals.py`), which id a column has (`schema/history/identified_tables.py`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.errors import ReadAgainError
from strata_cdc.past.timeline import TableEvent
from strata_cdc.past.undo.literals import InexactError, Verbatim
from strata_cdc.schema.model.conversions import KNOWN, keeps_values, value_class
from strata_cdc.schema.model.definition import Column, GeneratedKind
from strata_cdc.schema.model.row_effects import RowEffect  # noqa: TC001  a field of a struct
from strata_cdc.schema.model.types import INTEGERS, LABELLED, TypeKind, parse_column_type
from strata_cdc.tables.values.known import converted
from strata_cdc.tables.values.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.past.timeline import ChangeSpan, TablePart


class AlteringStatement(Struct, frozen=True):
    """A statement that gave a column another definition."""

    before: Column
    after: Column
    effect: RowEffect | None
    """What the statement did to rows; None if that is not known."""


class ColumnPath(Struct, frozen=True):
    """A column of a version, the column that it is now, and what was altered between them."""

    then: Column
    now: Column
    altered: tuple[AlteringStatement, ...] = ()

    @property
    def is_stored(self) -> bool:
        """Whether statements can set it."""
        return is_settable(self.now)

    def wanted(self, value: Any) -> Any:
        """A value of then, as a statement stores it now.

        Raises:
            InexactError: The column cannot have exactly this value now.
        """
        if value is None:
            if not self.now.nullable:
                raise InexactError("it was NULL, and the column is NOT NULL now")
            return None
        if _keeps(self.then, self.now):
            return _in_order(value, self.now)
        if isinstance(value, Verbatim):
            raise InexactError(f"{self._types}, and a value that no column of the lake holds is not converted")
        return _there_and_back(value, self.then, self.now, self._types)

    def as_now(self, value: Any) -> Any:
        """What a value of then is in the table now, if no row event has changed it since.

        Raises:
            InexactError: That is not known.
        """
        for step in self.altered:
            if value is None or _keeps(step.before, step.after):
                value = _in_order(value, step.after)
                continue
            if isinstance(value, Verbatim) or step.effect is None or step.effect.reason:
                raise InexactError(f"what an ALTER TABLE made of it is not known: {self._types}")
            value = _one_way(value, step, self._types)
        return value

    @property
    def _types(self) -> str:
        return f"the column was {_shown(self.then)} and is {_shown(self.now)} now"


class Cell(Struct, frozen=True, gc=False):
    """A value of a row, as the log or the mirror has it."""

    path: ColumnPath
    value: Any

    def wanted(self) -> Any:
        """See `ColumnPath.wanted`."""
        return self.path.wanted(self.value)

    def as_now(self) -> Any:
        """See `ColumnPath.as_now`."""
        return self.path.as_now(self.value)


def is_settable(column: Column) -> bool:
    """Whether INSERT and UPDATE can set a column."""
    return column.generated not in {GeneratedKind.STORED, GeneratedKind.VIRTUAL} and not column.hidden


_INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_MOST_DIGITS: Final = 20
"""Of an integer, with its sign."""


def holds_all(column: Column, other: Column) -> bool:
    """Whether another column can have every value of a column, whether or not it is NULL, so that an ALTER TABLE from
    the one to the other loses nothing. False if that does not follow from the types."""
    if column.generated != other.generated:
        return False
    if (column.column_type, column.collation) == (other.column_type, other.collation):
        return True
    own, two = parse_column_type(column.column_type), parse_column_type(other.column_type)
    if own.kind in LABELLED and own.kind is two.kind:
        return column.collation == other.collation and set(own.labels) <= set(two.labels)
    if own.kind in INTEGERS and two.kind in INTEGERS:
        room = _INTEGER_BITS[two.kind] - _INTEGER_BITS[own.kind]
        return room > 0 if own.unsigned and not two.unsigned else own.unsigned == two.unsigned and room >= 0
    if own.kind in INTEGERS and two.kind is TypeKind.VARCHAR:
        return not own.zerofill and (two.length or 0) >= _MOST_DIGITS
    return keeps_values(replace(column, nullable=other.nullable, auto_increment=other.auto_increment), other)


def goes_back(column: Column, other: Column) -> bool:
    """Whether an ALTER TABLE from a column to another fails rather than lose a part of a value, in a strict session:
    numbers that are out of range are errors, digits after the point are rounded in silence."""
    if holds_all(column, other):
        return True
    own, two = parse_column_type(column.column_type), parse_column_type(other.column_type)
    if column.generated != other.generated:
        return False
    if own.kind in INTEGERS:
        return two.kind in INTEGERS or two.kind is TypeKind.DECIMAL
    return own.kind is two.kind is TypeKind.DECIMAL and (own.decimals or 0) <= (two.decimals or 0)


def paths_to(
    span: ChangeSpan, now: ChangeSpan, parts: Sequence[TablePart]
) -> tuple[tuple[Column, ColumnPath | None], ...]:
    """The columns of a version, in its order, with what each is now; None for a column that is gone.

    Args:
        span: A range of the version.
        now: The table as it is now.
        parts: The table's timeline.
    """
    later = {number: column for number, column in zip(now.ids, now.definition.columns, strict=True) if number}
    events = [part for part in parts if isinstance(part, TableEvent) and part.seq > span.until]
    paths = []
    for number, column in zip(span.ids, span.definition.columns, strict=True):
        current = later.get(number)
        path = None if current is None else ColumnPath(column, current, tuple(_altered(number, events)))
        paths.append((column, path))
    return tuple(paths)


def _altered(number: int, events: Sequence[TableEvent]) -> list[AlteringStatement]:
    steps = []
    for event in events:
        versions = (event.before, event.after)
        before, after = (None if version is None else version.columns_by_id.get(number) for version in versions)
        if before is not None and after is not None and before != after:
            steps.append(AlteringStatement(before, after, event.effect))
    return steps


def same_value(value: Any, other: Any) -> bool:
    """Whether two values are stored as the same bytes."""
    if isinstance(value, float) and isinstance(other, float):
        return value == other and math.copysign(1, value) == math.copysign(1, other)
    return type(value) is type(other) and bool(value == other)


def _keeps(before: Column, after: Column) -> bool:
    if before.column_type == after.column_type and before.character_set == after.character_set:
        return True
    alike = replace(before, nullable=after.nullable, auto_increment=after.auto_increment)
    # A label is written by its number of now, which its text finds.
    kinds = {parse_column_type(version.column_type).kind for version in (before, after)}
    return keeps_values(alike, after) or (len(kinds) == 1 and kinds <= LABELLED)


def _in_order(value: Any, column: Column) -> Any:
    """A SET's labels in the order of a column, as the server prints them."""
    if not isinstance(value, str) or "," not in value or not column.column_type.startswith("set("):
        return value
    ordinals = {label: at for at, label in enumerate(parse_column_type(column.column_type).labels)}
    return ",".join(sorted(value.split(","), key=lambda label: ordinals.get(label, len(ordinals))))


def _there_and_back(value: Any, then: Column, now: Column, types: str) -> Any:
    old, new = (value_class(parse_column_type(column.column_type).kind) for column in (then, now))
    if (old, new) not in KNOWN or (new, old) not in KNOWN:
        raise InexactError(f"{types}, and no exact conversion is known")
    there = pa.array([value], arrow_type(then))
    try:
        forward = converted(there, Pair.from_columns(then, now))
        back = converted(forward, Pair.from_columns(now, then))
    except ReadAgainError:
        raise InexactError(f"{types}, which cannot have exactly this value") from None
    if not same_value(back[0].as_py(), value):
        raise InexactError(f"{types}, which cannot have exactly this value")
    return forward[0].as_py()


def _one_way(value: Any, step: AlteringStatement, types: str) -> Any:
    effect = step.effect
    zone = None if effect is None else effect.time_zone
    truncates = effect is not None and effect.truncates_fractions
    classes = tuple(value_class(parse_column_type(column.column_type).kind) for column in (step.before, step.after))
    try:
        if classes not in KNOWN:
            raise InexactError(f"what an ALTER TABLE made of it is not known: {types}")
        pair = Pair.from_columns(step.before, step.after, truncates=truncates, time_zone=zone)
        return converted(pa.array([value], arrow_type(step.before)), pair)[0].as_py()
    except ReadAgainError:
        raise InexactError(f"what an ALTER TABLE made of it is not known: {types}") from None


def _shown(column: Column) -> str:
    charset = column.character_set
    return f"{column.column_type} {charset}" if charset else column.column_type
