"""The implicit defaults of TIMESTAMP columns while `explicit_defaults_for_timestamp` is off.
Not here: their implicit NOT NULL, which is set with the column (`columns.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.apply.placed import PlacedColumn
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import Column


def with_implicit_timestamps(
    placed: Sequence[PlacedColumn],
    primary: frozenset[str],
    context: DdlContext,
) -> list[Column]:
    """The columns of a table with implicit defaults.

    If the first TIMESTAMP is NOT NULL and has no default, it gets CURRENT_TIMESTAMP on insert and on update. Further
    ones get the zero timestamp (sql/sql_table.cc, `promote_first_timestamp_column`), except those of the primary key.
    In MariaDB these get it, too, and so does a TIMESTAMP that is NOT NULL only by the primary key.
    An expression of ALTER COLUMN ... SET DEFAULT does not count as a default there, unless it replaces another
    expression: such a column gets CURRENT_TIMESTAMP on update, and keeps its expression on insert (9.7).

    Whether MariaDB gives CURRENT_TIMESTAMP to a column that an ALTER TABLE does not define is in doubt: its copy of
    the column leaves `Column_definition::period` without a value (sql/field.cc, 10.11; 11.8 does the same), and a
    column with a period does not get it. So the same statement does one or the other, also on a replica.

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
        if column.generated is None:
            is_primary = fold_name(column.name) in primary
            promoted = _promoted(placed_column, context) if first and not column.nullable else None
            columns[number] = promoted or _with_zero(placed_column, context, is_primary=is_primary)
        first = False
    return columns


def _promoted(placed: PlacedColumn, context: DdlContext) -> Column | None:
    """The first TIMESTAMP, which is NOT NULL, with CURRENT_TIMESTAMP; None if it does not get it."""
    column = placed.column
    is_bare = column.default is None
    if column.on_update is not None or not (is_bare or _gets_expression(placed, context)):
        return None
    if _is_copied(placed, context):
        return replace(column, on_update_in_doubt=True)
    now = _now(column)
    current = replace(column, default=now, default_is_expression=True) if is_bare else column
    return replace(current, on_update=now)


def _with_zero(placed: PlacedColumn, context: DdlContext, *, is_primary: bool) -> Column:
    """A TIMESTAMP with the zero timestamp as its default, if it gets that."""
    column = placed.column
    if context.flavour.is_mariadb():
        gets_zero = is_primary if column.nullable else placed.written is not None
    else:
        gets_zero = not column.nullable and placed.written is not None and not is_primary
    return replace(column, default=_zero(column)) if gets_zero and column.default is None else column


def _is_copied(placed: PlacedColumn, context: DdlContext) -> bool:
    """Whether MariaDB takes a column from the old table as it is."""
    return context.flavour.is_mariadb() and placed.written is None


def _gets_expression(placed: PlacedColumn, context: DdlContext) -> bool:
    """Whether ALTER COLUMN gives an expression to a column of MySQL that has none."""
    old = placed.old
    if old is None or placed.written is not None or context.flavour.is_mariadb():
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
