"""Whole numbers that a column has in all rows that a query needs: what reads the rows may leave others out.
Not here: which files have them (`mirrors/`), what the query makes of the rows (`selects.py`).

Only conditions of WHERE that are joined by AND count, and of these only comparisons of an integer column with whole
numbers: texts depend on collations, and other types on conversions. None of them is true for NULL, so they hold for
each row of the table that is in the result, whatever the joins are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.queries.values import ValueType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.dialects.queries.scope import NameScope

    Ranges = tuple[tuple[int | None, int | None], ...]

_TURNED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.EQ: exp.EQ, exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE,
}  # fmt: skip


class ColumnRanges(Struct, frozen=True):
    """The values that a column of a table may have."""

    number: int
    """Of the column in its table's definition."""
    ranges: Ranges
    """The least and the greatest value of each range, both included; None: no bound."""


def ranges_in(condition: exp.Expr, scope: NameScope) -> Iterator[tuple[str, ColumnRanges]]:
    """What a condition of WHERE says of single columns, each with the alias of its relation in DuckDB."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from ranges_in(condition.this, scope)
        yield from ranges_in(condition.expression, scope)
        return
    node, ranges = _compared(condition)
    columns = scope.own(node) if isinstance(node, exp.Column) else []
    if ranges is None or len(columns) != 1:
        return
    relation, number = columns[0]
    kind = relation.columns[number][1]
    if kind.type is ValueType.INTEGER and kind.shown_as is not None:
        yield relation.alias, ColumnRanges(number, ranges)


def _compared(condition: exp.Expr) -> tuple[exp.Expr | None, Ranges | None]:
    """The expression that is compared, and the values for which the condition may be true; None: not known."""
    if isinstance(condition, exp.Between):
        low, high = _whole(condition.args["low"]), _whole(condition.args["high"])
        return condition.this.unnest(), None if low is None or high is None else ((low, high),)
    if isinstance(condition, exp.In) and not condition.args.get("query"):
        values = [_whole(number) for number in condition.expressions]
        return condition.this.unnest(), None if None in values else tuple((value, value) for value in values)
    kind = type(condition)
    if kind not in _TURNED:
        return None, None
    left, right = condition.this.unnest(), condition.expression.unnest()
    if _whole(left) is not None:
        left, right, kind = right, left, _TURNED[kind]
    value = _whole(right)
    return left, None if value is None else (_range(kind, value),)


def _range(kind: type[exp.Expr], value: int) -> tuple[int | None, int | None]:
    if kind is exp.EQ:
        return value, value
    if kind in {exp.LT, exp.LTE}:
        return None, value - (kind is exp.LT)
    return value + (kind is exp.GT), None


def _whole(node: exp.Expr) -> int | None:
    """The value of a whole number, as it is written."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        value = _whole(node.this)
        return None if value is None else -value
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None
