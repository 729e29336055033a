"""Which rows of which change tables belong to a table that exists now, and where its columns' values are in them.
Not here: SQL (`dialects/views.py`), replaying rows in Arrow (`quality/proof/replay.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.dialects.view_source import TypeChange
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.conversions import keeps_values
from strata_cdc.schema.model.row_effects import NO_EFFECT, RowEffect
from strata_cdc.schema.model.types import ColumnType, Family, TypeKind, parse_column_type
from strata_cdc.tables.origins import ValueOrigin, given_since, step_of
from strata_cdc.tables.values.constants import constant
from strata_cdc.tables.values.verbatim import constant_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName


_DIGITS_OF_DOUBLE: Final = 15


class Value(Struct, frozen=True):
    """Where rows of one version have the value of a current column."""

    column: Column | None = None
    """The column that had the value then."""
    given: pa.Scalar | None = None
    """Without a column: the value that the server gave to existing rows; None for NULL."""
    text: str | None = None
    """What `_invalid` would have for `given`."""
    unknown: str | None = None
    """Why the log does not show the value."""
    is_apart: bool = False
    """Whether the log does not show it because the value has another type."""
    origin: ValueOrigin = ValueOrigin()
    """Where the value comes from, through changes of the type."""


class VersionSpan(Struct, frozen=True):
    """The rows of one version."""

    name: TableName
    """The name that the table had: that of its change table."""
    version_id: int
    begins: int
    """Ordinal of the transaction that made the version."""
    definition: TableDefinition
    values: tuple[Value, ...]
    """In the order of the current columns."""
    effect: RowEffect = NO_EFFECT
    """What the statement that made the version did to the rows of the version before."""
    gtid: str | None = None
    """Of that statement."""
    committed_at: int = 0
    """When it was committed, microseconds UTC; 0: not known."""


class TableLifetime(Struct, frozen=True):
    """A table from the version that made it until now."""

    definition: TableDefinition
    spans: tuple[VersionSpan, ...]
    """Oldest first."""
    begins: str | None
    """Why there may be rows from before the first version; None if the table was made in the stream."""

    def was_called(self, name: TableName, seq: int) -> bool:
        """Whether the table had this name when a transaction ran that did not change the table."""
        then = [span for span in self.spans if span.begins < seq]
        return bool(then) and then[-1].name == name


def lifetime_of(table_changes: Sequence[TableChange], name: TableName) -> TableLifetime | None:
    """The lifetime of the table with this name; None if there is no such table now.

    Args:
        table_changes: The whole history, in stream order.
    """
    own = [change for change in table_changes if change.name == name]
    if not own or own[-1].definition is None:
        return None
    chain, before = _chain(table_changes, own[-1], own[-1].definition)
    return TableLifetime(own[-1].definition, tuple(_eras(chain)), before)


_Link = tuple["TableChange", "TableDefinition"]


def _chain(
    table_changes: Sequence[TableChange], last: TableChange, definition: TableDefinition
) -> tuple[list[_Link], str | None]:
    """The versions of one table, oldest first, under all names that it had."""
    chain = [(last, definition)]
    while True:
        change = chain[0][0]
        if change.effect.makes_table and change.effect.is_whole:
            return chain, None
        name = change.renamed_from or change.name
        earlier = [
            table_change
            for table_change in table_changes
            if table_change.name == name and table_change.order < change.order
        ]
        if not earlier:
            return chain, None
        if earlier[-1].definition is None:
            return chain, earlier[-1].gap
        chain.insert(0, (earlier[-1], earlier[-1].definition))


def _eras(chain: Sequence[_Link]) -> list[VersionSpan]:
    values = tuple(Value(column, origin=ValueOrigin(column)) for column in chain[-1][1].columns)
    spans: list[VersionSpan] = []
    later: TableChange | None = None
    for change, definition in reversed(chain):
        if later is not None:
            values = tuple(_earlier(value, definition, later) for value in values)
        spans.append(
            VersionSpan(
                change.name,
                change.version_id,
                change.order[0],
                definition,
                values,
                change.effect,
                change.gtid,
                change.committed_at,
            )
        )
        later = change
    return spans[::-1]


def _earlier(value: Value, before: TableDefinition, change: TableChange) -> Value:
    """Where the value is in rows from before a change."""
    origin = earlier_origin(value.origin, before, change.effect)
    if value.column is None:
        return replace(value, origin=origin)
    old = change.effect.column_before(value.column, before)
    if old is None:
        return replace(_filled(value.column, change.effect), origin=origin)
    if not is_shown_by_cast(old, value.column):
        changed = f"{old.name} was {old.column_type}, and is {value.column.column_type}"
        return Value(unknown=changed, is_apart=True, origin=origin)
    return Value(old, origin=origin)


def keeps_shown(before: Column, after: Column, effect: RowEffect) -> bool:
    """Whether a cast to the later type shows every value as it was, and as a statement left it.

    Args:
        before: The column before the statement.
        after: The column after the statement.
        effect: What the statement did to rows.
    """
    return is_shown_by_cast(before, after) and _is_cast(before, after, effect)


def _is_cast(before: Column, after: Column, effect: RowEffect) -> bool:
    """Whether a statement did to all values what a cast does, if a cast can show them."""
    step = step_of(before, after, effect)
    if step is None or isinstance(step, str):
        return step is None
    may_have_nulls = before.nullable and not after.nullable and not effect.refuses_nulls
    # A zero date, which is not NULL on the server, is NULL in the lake.
    of_null = given_since(None, before, (step,))
    shows_nulls = not may_have_nulls or (of_null.given is None and of_null.unknown is None)
    keeps_others = keeps_values(replace(before, nullable=after.nullable), after) or _is_widened(before, after)
    return shows_nulls and keeps_others


def _is_widened(before: Column, after: Column) -> bool:
    """Whether the server converts each value as a cast does, if a cast can show it.

    NULL is excluded. So are values to which AUTO_INCREMENT gives numbers: mirrors are blocked before such a statement.
    """
    old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
    families = old.kind.facts.family, new.kind.facts.family
    if families[0] is Family.LABELS:
        return families[1] is Family.TEXT
    return families[0] in {Family.INTEGER, Family.DECIMAL} or new.kind is TypeKind.DOUBLE


def earlier_origin(origin: ValueOrigin, before: TableDefinition, effect: RowEffect) -> ValueOrigin:
    """Where a value comes from in the rows before a statement.

    Args:
        origin: Where it comes from in the rows after the statement.
        before: The table's definition before the statement.
        effect: What the statement did to rows.
    """
    if origin.column is None:
        return origin
    old = effect.column_before(origin.column, before)
    if old is None:
        filled = _filled(origin.column, effect)
        unknown = filled.unknown or next((step.unknown for step in origin.steps if step.unknown), None)
        if unknown:
            return ValueOrigin(unknown=unknown)
        return given_since(filled.given, origin.column, origin.steps, filled.text)
    step = step_of(old, origin.column, effect)
    if isinstance(step, str):
        step = TypeChange(old, origin.column, unknown=step)
    return ValueOrigin(old, origin.steps if step is None else (step, *origin.steps))


def _filled(column: Column, effect: RowEffect) -> Value:
    """What existing rows got in a column that a statement added."""
    unknown = NoFill(effect.reason or "no statement in the log added it")
    value: str | NoFill | None = next(
        (filled.value for filled in effect.filled if filled.column == column.name), unknown
    )
    return _given(column, value, f"which values existing rows got in the new column {column.name}")


def left_out(column: Column) -> Value:
    """What an INSERT gives to a column that it does not name: with MINIMAL images, this is in no log."""
    return _given(column, fill_of(column), f"what an INSERT without {column.name} gave it")


def _given(column: Column, default: str | NoFill | None, what: str) -> Value:
    if isinstance(default, NoFill):
        return Value(unknown=f"{what} ({default.reason})")
    value = constant(column, default, 1)[0]
    return Value(given=value if value.is_valid else None, text=constant_text(column, default, 1)[0].as_py())


def is_shown_by_cast(before: Column, after: Column) -> bool:
    """Whether a cast to a column's later type shows every value as it was, whatever the server made of it."""
    old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
    if old == new:
        return True
    families = old.kind.facts.family, new.kind.facts.family
    if families[0] is families[1]:
        return _keeps_in_family(old, new, arrow_type(before), arrow_type(after))
    if families == (Family.INTEGER, Family.DECIMAL):
        return (new.length or 10) - (new.decimals or 0) >= _digits(arrow_type(before))
    return families[0] in {Family.CHARACTERS, Family.TEXT, Family.LABELS} and families[1] is Family.TEXT


def shows_some(before: Column, after: Column) -> bool:
    """Whether a cast to a column's later type shows each value as it was that is the same after a cast back."""
    old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
    kinds = arrow_type(before), arrow_type(after)
    texts = {Family.CHARACTERS, Family.TEXT, Family.LABELS}
    if old.kind.facts.family in texts or old.kind is TypeKind.JSON:
        return new.kind.facts.family in texts
    if old.kind in {TypeKind.DATE, TypeKind.DATETIME}:
        return new.kind in {TypeKind.DATE, TypeKind.DATETIME}
    if old.kind is TypeKind.YEAR:
        return _is_number(new, kinds[1])
    if not _is_number(old, kinds[0]):
        return False
    is_text = new.kind.facts.family in {Family.CHARACTERS, Family.TEXT}
    # Of more digits, a DOUBLE may print other ones than the server.
    is_short = new.kind is TypeKind.DOUBLE and _digits(kinds[0]) <= _DIGITS_OF_DOUBLE
    return _is_number(new, kinds[1]) or is_short or is_text


def _is_number(column_type: ColumnType, kind: pa.DataType) -> bool:
    """Whether values are numbers in change tables, and SELECT shows them so."""
    is_shown_so = column_type.kind.facts.family in {Family.INTEGER, Family.DECIMAL} and not column_type.zerofill
    return is_shown_so and (pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _keeps_in_family(column_type: ColumnType, other: ColumnType, before: pa.DataType, after: pa.DataType) -> bool:
    family = column_type.kind.facts.family
    if family is Family.INTEGER:
        return _digits(before) <= _digits(after) and (column_type.unsigned or not other.unsigned)
    if family is Family.DECIMAL:
        more = (other.decimals or 0) - (column_type.decimals or 0)
        return more >= 0 and (other.length or 10) - (column_type.length or 10) >= more and pa.types.is_decimal(after)
    if family is Family.FLOATING:
        return column_type.kind is other.kind or other.kind is TypeKind.DOUBLE
    if family is Family.TEMPORAL:
        return column_type.kind is other.kind and (other.length or 0) >= (column_type.length or 0)
    if family is Family.CHARACTERS:
        return column_type.kind is other.kind or other.kind is TypeKind.VARCHAR
    if family is Family.BYTES:
        return column_type == other or (column_type.kind is other.kind is TypeKind.VARBINARY)
    return bool(before == after)


def _digits(kind: pa.DataType) -> int:
    """Number of digits of the largest integer."""
    return int(kind.precision) if pa.types.is_decimal(kind) else len(str(2 ** (int(kind.bit_width) - 1)))
