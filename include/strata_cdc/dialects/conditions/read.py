"""Reads a condition in MySQL's SQL against a table: returns typed terms, or raises an error with its position in the
text.
Not here: what is compared (`terms.py`), the differences from other engines (`__init__.py`)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from strata_cdc.dialects.conditions.literals import number, temporal
from strata_cdc.dialects.conditions.terms import (
    BINARY,
    EXACT,
    MOST_DIGITS,
    RULES,
    Arithmetic,
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
    columns_of,
)
from strata_cdc.dialects.lexical_rules import odd_token
from strata_cdc.dialects.strict_parser import StrictMySQL
from strata_cdc.errors import Usage
from strata_cdc.schema.model.definition import TableDefinition
from strata_cdc.schema.model.types import Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.model.definition import Column


_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip
_TURNED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_YEARS: Final = range(1901, 2156)
_FORMS: Final = {
    ValueKind.DATE: "'2024-02-29'",
    ValueKind.DATETIME: "'2024-02-29 12:34:56'",
    ValueKind.TIMESTAMP: "'2024-02-29 12:34:56', in UTC,",
    ValueKind.TIME: "'12:34:56'",
}


class ConditionError(Usage, page="reading"):
    """The text is not a condition, or could mean something else in another engine than in MySQL."""


def read_condition(text: str, definition: TableDefinition, table: str = "") -> Node:
    """Reads a condition as typed terms.

    Args:
        text: The condition, in MySQL's SQL with an empty sql_mode.
        definition: The version whose columns it names.
        table: Name of the table, for messages and for column names that include it.

    Raises:
        ConditionError: The text is not a condition, or has a construct whose meaning would not be kept; the message has
            line, column and a caret.
    """
    reader = _ConditionReader(text, definition, table)
    try:
        return reader.read_condition()
    except RecursionError:
        raise reader.too_deep() from None


class UnknownColumnError(ConditionError):
    """The condition names a column that the version does not have."""


def check_condition(text: str) -> None:
    """Checks that a text can be a condition on some table.

    Raises:
        ConditionError: The text is not an expression of MySQL's SQL.
    """
    reader = _ConditionReader(text, TableDefinition(), "")
    try:
        reader.tree()
    except RecursionError:
        raise reader.too_deep() from None


class _ConditionReader:
    def __init__(self, text: str, definition: TableDefinition, table: str) -> None:
        self._text = text
        self._definition = definition
        self._table = table

    def read_condition(self) -> Node:
        """Reads the whole condition."""
        condition = self.condition(self.tree())
        if not columns_of(condition):
            self._fail("a condition names a column", 0)
        return condition

    def too_deep(self) -> ConditionError:
        """An error about parts that lie within each other more deeply than Python's stack allows."""
        return self._error("the condition is nested too deeply; IN takes a list of any length", 0)

    def tree(self) -> exp.Expr:
        """Parses the text, before any column is looked up."""
        self._refuse_tokens()
        try:
            tree = sqlglot.parse_one(self._text, read=StrictMySQL)
        except ParseError as error:
            first = error.errors[0] if error.errors else {}
            line, column = int(first.get("line") or 1), int(first.get("col") or 1)
            starts = [0, *(at for at, ch in enumerate(self._text, 1) if ch == "\n")]
            length = len(str(first.get("highlight") or " "))
            raise self._error(
                "the condition is not MySQL's SQL", starts[min(line, len(starts)) - 1] + max(column - length, 0)
            ) from None
        for node in tree.walk():
            if any(value and part not in _PARTS.get(type(node), _USUAL_PARTS) for part, value in node.args.items()):
                raise self._untranslated(node)
        return tree

    def _refuse_tokens(self) -> None:
        """Refuses what the parser skips, or reads with another meaning."""
        try:
            tokens = sqlglot.tokenize(self._text, read="mysql")
        except TokenError:
            self._fail("the condition is not MySQL's SQL: a quote, a comment or a literal is not complete", 0)
        if not tokens:
            self._fail("there is no condition", 0)
        for token in tokens:
            if token.comments:
                self._fail("a comment has no place in a condition", token.end + 1)
            if token.token_type in _NO_PARTS:
                self._fail(_NO_PARTS[token.token_type], token.start)
        odd = odd_token(tokens)
        if odd is not None:
            at, what = odd
            self._fail(f"{what}: MySQL reads it in another way, or not at all", at)

    def _fail(self, message: str, at: int | exp.Expr) -> NoReturn:
        raise self._error(message, at)

    def _error(self, message: str, at: int | exp.Expr, kind: type[ConditionError] = ConditionError) -> ConditionError:
        offset = at if isinstance(at, int) else _offset(at)
        before = self._text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
        shown = self._text.split("\n")[line - 1].replace("\t", " ")
        return kind(
            f"{message} (line {line}, column {column})\n  {shown}\n  {' ' * (column - 1)}^", table=self._table or None
        )

    # Conditions ---------------------------------------------------------------------------------

    def condition(self, node: exp.Expr) -> Node:
        """Reads what is true, false or unknown."""
        for kind, read in _CONDITIONS.items():
            if isinstance(node, kind):
                return read(self, node)
        if type(node) in _OPERATORS:
            return self._compare(_OPERATORS[type(node)], node.this, node.expression, node)
        return self._as_truth(node)

    def every(self, node: exp.Expr) -> Node:
        """Reads AND."""
        return Every((self.condition(node.this), self.condition(node.expression)))

    def some(self, node: exp.Expr) -> Node:
        """Reads OR."""
        return Some((self.condition(node.this), self.condition(node.expression)))

    def between(self, node: exp.Expr) -> Node:
        """Reads BETWEEN, both ends included."""
        low = self._compare(">=", node.this, node.args["low"], node)
        return Every((low, self._compare("<=", node.this, node.args["high"], node)))

    def among(self, node: exp.Expr) -> Node:
        """Reads IN with values."""
        if not node.expressions:
            self._fail("IN takes values", node)
        return Some(tuple(self._compare("=", node.this, expression, node) for expression in node.expressions))

    def truth(self, node: exp.Expr) -> Node:
        """Reads IS NULL, IS TRUE, IS FALSE."""
        what = node.expression
        if isinstance(what, exp.Boolean):
            return IsTruth(self.condition(node.this), bool(what.this))
        if not isinstance(what, exp.Null):
            self._fail("IS is followed by NULL, TRUE or FALSE", node)
        if isinstance(node.this, exp.Column):
            return IsNull(self._any_column(node.this))
        return IsTruth(self.condition(node.this), None)

    def like(self, node: exp.Expr) -> Node:
        """Reads LIKE."""
        column, rule = self._text_column(node.this)
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            self._fail("LIKE is followed by a text", node)
        text = str(pattern.this)
        if "\\" in text:
            self._fail("escapes in LIKE are not translated", pattern)
        if rule.only_plain and not is_plain_text(text):
            self._fail(f"{column.collation} compares this text by more than its characters{_HINT}", pattern)
        like = Like(column, text, rule)
        return Not(like) if node.args.get("negate") else like

    def _as_truth(self, node: exp.Expr) -> Node:
        """Reads a number as a condition: it is true if it is not 0."""
        term = self.term(node)
        if _kind(term) not in EXACT:
            self._fail("this is no condition", node)
        return self._numbers("<>", term, Constant(ValueKind.INTEGER, 0), node)

    # Comparisons --------------------------------------------------------------------------------

    def _compare(self, operator: str, left: exp.Expr, right: exp.Expr, node: exp.Expr) -> Node:
        left, right = left.unnest(), right.unnest()
        if isinstance(left, exp.Null) or isinstance(right, exp.Null):
            return self._with_null(operator, left, node)
        if _is_text(left) and not _is_text(right):
            return self._compare(_TURNED.get(operator, operator), right, left, node)
        if _is_text(right) and not _is_text(left):
            return self._with_text(operator, left, right, node)
        return self._terms(operator, self._operand(left), self._operand(right), node)

    def _with_null(self, operator: str, left: exp.Expr, node: exp.Expr) -> Node:
        if operator != "<=>" or not isinstance(left, exp.Column):
            self._fail("nothing is equal to NULL: write IS NULL", node)
        return IsNull(self._any_column(left))

    def _terms(self, operator: str, term: Term, other: Term, node: exp.Expr) -> Node:
        if {_kind(term), _kind(other)} <= {*EXACT, ValueKind.DOUBLE}:
            return self._numbers(operator, term, other, node)
        if _kind(term) is not _kind(other):
            self._fail("values of these two types are cast by MySQL before they are compared", node)
        if _kind(term) is ValueKind.TEXT:
            return self._texts(operator, term, other, node)
        return Compare(operator, term, other, _kind(term))

    def _operand(self, node: exp.Expr) -> Term:
        return self._text_column(node)[0] if isinstance(node, (exp.Collate, exp.Cast)) else self.term(node)

    def _with_text(self, operator: str, node: exp.Expr, literal: exp.Expr, where: exp.Expr) -> Node:
        """Compares a column and a text: both are texts, or the text is a date or time in the full form."""
        term = self._operand(node)
        text = str(literal.this.this if isinstance(literal, exp.Cast) else literal.this)
        if isinstance(literal, exp.Cast) and not _has_form(text, literal):
            self._fail(f"a {literal.to.this.name.removesuffix('TZ')} is written in full", literal)
        kind = _kind(term)
        if kind is ValueKind.TEXT and isinstance(literal, exp.Literal):
            return self._texts(operator, term, Constant(ValueKind.TEXT, text), where)
        constant = temporal(text, kind)
        if constant is not None:
            return Compare(operator, term, constant, kind)
        if kind in _FORMS:
            self._fail(f"this column is compared with {_FORMS[kind]} written in full", literal)
        raise self._error("MySQL would cast this text to a number: write the number without quotes", literal)

    def _texts(self, operator: str, left: Term, right: Term, node: exp.Expr) -> Node:
        columns = [term for term in (left, right) if isinstance(term, ColumnTerm)]
        collations = {column.collation for column in columns}
        if len(collations) != 1:
            self._fail("these two are compared by different collations", node)
        collation = str(collations.pop())
        rule = self._rule(collation, node)
        if operator not in {"=", "<>", "<=>"} and collation != BINARY:
            self._fail(f"what is smaller in {collation} is not known here{_HINT}", node)
        texts = [str(term.value) for term in (left, right) if isinstance(term, Constant)]
        if rule.only_plain and not all(map(is_plain_text, texts)):
            self._fail(f"{collation} compares this text by more than its characters{_HINT}", node)
        return Compare(operator, left, right, ValueKind.TEXT, text=rule)

    def _numbers(self, operator: str, left: Term, right: Term, node: exp.Expr) -> Node:
        kinds = {_kind(left), _kind(right)}
        if ValueKind.DOUBLE in kinds:
            if ValueKind.DECIMAL in kinds:
                self._fail("MySQL would round one of the two to a double: write the number the other way", node)
            return Compare(operator, left, right, ValueKind.DOUBLE)
        if any(is_year(term) for term in (left, right)):
            self._check_year(left, right, node)
        if kinds == {ValueKind.INTEGER}:
            return Compare(operator, left, right, ValueKind.INTEGER)
        (whole, decimals), (other_whole, other_decimals) = _digits(left), _digits(right)
        scale = max(decimals, other_decimals)
        if max(whole, other_whole) + scale > MOST_DIGITS:
            self._fail(f"more than {MOST_DIGITS} digits are needed to compare these", node)
        return Compare(operator, left, right, ValueKind.DECIMAL, scale)

    def _check_year(self, left: Term, right: Term, node: exp.Expr) -> None:
        """Refuses other numbers than years of four digits: MySQL reads 70 as 1970 if it is compared with a YEAR."""
        others = [term for term in (left, right) if not is_year(term)]
        if any(not isinstance(term, Constant) or term.value not in _YEARS for term in others):
            self._fail("a YEAR is compared with years of four digits", node)

    # Terms --------------------------------------------------------------------------------------

    def term(self, node: exp.Expr) -> Term:
        """Reads a value."""
        node = node.unnest()
        if isinstance(node, (exp.Boolean, exp.Literal)):
            return self._constant(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Neg):
            return self._negated(node)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[type(node)], node)
        if isinstance(node, (exp.Length, exp.Abs)):
            return self._call(node)
        raise self._untranslated(node)

    def _constant(self, node: exp.Boolean | exp.Literal) -> Term:
        if isinstance(node, exp.Boolean):
            return Constant(ValueKind.INTEGER, int(bool(node.this)), (1, 0))
        if node.is_string:
            raise self._untranslated(node)
        constant = number(str(node.this))
        if constant is None:
            self._fail("this number has too many digits, or is no DOUBLE", node)
        return constant

    def _call(self, node: exp.Length | exp.Abs) -> Term:
        """Reads CHAR_LENGTH and ABS. LENGTH counts bytes, so it is not CHAR_LENGTH."""
        function, kind = ("ABS", ValueKind.INTEGER) if isinstance(node, exp.Abs) else ("CHAR_LENGTH", ValueKind.TEXT)
        argument = self.term(node.this)
        if _kind(argument) is not kind or node.args.get("binary"):
            raise self._untranslated(node)
        return Call(function, argument)

    def _untranslated(self, node: exp.Expr) -> ConditionError:
        return self._error(f"{_called(node)} is not translated", node)

    def _negated(self, node: exp.Expr) -> Term:
        inner = self.term(node.this)
        if isinstance(inner, Constant) and isinstance(inner.value, (int, float)):
            return Constant(inner.kind, -inner.value, inner.digits)
        if isinstance(inner, Constant) and inner.kind is ValueKind.DECIMAL:
            return Constant(inner.kind, -inner.value, inner.digits)  # type: ignore[operator]
        if _kind(inner) is not ValueKind.INTEGER:
            self._fail("only whole numbers are calculated with", node)
        return Arithmetic("-", Constant(ValueKind.INTEGER, 0), inner)

    def _arithmetic(self, operation: str, node: exp.Expr) -> Term:
        left, right = self.term(node.this), self.term(node.expression)
        if {_kind(left), _kind(right)} != {ValueKind.INTEGER}:
            self._fail("only whole numbers are calculated with", node)
        if operation == "%" and not (isinstance(right, Constant) and right.value):
            self._fail("% takes a number that is not 0", node)
        return Arithmetic(operation, left, right)

    def _text_column(self, node: exp.Expr) -> tuple[ColumnTerm, TextRule]:
        """A column of text, with the collation that is written, if there is one."""
        node = node.unnest()
        collation = None
        if isinstance(node, exp.Collate):
            collation, node = node.expression.name.lower(), node.this.unnest()
        if not isinstance(node, exp.Column):
            self._fail(f"{_called(node)} is not translated", node)
        column = self._column(node)
        if column.kind is not ValueKind.TEXT:
            self._fail("this column is no text", node)
        if collation is not None:
            column = ColumnTerm(column.name, ValueKind.TEXT, collation, is_plain=column.is_plain)
        return column, self._rule(column.collation, node)

    def _rule(self, collation: str | None, node: exp.Expr) -> TextRule:
        rule = RULES.get(collation or "")
        if rule is None:
            self._fail(f"what is equal in {collation or 'its unknown collation'} is not known here{_HINT}", node)
        return rule

    def _column(self, node: exp.Column) -> ColumnTerm:
        column = self._named(node)
        term = column_term(column)
        if term is None:
            self._fail(f"values of {column.column_type} are not compared here", node)
        return term

    def _any_column(self, node: exp.Column) -> ColumnTerm:
        column = self._named(node)
        return column_term(column) or ColumnTerm(column.name, ValueKind.TEXT)

    def _named(self, node: exp.Column) -> Column:
        if node.table and not f".{self._table}".endswith(f".{node.db}.{node.table}" if node.db else f".{node.table}"):
            self._fail(f"the condition is on {self._table or 'one table'}", node)
        own_column = self._definition.column(node.name)
        if own_column is None:
            names = [column.name for column in self._definition.columns]
            near = get_close_matches(node.name, names, n=3)
            hint = f"; near it are {', '.join(near)}" if near else f"; there are {', '.join(names)}"
            raise self._error(f"there is no column {node.name}{hint}", node, UnknownColumnError)
        return own_column


_HINT: Final = f": write COLLATE {BINARY} after the column to compare by characters"
_NO_PARTS: Final = {
    TokenType.DPIPE: "`||` is OR or CONCAT by the server's sql_mode: write OR",
    TokenType.SEMICOLON: "a condition is one expression",
    TokenType.ALIAS: "a condition has no AS",
    TokenType.ALL: "a condition has no ALL",
}
_USUAL_PARTS: Final = frozenset({"this", "expression", "expressions"})
_PARTS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Column: frozenset({"this", "table", "db"}),
    exp.DataType: frozenset({"this", "nested"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Length: frozenset({"this", "binary"}),
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.Literal: frozenset({"this", "is_string"}),
}
"""By type, which parts are read; where sqlglot has found others, the text means more than is read of it."""
_CONDITIONS: Final[dict[type[exp.Expr], Callable[[_ConditionReader, exp.Expr], Node]]] = {
    exp.Paren: lambda reader, node: reader.condition(node.this),
    exp.And: _ConditionReader.every,
    exp.Or: _ConditionReader.some,
    exp.Not: lambda reader, node: Not(reader.condition(node.this)),
    exp.Between: _ConditionReader.between,
    exp.In: _ConditionReader.among,
    exp.Is: _ConditionReader.truth,
    exp.Like: _ConditionReader.like,
}


def _kind(term: Term) -> ValueKind:
    return term.kind if isinstance(term, (ColumnTerm, Constant)) else ValueKind.INTEGER


def _digits(term: Term) -> tuple[int, int]:
    return term.digits if isinstance(term, (ColumnTerm, Constant)) else (MOST_DIGITS, 0)


def _is_text(node: exp.Expr) -> bool:
    """Whether a node is a text, or a date or time after its type."""
    if isinstance(node, exp.Cast):
        return isinstance(node.this, exp.Literal) and node.to.this.name in _TYPED
    return isinstance(node, exp.Literal) and node.is_string


def _has_form(text: str, typed: exp.Cast) -> bool:
    """Whether the text after a type is a value of it: `DATE '12:00:00'` is an error, a TIMESTAMP has a time."""
    kind = _TYPED[typed.to.this.name]
    return temporal(text, kind) is not None and (kind is not ValueKind.DATETIME or ":" in text)


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return f"{str(node.this).upper()}()"
    return f"{node.sql_name()}()" if isinstance(node, exp.Func) else f"{type(node).__name__.upper()}"


def _offset(node: exp.Expr) -> int:
    """Where a node begins in the text: its own position, or the position of the first node in it that has one."""
    starts = [expression.meta["start"] for expression in node.walk() if "start" in expression.meta]
    return min(starts, default=0)


_TEMPORAL: Final = {
    TypeKind.DATE: ValueKind.DATE, TypeKind.DATETIME: ValueKind.DATETIME, TypeKind.TIMESTAMP: ValueKind.TIMESTAMP,
    TypeKind.TIME: ValueKind.TIME,
}  # fmt: skip
_TYPED: Final = {"DATE": ValueKind.DATE, "TIME": ValueKind.TIME, "TIMESTAMPTZ": ValueKind.DATETIME}
"""Of literals after a type, as sqlglot calls the types; MySQL has no `DATETIME '...'`."""
_DIGITS_OF_YEAR: Final = (4, 0)


def column_term(column: Column) -> ColumnTerm | None:
    """Returns how values of the column are compared; None for types that are not compared."""
    kind = parse_column_type(column.column_type)
    family = kind.kind.facts.family
    if family in {Family.INTEGER, Family.YEAR}:
        return ColumnTerm(column.name, ValueKind.INTEGER, digits=_DIGITS_OF_YEAR if family is Family.YEAR else (20, 0))
    if family is Family.DECIMAL and (kind.length or 10) <= MOST_DIGITS:
        scale = kind.decimals or 0
        return ColumnTerm(column.name, ValueKind.DECIMAL, digits=((kind.length or 10) - scale, scale))
    if family is Family.FLOATING:
        return ColumnTerm(column.name, ValueKind.DOUBLE)
    if family in {Family.CHARACTERS, Family.TEXT} or (kind.kind is TypeKind.ENUM and column.collation is not None):
        is_plain = kind.kind is TypeKind.ENUM and all(map(is_plain_text, kind.labels))
        return ColumnTerm(column.name, ValueKind.TEXT, column.collation, is_plain=is_plain)
    if family is Family.TEMPORAL:
        return ColumnTerm(column.name, _TEMPORAL[kind.kind])
    return None


def is_year(term: Term) -> bool:
    """Whether a term is a YEAR: MySQL reads numbers differently if they are compared with a YEAR."""
    return isinstance(term, ColumnTerm) and term.kind is ValueKind.INTEGER and term.digits == _DIGITS_OF_YEAR


def is_plain_text(text: str) -> bool:
    """Whether a text is plain ASCII: U+0020 to U+007E."""
    return all(" " <= ch <= "~" for ch in text)
