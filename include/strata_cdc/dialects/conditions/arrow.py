"""Evaluates a condition on Arrow columns: true, false or unknown for each row.
Not here: what it means (`read.py`), SQL (`sql.py`)."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.dialects.conditions.sql import PLAIN
from strata_cdc.dialects.conditions.terms import (
    Call,
    ColumnTerm,
    Compare,
    Constant,
    Every,
    IsNull,
    IsTruth,
    Like,
    Node,
    Not,
    Some,
    Term,
    TextRule,
    ValueKind,
    guarded_columns,
)
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    Columns = Mapping[str, pa.Array]

_COMPARED: Final = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_CALCULATED: Final = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_WIDEST: Final = 76
_WHOLE: Final = pa.decimal256(40, 0)


def evaluate(node: Node, columns: Columns) -> pa.Array:
    """Returns the result of the condition for each row.

    Args:
        node: The condition.
        columns: The columns that it names, in the types of a change table.

    Raises:
        Usage: A row has a text for which its collation has rules that are not known here, or a sum has too many digits.
    """
    for term in guarded_columns(node):
        _check_plain(term, columns[term.name])
    try:
        return _condition(node, columns)
    except pa.ArrowInvalid as error:
        raise Usage(f"the condition cannot be calculated: {error}") from None


def _check_plain(term: ColumnTerm, column: pa.Array) -> None:
    plain = pc.match_substring_regex(column, PLAIN)
    if pc.all(plain, min_count=0).as_py():
        return
    text = column.filter(pc.invert(plain))[0].as_py()
    raise Usage(
        f"{term.name}: {term.collation} compares {text[:40]!r} by more than its characters",
        remedy=f"Write `{term.name} COLLATE utf8mb4_0900_bin` to compare by characters.",
    )


def _condition(node: Node, columns: Columns) -> pa.Array:
    if isinstance(node, Every):
        return reduce(pc.and_kleene, [_condition(condition, columns) for condition in node.conditions])
    if isinstance(node, Some):
        return reduce(pc.or_kleene, [_condition(condition, columns) for condition in node.conditions])
    if isinstance(node, Not):
        return pc.invert(_condition(node.condition, columns))
    if isinstance(node, IsTruth):
        return _truth(_condition(node.condition, columns), node.truth)
    if isinstance(node, IsNull):
        return pc.is_null(columns[node.column.name])
    return _like(node, columns) if isinstance(node, Like) else _compare(node, columns)


def _truth(values: pa.Array, truth: bool | None) -> pa.Array:  # noqa: FBT001 - SQL's TRUE, FALSE and UNKNOWN
    if truth is None:
        return pc.is_null(values)
    return pc.fill_null(values if truth else pc.invert(values), fill_value=False)


def _like(node: Like, columns: Columns) -> pa.Array:
    column = columns[node.column.name]
    if node.text.folds:
        return pc.match_like(pc.ascii_lower(column), node.pattern.lower())
    return pc.match_like(column, node.pattern)


def _compare(node: Compare, columns: Columns) -> pa.Array:
    left, right = _side(node.left, node, columns), _side(node.right, node, columns)
    if node.operator != "<=>":
        return _COMPARED[node.operator](left, right)
    count = len(next(iter(columns.values())))
    nulls = [_nulls(side, count) for side in (left, right)]
    same = pc.fill_null(pc.equal(left, right), fill_value=False)
    return pc.or_(pc.and_(*nulls), pc.and_(same, pc.invert(pc.or_(*nulls))))


def _nulls(side: Any, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value=False), count) if isinstance(side, pa.Scalar) else pc.is_null(side)


def _side(term: Term, node: Compare, columns: Columns) -> Any:
    value = _term(term, columns)
    if node.kind is ValueKind.DOUBLE:
        return value.cast(pa.float64())
    if node.kind is ValueKind.DECIMAL:
        return value.cast(pa.decimal256(_WIDEST, node.scale))
    if node.kind is ValueKind.INTEGER:
        return value.cast(pa.decimal256(_WIDEST, 0))
    return _folded(value, node.text) if node.kind is ValueKind.TEXT else value


def _folded(value: Any, rule: TextRule) -> Any:
    # A text with letters is plain ASCII here; for any other text, the evaluation has already ended.
    value = pc.ascii_lower(value) if rule.folds else value
    return pc.ascii_rtrim(value, " ") if rule.trims else value


def _term(term: Term, columns: Columns) -> Any:
    if isinstance(term, ColumnTerm):
        return columns[term.name]
    if isinstance(term, Constant):
        return _scalar(term)
    if isinstance(term, Call):
        inner = _term(term.argument, columns)
        return pc.abs(inner.cast(_WHOLE)) if term.function == "ABS" else pc.utf8_length(inner)
    left, right = _term(term.left, columns), _term(term.right, columns)
    if term.operation == "%":
        return _remainder(left.cast(pa.decimal256(_WIDEST, 0)), right)
    return _CALCULATED[term.operation](_narrow(left), _narrow(right))


def _narrow(values: Any) -> Any:
    """The values in the type with the fewest digits: Arrow adds up the digits of both sides."""
    return values if pa.types.is_decimal256(values.type) else values.cast(pa.decimal256(20, 0))


def _remainder(values: Any, divisor: pa.Scalar) -> Any:
    by = int(divisor.as_py())
    if isinstance(values, pa.Scalar):
        return pa.scalar(_one_remainder(values.as_py(), by), pa.decimal256(20, 0))
    remainders = [None if value is None else _one_remainder(value, by) for value in values.to_pylist()]
    return pa.array(remainders, pa.decimal256(20, 0))


def _one_remainder(value: Decimal, by: int) -> Decimal:
    """The remainder, with the sign of the number, as in MySQL."""
    rest = abs(int(value)) % abs(by)
    return Decimal(-rest if value < 0 else rest)


def _scalar(term: Constant) -> pa.Scalar:
    if term.kind is ValueKind.INTEGER:
        value = Decimal(str(term.value))
        return pa.scalar(value, pa.decimal256(max(len(value.as_tuple().digits), 1), 0))
    if term.kind is ValueKind.DATETIME:
        return pa.scalar(term.value, pa.timestamp("us"))
    if term.kind is ValueKind.TIMESTAMP:
        return pa.scalar(term.value, pa.timestamp("us", tz="UTC"))
    return pa.scalar(term.value)
