"""Writes a condition as SQL of Spark and DuckDB, over the columns of a change table.
Not here: what it means (`read.py`), Arrow (`arrow.py`)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from sqlglot import exp

from strata_cdc.dialects.conditions.terms import (
    MOST_DIGITS,
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
)
from strata_cdc.dialects.engines import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN: Final = "^[ -~]*$"
_BUILT: Final[dict[str, type[exp.Expr]]] = {
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE, "<=>": exp.NullSafeEQ,
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "%": exp.Mod,
}  # fmt: skip
_TYPES: Final = {
    Dialect.SPARK: {
        ValueKind.DATE: "DATE",
        ValueKind.DATETIME: "TIMESTAMP_NTZ",
        ValueKind.TIMESTAMP: "TIMESTAMP",
        ValueKind.INTEGER: f"DECIMAL({MOST_DIGITS},0)",
    },
    Dialect.DUCKDB: {
        ValueKind.DATE: "DATE",
        ValueKind.DATETIME: "TIMESTAMP",
        ValueKind.TIMESTAMP: "TIMESTAMPTZ",
        ValueKind.INTEGER: "HUGEINT",
    },
}
_FAILS: Final = {Dialect.SPARK: "raise_error", Dialect.DUCKDB: "error"}


class SqlWriter(Struct, frozen=True):
    """Writes conditions for one engine."""

    dialect: Dialect
    column: Callable[[str], exp.Expr]
    """Returns the engine's expression for a column of MySQL's table."""

    def text(self, node: Node) -> str:
        """Returns the condition as SQL."""
        return self._condition(node).sql(self.dialect.value)

    def _condition(self, node: Node) -> exp.Expr:
        if isinstance(node, Every):
            return exp.and_(*map(self._condition, node.conditions))
        if isinstance(node, Some):
            return exp.or_(*map(self._condition, node.conditions))
        if isinstance(node, Not):
            return exp.Not(this=exp.paren(self._condition(node.condition)))
        if isinstance(node, IsTruth):
            right = exp.null() if node.truth is None else exp.Boolean(this=node.truth)
            return exp.Is(this=exp.paren(self._condition(node.condition)), expression=right)
        if isinstance(node, IsNull):
            return exp.Is(this=self.column(node.column.name), expression=exp.null())
        return self._like(node) if isinstance(node, Like) else self._compare(node)

    def _like(self, node: Like) -> exp.Expr:
        pattern = exp.Literal.string(node.pattern.lower() if node.text.folds else node.pattern)
        # In LIKE, blanks at the end count in every collation.
        column = self.column(node.column.name)
        folded: exp.Expr = exp.Lower(this=column) if node.text.folds else column
        return self._guarded(exp.Like(this=folded, expression=pattern), node.text, [node.column])

    def _compare(self, node: Compare) -> exp.Expr:
        left, right = self._side(node.left, node), self._side(node.right, node)
        expression = _BUILT[node.operator](this=left, expression=right)
        columns = [term for term in (node.left, node.right) if isinstance(term, ColumnTerm)]
        return self._guarded(exp.paren(expression), node.text, columns)

    def _guarded(self, expression: exp.Expr, rule: TextRule, columns: list[ColumnTerm]) -> exp.Expr:
        for term in columns if rule.only_plain else ():
            if term.is_plain:
                continue
            column = self.column(term.name)
            other = exp.Not(this=exp.RegexpLike(this=column, expression=exp.Literal.string(PLAIN)))
            message = f"{term.name}: {term.collation} compares this text by more than its characters"
            fail = exp.Anonymous(this=_FAILS[self.dialect], expressions=[exp.Literal.string(message)])
            whole = exp.Cast(this=fail, to=exp.DataType.build("BOOLEAN"))
            expression = exp.Case(ifs=[exp.If(this=other, true=whole)], default=expression)
        return expression

    def _side(self, term: Term, node: Compare) -> exp.Expr:
        expression = self._term(term)
        if node.kind is ValueKind.DOUBLE:
            return _cast(expression, "DOUBLE")
        if node.kind is ValueKind.DECIMAL:
            return _cast(expression, f"DECIMAL({MOST_DIGITS},{node.scale})")
        if isinstance(term, Constant) or node.kind is not ValueKind.TEXT:
            return expression if not isinstance(term, Constant) else self._constant(term, node.text)
        expression = exp.Lower(this=expression) if node.text.folds else expression
        blank = exp.Literal.string(" ")
        return exp.Trim(this=expression, position="TRAILING", expression=blank) if node.text.trims else expression

    def _term(self, term: Term) -> exp.Expr:
        if isinstance(term, ColumnTerm):
            return self.column(term.name)
        if isinstance(term, Constant):
            return self._constant(term, TextRule())
        if isinstance(term, Call):
            inner = self._term(term.argument)
            if term.function == "ABS":
                return exp.Abs(this=self._whole(inner))
            return exp.Length(this=inner)
        left, right = self._whole(self._term(term.left)), self._whole(self._term(term.right))
        return exp.paren(_BUILT[term.operation](this=left, expression=right))

    def _whole(self, expression: exp.Expr) -> exp.Expr:
        """The value in a type in which nothing overflows."""
        return exp.Cast(
            this=expression, to=exp.DataType.build(_TYPES[self.dialect][ValueKind.INTEGER], dialect=self.dialect.value)
        )

    def _constant(self, term: Constant, rule: TextRule) -> exp.Expr:
        if term.kind is ValueKind.TEXT:
            text = str(term.value).lower() if rule.folds else str(term.value)
            return exp.Literal.string(text.rstrip(" ") if rule.trims else text)
        if term.kind in _TYPES[self.dialect] and term.kind is not ValueKind.INTEGER:
            value = term.value
            text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
            kind = exp.DataType.build(_TYPES[self.dialect][term.kind], dialect=self.dialect.value)
            return exp.Cast(this=exp.Literal.string(text), to=kind)
        if term.kind is ValueKind.DECIMAL:
            return exp.Literal.number(f"{term.value:f}")
        return exp.Literal.number(repr(term.value))


def _cast(expression: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType.build(kind))
