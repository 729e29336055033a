"""The implicit defaults of TIMESTAMP columns while `explicit_defaults_for_timestamp` is off.
Not here: their implicit NOT NULL, which is set with the column (`columns.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.apply.placed import Placed
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import Column


def with_implicit_timestamps(
    placed: Sequence[Placed],
    primary: frozenset[str],
    context: DdlContext,
) -> list[Column]:
    """The columns of a table with implicit defaults.

    If the first TIMESTAMP is NOT NULL and has no default, it gets CURRENT_TIMESTAMP on insert and on update. Further
    ones get the zero timestamp (sql/sql_table.cc, `promote_first_timestamp_column`), except those of the primary key.
    An expression of ALTER COLUMN ... SET DEFAULT does not count as a default there, unless it replaces another
    expression: such a column gets CURRENT_TIMESTAMP on update, and keeps its expression on insert (9.7).

    Args:
        placed: All columns, in their order.
        primary: Folded names of the columns of the primary key.
        context: The session.
    """
    columns = [placed_column.column for placed_column in placed]
    if context.explicit_defaults_for_timestamp:
        return columns
    first = True
    for number, placed_column in enumerate(placed):
        column = placed_column.column
        if not column.column_type.startswith(TypeKind.TIMESTAMP):
            continue
        is_bare = column.default is None
        if column.nullable or column.generated is not None:
            pass
        elif first and column.on_update is None and (is_bare or _gets_expression(placed_column)):
            now = _now(column)
            current = replace(column, default=now, default_is_expression=True) if is_bare else column
            columns[number] = replace(current, on_update=now)
        elif is_bare and placed_column.written is not None and fold_name(column.name) not in primary:
            columns[number] = replace(column, default=_zero(column))
        first = False
    return columns


def _gets_expression(placed: Placed) -> bool:
    """Whether ALTER COLUMN gives an expression to a column that has none."""
    old = placed.old
    if old is None or placed.written is not None:
        return False
    return _has_expression(placed.column) and not _has_expression(old)


def _has_expression(column: Column) -> bool:
    """Whether its default is an expression; CURRENT_TIMESTAMP without parentheses is none to the server."""
    default = column.default or ""
    return column.default_is_expression and not default.startswith("CURRENT_TIMESTAMP")


def _decimals(column: Column) -> int:
    return parse_column_type(column.column_type).length or 0


def _now(column: Column) -> str:
    decimals = _decimals(column)
    return f"CURRENT_TIMESTAMP({decimals})" if decimals else "CURRENT_TIMESTAMP"


def _zero(column: Column) -> str:
    decimals = _decimals(column)
    return "0000-00-00 00:00:00" + (f".{'0' * decimals}" if decimals else "")
