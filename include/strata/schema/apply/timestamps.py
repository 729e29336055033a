"""What TIMESTAMP columns get without being asked while `explicit_defaults_for_timestamp` is off.
Not here: their NOT NULL, which comes with the column (`columns.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata.schema.model import fold_name
from strata.schema.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.schema.changes import WrittenColumn
    from strata.schema.context import DdlContext
    from strata.schema.model import Column


def with_implicit_timestamps(
    columns: Sequence[Column],
    written: Sequence[WrittenColumn | None],
    primary: frozenset[str],
    context: DdlContext,
) -> list[Column]:
    """The columns of a table with implicit defaults.

    If the first TIMESTAMP is NOT NULL and has no default, it becomes current on insert and on update; further ones
    have the zero timestamp (sql/sql_table.cc, `promote_first_timestamp_column`), but for those of the primary key.

    Args:
        columns: All columns, in their order.
        written: What the statement says of each; None for those that it leaves as they are.
        primary: Folded names of the columns of the primary key.
        context: The session.
    """
    found = list(columns)
    if context.explicit_defaults_for_timestamp:
        return found
    first = True
    for number, (column, said) in enumerate(zip(columns, written, strict=True)):
        if not column.column_type.startswith(TypeKind.TIMESTAMP):
            continue
        bare = not column.nullable and column.default is None and column.generated is None
        if first and bare and column.on_update is None:
            found[number] = _current(column)
        elif bare and said is not None and fold_name(column.name) not in primary:
            found[number] = replace(column, default=_zero(column))
        first = False
    return found


def _decimals(column: Column) -> int:
    return parse_column_type(column.column_type).length or 0


def _current(column: Column) -> Column:
    decimals = _decimals(column)
    now = f"CURRENT_TIMESTAMP({decimals})" if decimals else "CURRENT_TIMESTAMP"
    return replace(column, default=now, default_is_expression=True, on_update=now)


def _zero(column: Column) -> str:
    decimals = _decimals(column)
    return "0000-00-00 00:00:00" + (f".{'0' * decimals}" if decimals else "")
