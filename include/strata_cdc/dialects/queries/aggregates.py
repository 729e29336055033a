"""What MySQL's aggregates mean, in DuckDB's SQL; their arguments are read row by row.
Not here: which columns may come beside them (`selects.py`), other functions (`functions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.changes.arrow import MOST_DIGITS
from strata_cdc.dialects.queries.collations import quoted
from strata_cdc.dialects.queries.comparing import is_one_spelling
from strata_cdc.dialects.queries.functions import quotient
from strata_cdc.dialects.queries.values import EXACT, TEMPORAL, Kind, QueryValue, Strength, ValueType, decimal, integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strata_cdc.dialects.queries.expressions import ExpressionReader

    Translate = Callable[[ExpressionReader, exp.Expr], QueryValue]

_MORE_DIGITS: Final = 22
"""By how many digits SUM is longer than its argument (sql/item_sum.cc, `DECIMAL_LONGLONG_DIGITS`)."""
_LONGEST_LIST: Final = 1024
"""Bytes of `group_concat_max_len`: the server cuts what is longer."""
_COMPARED: Final = frozenset({*EXACT, *TEMPORAL, ValueType.DOUBLE, ValueType.TIME, ValueType.YEAR, ValueType.BYTES})


def one_of(value: QueryValue) -> str:
    """The value that all rows of a group have; it fails if it is written in several ways."""
    if is_one_spelling(value):
        return f"first({value.sql})"
    message = quoted(f"{value.name}: a group has several spellings, and which the server shows is not determined")
    return (
        f"CASE WHEN min({value.sql}) IS NOT DISTINCT FROM max({value.sql}) THEN min({value.sql}) "
        f"ELSE CAST(error({message}) AS VARCHAR) END"
    )


def _count(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    inner = node.this
    if isinstance(inner, exp.Star):
        return integer("count(*)")
    if node.expressions:
        reader.refuse("COUNT of several expressions has DISTINCT", node)
    if not isinstance(inner, exp.Distinct):
        return integer(f"count({reader.value(inner).sql})")
    values = [reader.value(argument) for argument in inner.expressions]
    keys = [reader.key(value, node) for value in values]
    if len(keys) == 1:
        return integer(f"count(DISTINCT {keys[0]})")
    present = " AND ".join(f"{value.sql} IS NOT NULL" for value in values)
    return integer(f"count(DISTINCT ({', '.join(keys)})) FILTER (WHERE {present})")


def _summed(reader: ExpressionReader, node: exp.Expr) -> tuple[QueryValue, str, str]:
    """The argument of SUM or AVG, the DISTINCT before it, and the sum."""
    inner, distinct = node.this, ""
    if isinstance(inner, exp.Distinct):
        if len(inner.expressions) != 1:
            reader.refuse("SUM and AVG have one argument", node)
        inner, distinct = inner.expressions[0], "DISTINCT "
    value = reader.value(inner)
    if value.type is ValueType.DOUBLE:
        reader.refuse("the sum of floating-point numbers depends on the order of the rows: CAST(... AS DECIMAL)", node)
    if value.type not in EXACT or value.kind.is_quotient:
        reader.refuse("SUM and AVG take exact numbers here", node)
    return value, distinct, f"sum({distinct}CAST({value.sql} AS DECIMAL({MOST_DIGITS},{value.kind.scale})))"


def _sum(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value, _, total = _summed(reader, node)
    return QueryValue(total, decimal(value.kind.digits + _MORE_DIGITS, value.kind.scale))


def _average(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value, distinct, total = _summed(reader, node)
    scale = value.kind.scale
    whole = f"CAST({total} AS HUGEINT)"
    if scale:
        # The sum's digits as they are, without a number that is too long for DuckDB's decimals.
        inner = f"CAST({value.sql} AS DECIMAL({MOST_DIGITS},{scale}))"
        whole = f"CAST(sum({distinct}CAST({inner} * {10**scale} AS DECIMAL({MOST_DIGITS},0))) AS HUGEINT)"
    made = quotient(value, integer("1"), whole, f"CAST(count({distinct}{value.sql}) AS HUGEINT)")
    return replace(made, kind=replace(made.kind, digits=min(value.kind.digits + 4, MOST_DIGITS)))


def _extreme(name: str) -> Translate:
    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        inner = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
        value = reader.value(inner)
        kind = replace(value.kind, is_quotient=False)
        if value.type in _COMPARED and not value.kind.is_quotient:
            return QueryValue(f"{name}({value.sql})", kind)
        if value.type is not ValueType.TEXT:
            reader.refuse(f"{name.upper()}() of {value.name} is not translated", node)
        key = reader.key(value, node, ordered=True)
        if key == value.sql:
            return QueryValue(f"{name}({value.sql})", kind)
        message = quoted(f"{value.name}: there are several spellings, and which the server shows is not determined")
        same = f"count(DISTINCT {value.sql}) = count(DISTINCT {key})"
        chosen = f"arg_{name}({value.sql}, {key})"
        return QueryValue(f"CASE WHEN {same} THEN {chosen} ELSE CAST(error({message}) AS VARCHAR) END", kind)

    return read


def _any(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value = reader.value(node.this)
    if node.find(exp.Column) is None:
        return value
    return replace(value, sql=f"first({value.sql})", exact=None)


def _list(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """GROUP_CONCAT of texts and whole numbers in an order that is written."""
    inner, separator = node.this, node.args.get("separator")
    if not isinstance(inner, exp.Order):
        reader.refuse("GROUP_CONCAT without ORDER BY has no known order", node)
    if isinstance(inner.this, exp.Distinct):
        reader.refuse("GROUP_CONCAT(DISTINCT) is not translated", node)
    # A whole number is an argument's place there, and other constants order nothing.
    if any(term.find(exp.Column) is None for term in inner.expressions):
        reader.refuse("GROUP_CONCAT is ordered by columns here", node)
    value = reader.value(inner.this)
    text = value.sql
    if value.type is ValueType.INTEGER:
        kind = Kind(ValueType.TEXT, collation=reader.connection_collation, strength=Strength.LITERAL)
        text = f"CAST({value.sql} AS VARCHAR)"
    elif value.type is ValueType.TEXT:
        kind = replace(value.kind, shown_as=None)
    else:
        reader.refuse("GROUP_CONCAT takes a text or a whole number", node)
    order = ", ".join(ordered(reader, argument) for argument in inner.expressions)
    between = "','" if separator is None else reader.value(separator).sql
    joined = f"string_agg({text}, {between} ORDER BY {order})"
    fail = "CAST(error('GROUP_CONCAT is longer than group_concat_max_len (1024): the server cuts it') AS VARCHAR)"
    return QueryValue(f"CASE WHEN strlen({joined}) > {_LONGEST_LIST} THEN {fail} ELSE {joined} END", kind)


def ordered(reader: ExpressionReader, node: exp.Expr) -> str:
    """A term of ORDER BY: NULLs are the smallest values."""
    key = reader.key(reader.value(node.this), node, ordered=True)
    return f"{key} DESC NULLS LAST" if node.args.get("desc") else f"{key} ASC NULLS FIRST"


AGGREGATES: Final[Mapping[type[exp.Expr], Translate]] = {
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Min: _extreme("min"),
    exp.Max: _extreme("max"),
    exp.AnyValue: _any,
    exp.GroupConcat: _list,
}
