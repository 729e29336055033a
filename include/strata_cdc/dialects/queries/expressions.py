"""Reads expressions of a query: columns, literals, operators, comparisons, subqueries. What is not known is refused.
Not here: functions (`functions.py`, `aggregates.py`), what columns there are (`scope.py`), SELECT (`selects.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.changes.arrow import MOST_DIGITS
from strata_cdc.dialects.conditions.literals import number, temporal
from strata_cdc.dialects.conditions.terms import ValueKind
from strata_cdc.dialects.queries.collations import quoted
from strata_cdc.dialects.queries.comparing import (
    NotComparedError,
    as_double,
    as_kind,
    bits_as_number,
    group_key,
    shared_key,
    sides,
    temporal_value,
    text_key,
    together,
    united,
)
from strata_cdc.dialects.queries.values import (
    DOUBLE,
    EXACT,
    INTEGER,
    NULL,
    UNSIGNED,
    Kind,
    QueryValue,
    Strength,
    ValueType,
    boolean,
    decimal,
    name_of,
)
from strata_cdc.schema.model.charsets import collation_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.dialects.queries.scope import NameScope
    from strata_cdc.dialects.queries.statement_text import StatementText

    Translate = Callable[["ExpressionReader", exp.Expr], QueryValue]

_MOST_SIGNED, _MOST_UNSIGNED = (1 << 63) - 1, (1 << 64) - 1
_COMPARED: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}  # fmt: skip
_EQUALITIES: Final = (exp.EQ, exp.NEQ, exp.NullSafeEQ)
_PREDICATES: Final = (*_COMPARED, exp.In, exp.Between, exp.Like, exp.Escape, exp.Is, exp.Not, exp.And, exp.Or)
_CONDITIONS: Final = (*_PREDICATES, exp.Exists, exp.Boolean)
_CALCULATED: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_NUMBERS: Final = {*EXACT, ValueType.DOUBLE}
_TYPES_OF_LITERALS: Final = {
    "DATE": ValueKind.DATE, "DATETIME": ValueKind.DATETIME, "TIMESTAMP": ValueKind.DATETIME,
    "TIMESTAMPTZ": ValueKind.DATETIME, "TIME": ValueKind.TIME,
}  # fmt: skip
"""sqlglot's names of the types before literals."""
_TIMESTAMPS: Final = frozenset({"TIMESTAMP", "TIMESTAMPTZ"})

_MOST_ROWS: Final = 1000
_MOST_IN_BIGINT: Final = 18
"""Digits of a decimal for which DuckDB takes 8 bytes."""


class ExpressionReader:
    """Reads the expressions of one SELECT.

    Args:
        text: The statement, for errors.
        scope: The columns that its expressions can name.
        functions: What functions and aggregates mean, by sqlglot's classes or by upper-case names.
        subquery: Reads a query inside an expression: its SQL with columns c0, c1, ..., and their values.
        connection_collation: The collation of literals.
    """

    def __init__(
        self,
        text: StatementText,
        scope: NameScope,
        functions: Mapping[type[exp.Expr] | str, Translate],
        subquery: Callable[[exp.Expr, NameScope], tuple[str, Sequence[QueryValue]]],
        connection_collation: str,
    ) -> None:
        self.text, self.scope = text, scope
        self.functions, self.subquery = functions, subquery
        self.connection_collation = connection_collation

    def refuse(self, message: str, node: exp.Expr) -> NoReturn:
        """Refuses the statement.

        Raises:
            QueryError: Always.
        """
        raise self.text.error(message, node)

    # Values -------------------------------------------------------------------------------------

    def value(self, node: exp.Expr) -> QueryValue:
        """The value of an expression.

        Raises:
            QueryError: What MySQL makes of it is not known here.
        """
        read = _VALUES.get(type(node)) or self.functions.get(type(node))
        if isinstance(node, exp.Anonymous):
            read = self.functions.get(str(node.this).upper())
        try:
            if read is not None:
                return replace(read(self, node), name=name_of(node))
            if isinstance(node, _CONDITIONS):
                return boolean(self.condition(node))
        except NotComparedError as error:
            self.refuse(str(error), node)
        return self.refuse(f"{_called(node)} is not translated", node)

    def column(self, node: exp.Expr) -> QueryValue:
        """A column that the scope has."""
        return self.scope.column(node, self.text)

    def literal(self, node: exp.Expr) -> QueryValue:
        """A text or a number."""
        if node.is_string:
            if "\0" in node.name:
                self.refuse("a text with a NUL is not read", node)
            kind = Kind(ValueType.TEXT, collation=self.connection_collation, strength=Strength.LITERAL)
            return QueryValue(quoted(node.name), kind, literal=node.name)
        return self._number(node)

    def _number(self, node: exp.Expr) -> QueryValue:
        literal = number(node.name)
        if literal is None:
            self.refuse(f"a number of more than {MOST_DIGITS} digits, or that is no DOUBLE, is not read", node)
        if literal.kind is ValueKind.DOUBLE:
            return QueryValue(f"CAST({quoted(node.name)} AS DOUBLE)", DOUBLE)
        if literal.kind is ValueKind.DECIMAL:
            kind = decimal(max(sum(literal.digits), 1), literal.digits[1])
            return QueryValue(
                f"CAST({quoted(node.name)} AS DECIMAL({kind.digits},{kind.scale}))", kind, literal=node.name
            )
        whole = int(node.name)
        if whole > _MOST_UNSIGNED:
            return QueryValue(f"CAST({whole} AS DECIMAL({MOST_DIGITS},0))", decimal(len(str(whole)), 0))
        if whole > _MOST_SIGNED:
            return QueryValue(f"CAST({whole} AS UBIGINT)", UNSIGNED, literal=whole)
        return QueryValue(f"CAST({whole} AS BIGINT)", replace(INTEGER, digits=len(str(whole))), literal=whole)

    def negative(self, node: exp.Expr) -> QueryValue:
        """A minus before an expression."""
        inner = self.value(node.this)
        if inner.type not in _NUMBERS or inner.kind.unsigned or inner.kind.is_quotient:
            self.refuse("only numbers with a sign are negated", node)
        kind = replace(inner.kind, shown_as=None, is_of_year=False)
        if isinstance(inner.literal, int):
            if inner.literal < 0:
                self.refuse("a minus before a negative number is not translated", node)
            return QueryValue(f"CAST({-inner.literal} AS BIGINT)", kind, literal=-inner.literal)
        literal = f"-{inner.literal}".removeprefix("--") if inner.literal is not None else None
        return QueryValue(f"(-{inner.sql})", kind, literal=literal)

    def calculated(self, node: exp.Expr) -> QueryValue:
        """+, - and * of numbers; + and - of a date and an INTERVAL."""
        if isinstance(node.expression, exp.Interval):
            return self.functions["INTERVAL"](self, node)
        left, right = self.value(node.this), self.value(node.expression)
        operator = _CALCULATED[type(node)]
        self.require_numbers([left, right], node)
        if ValueType.NULL in {left.type, right.type}:
            return QueryValue("NULL", NULL)
        if ValueType.DOUBLE in {left.type, right.type}:
            return self.double(f"{self._as_double(left, node)} {operator} {self._as_double(right, node)}")
        if left.type is right.type is ValueType.INTEGER:
            unsigned = left.kind.unsigned or right.kind.unsigned
            wide = f"CAST({left.sql} AS HUGEINT) {operator} CAST({right.sql} AS HUGEINT)"
            return _whole(wide, [left, right], unsigned=unsigned)
        return self._decimals(left, right, operator, node)

    def _decimals(self, left: QueryValue, right: QueryValue, operator: str, node: exp.Expr) -> QueryValue:
        before = [value.kind.digits - value.kind.scale for value in (left, right)]
        if operator == "*":
            scale, digits = left.kind.scale + right.kind.scale, left.kind.digits + right.kind.digits
        else:
            scale = max(left.kind.scale, right.kind.scale)
            digits = max(before) + 1 + scale
        if digits > MOST_DIGITS:
            self.refuse(f"the result may have more than {MOST_DIGITS} digits: CAST(... AS DECIMAL(...))", node)
        sizes = [max(value.kind.digits, 1) for value in (left, right)]
        if max(sizes) <= _MOST_IN_BIGINT < digits:
            # DuckDB calculates with as many bytes as the operands have.
            sizes[0] = _MOST_IN_BIGINT + 1
        parts = [
            f"CAST({value.sql} AS DECIMAL({size},{value.kind.scale}))"
            for value, size in zip((left, right), sizes, strict=True)
        ]
        return QueryValue(
            f"CAST(({parts[0]} {operator} {parts[1]}) AS DECIMAL({digits},{scale}))", decimal(digits, scale)
        )

    def double(self, sql: str) -> QueryValue:
        """A floating-point number; infinity is an error, as in MySQL."""
        return QueryValue(f"finite({sql})", DOUBLE, unchecked=f"({sql})")

    def _as_double(self, value: QueryValue, node: exp.Expr) -> str:
        if value.type is ValueType.DECIMAL and value.literal is None:
            self.refuse("decimals are not calculated with floating-point numbers", node)
        return value.unchecked or as_double(value)

    def require_numbers(self, values: Sequence[QueryValue], node: exp.Expr) -> None:
        """Refuses values that are no numbers, and quotients.

        Raises:
            QueryError: One of them is none.
        """
        for value in values:
            if value.type not in {*_NUMBERS, ValueType.NULL}:
                way = "" if value.type is ValueType.SHOWN else ": CAST(... AS SIGNED) makes one of a YEAR or BIT"
                self.refuse(f"{value.name} is no number{way}", node)
            if value.kind.is_quotient:
                self.refuse(
                    "the server calculates with more digits of quotients and averages than it shows: use ROUND()", node
                )

    def case(self, node: exp.Expr) -> QueryValue:
        """CASE, with and without an operand."""
        tests = [case.this for case in node.args["ifs"]]
        if node.this is None:
            conditions = [self.condition(test) for test in tests]
        else:
            operand, *others = together([self.value(argument) for argument in (node.this, *tests)])
            conditions = [_equal(operand, other) for other in others]
        default = node.args.get("default")
        values = [self.value(case.args["true"]) for case in node.args["ifs"]]
        return self.chosen(conditions, values, QueryValue("NULL", NULL) if default is None else self.value(default))

    def when(self, node: exp.Expr) -> QueryValue:
        """IF()."""
        if node.args.get("false") is None:
            self.refuse("IF() has three arguments", node)
        values = [self.value(node.args["true"]), self.value(node.args["false"])]
        return self.chosen([self.condition(node.this)], values[:1], values[1])

    def chosen(self, conditions: Sequence[str], values: Sequence[QueryValue], default: QueryValue) -> QueryValue:
        """The first value whose condition holds."""
        kind = united([*values, default])
        parts = [
            f"WHEN {condition} THEN {as_kind(value, kind)}" for condition, value in zip(conditions, values, strict=True)
        ]
        return QueryValue(f"CASE {' '.join(parts)} ELSE {as_kind(default, kind)} END", kind)

    def coalesced(self, node: exp.Expr) -> QueryValue:
        """COALESCE and IFNULL."""
        values = [self.value(argument) for argument in (node.this, *node.expressions)]
        kind = united(values)
        return QueryValue(f"coalesce({', '.join(as_kind(value, kind) for value in values)})", kind)

    def null_if(self, node: exp.Expr) -> QueryValue:
        """NULLIF."""
        value = self.value(node.this)
        if value.type is ValueType.BIT:
            self.refuse("NULLIF of a BIT is not translated", node)
        same = self.condition(exp.EQ(this=node.this.copy(), expression=node.expression.copy()))
        return QueryValue(f"CASE WHEN {same} THEN NULL ELSE {value.sql} END", replace(value.kind, shown_as=None))

    def collated(self, node: exp.Expr) -> QueryValue:
        """A text with COLLATE."""
        value = self.value(node.this)
        if value.type not in {ValueType.TEXT, ValueType.ENUM}:
            self.refuse("only texts have a collation", node)
        name = str(node.expression.name).lower()
        charset = (value.kind.collation or "").partition("_")[0]
        if collation_named(name) is None:
            self.refuse(f"there is no collation {name}", node)
        if value.kind.strength is Strength.COLUMN and name.partition("_")[0] != charset:
            self.refuse(f"{name} is no collation of {charset}", node)
        kind = Kind(ValueType.TEXT, collation=name, strength=Strength.EXPLICIT)
        return QueryValue(value.sql, kind, literal=value.literal)

    def cast(self, node: exp.Expr) -> QueryValue:
        """DATE '...' and the like; CAST."""
        kind = _TYPES_OF_LITERALS.get(node.args["to"].this.name)
        if kind is not None and isinstance(node.this, exp.Literal) and node.this.is_string:
            moment = temporal(node.this.name, kind)
            # TIMESTAMP '2026-02-01' is an error to the server, CAST('2026-02-01' AS DATETIME) midnight.
            is_short = node.args["to"].this.name in _TIMESTAMPS and ":" not in node.this.name
            if moment is None or is_short:
                self.refuse(f"{node.this.name!r} is no {kind.name} in its full form", node)
            return temporal_value(moment.value)
        return self.functions["CAST"](self, node)

    def scalar(self, node: exp.Expr) -> QueryValue:
        """A subquery with one column and at most one row."""
        sql, columns = self.subquery(node.this, self.scope)
        if len(columns) != 1:
            self.refuse("a subquery that is a value has one column", node)
        return QueryValue(f"({sql})", columns[0].kind)

    def key(self, value: QueryValue, node: exp.Expr, *, ordered: bool = False) -> str:
        """What DuckDB groups or orders by instead of a value.

        Raises:
            QueryError: What is equal among such values is not known here.
        """
        try:
            return group_key(value, ordered=ordered)
        except NotComparedError as error:
            self.refuse(str(error), node)

    # Conditions ---------------------------------------------------------------------------------

    def condition(self, node: exp.Expr) -> str:
        """An expression as a condition of DuckDB: true, false or NULL.

        Raises:
            QueryError: What MySQL makes of it is not known here.
        """
        try:
            return self._condition(node)
        except NotComparedError as error:
            self.refuse(str(error), node)

    def _condition(self, node: exp.Expr) -> str:
        if type(node) in _COMPARED:
            self.require_operands(node, [node.this, node.expression])
            return self.compared(node)
        read = _PREDICATE_READERS.get(type(node))
        if read is not None:
            return read(self, node)
        value = self.value(node)
        if value.type is ValueType.NULL:
            return "CAST(NULL AS BOOLEAN)"
        if value.type is ValueType.BIT:
            value = bits_as_number(value)
        if value.type not in _NUMBERS or value.kind.is_quotient:
            self.refuse("only numbers are conditions", node)
        return f"({value.sql} <> 0)"

    def require_operands(self, node: exp.Expr, operands: Sequence[exp.Expr]) -> None:
        """Refuses a comparison as an operand of another one: sqlglot and MySQL group them in different ways.

        Raises:
            QueryError: An operand is a comparison without parentheses.
        """
        if any(isinstance(operand, _PREDICATES) for operand in operands):
            self.refuse("a comparison of a comparison needs parentheses", node)

    def compared(self, node: exp.Expr) -> str:
        """One of = <> < <= > >= <=>."""
        if isinstance(node.this, exp.Tuple) or isinstance(node.expression, exp.Tuple):
            return self._compared_tuples(node)
        ordered = not isinstance(node, _EQUALITIES)
        left, right = sides(self.value(node.this), self.value(node.expression), ordered=ordered)
        return f"({left} {_COMPARED[type(node)]} {right})"

    def _compared_tuples(self, node: exp.Expr) -> str:
        if type(node) is not exp.EQ or len(node.this.expressions) != len(node.expression.expressions):
            self.refuse("rows of several values are only compared by = and IN", node)
        pairs = zip(node.this.expressions, node.expression.expressions, strict=True)
        return self._all([self.condition(exp.EQ(this=a.copy(), expression=b.copy())) for a, b in pairs])

    def _all(self, conditions: Sequence[str]) -> str:
        return f"({' AND '.join(conditions)})"

    def among(self, node: exp.Expr) -> str:
        """IN, of a list or of a subquery."""
        self.require_operands(node, [node.this])
        query = node.args.get("query")
        if query is None:
            if isinstance(node.this, exp.Tuple):
                if len(node.expressions) > _MOST_ROWS:
                    self.refuse(f"IN takes {_MOST_ROWS:,} rows of several values here", node)
                equal = [exp.EQ(this=node.this.copy(), expression=choice.copy()) for choice in node.expressions]
                return f"({' OR '.join(map(self.condition, equal))})"
            value, *others = together([self.value(argument) for argument in (node.this, *node.expressions)])
            return _equal_to_any(value, others)
        mine = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        sql, columns = self.subquery(query.this if isinstance(query, exp.Subquery) else query, self.scope)
        if len(columns) != len(mine):
            self.refuse("both sides of IN have equally many columns", node)
        lefts, rights = zip(
            *(
                sides(self.value(expression), column, ordered=False)
                for expression, column in zip(mine, columns, strict=True)
            ),
            strict=True,
        )
        left = lefts[0] if len(lefts) == 1 else f"({', '.join(lefts)})"
        return f"({left} IN (SELECT {', '.join(rights)} FROM ({sql}) AS q))"  # noqa: S608  all parts are made here

    def between(self, node: exp.Expr) -> str:
        """BETWEEN."""
        low, high = node.args["low"], node.args["high"]
        self.require_operands(node, [node.this, low, high])
        value, *bounds = together([self.value(argument) for argument in (node.this, low, high)])
        (first, least), (second, most) = (sides(value, bound, ordered=True) for bound in bounds)
        return f"({first} >= {least} AND {second} <= {most})"

    def truth(self, node: exp.Expr) -> str:
        """IS NULL, IS TRUE, IS FALSE, IS UNKNOWN."""
        right = node.expression
        self.require_operands(node, [node.this])
        if isinstance(right, exp.Null):
            return f"({self.value(node.this).sql} IS NULL)"
        if isinstance(right, exp.Boolean):
            return f"({self.condition(node.this)} IS {'TRUE' if right.this else 'FALSE'})"
        return self.refuse("IS takes NULL, TRUE or FALSE", node)

    def like(self, node: exp.Expr, escape: str = "\\") -> str:
        r"""LIKE with a literal pattern; `\` escapes unless ESCAPE names another character."""
        self.require_operands(node, [node.this, node.expression])
        value, pattern = self.value(node.this), self.value(node.expression)
        if value.type not in {ValueType.TEXT, ValueType.ENUM} or not isinstance(pattern.literal, str):
            self.refuse("LIKE takes a text and a literal pattern", node)
        key = shared_key([value, pattern])
        made = _pattern(pattern.literal, escape, key.folded, key.known)
        if made is None:
            self.refuse(f"{key.collation} is not known here for a character of the pattern", node)
        text = text_key(value, replace(key, pads=False))
        text = text.replace(f"{key.macro}(", f"{key.pattern_macro}(", 1) if text.startswith(key.macro) else text
        word = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return f"({text} {word} {quoted(made)} ESCAPE {quoted(_ESCAPE)})"

    def escaped(self, node: exp.Expr) -> str:
        """LIKE ... ESCAPE."""
        character = node.expression
        if not isinstance(node.this, exp.Like) or not isinstance(character, exp.Literal) or len(character.name) > 1:
            self.refuse("ESCAPE takes one character", node)
        return self.like(node.this, character.name)


_ESCAPE: Final = "\x01"


def _equal(left: QueryValue, right: QueryValue) -> str:
    first, other = sides(left, right, ordered=False)
    return f"({first} = {other})"


def _equal_to_any(value: QueryValue, others: Sequence[QueryValue]) -> str:
    """Whether a value is equal to one of others. Those that are compared alike are one list for DuckDB, whose process
    dies of some ten thousand terms of OR (1.4.4)."""
    lists: dict[tuple[str, Kind], list[str]] = {}
    for other in others:
        left, right = sides(value, other, ordered=False)
        lists.setdefault((left, other.kind), []).append(right)
    tests = [f"({left} IN ({', '.join(rights)}))" for (left, _), rights in lists.items()]
    return f"({' OR '.join(tests)})"


def _pattern(text: str, escape: str, folded: Callable[[str], str], known: Callable[[str], bool]) -> str | None:
    """A pattern of LIKE with one character for each weight; None if one is not known."""
    made, at = "", 0
    while at < len(text):
        character = text[at]
        if character == escape and escape and at + 1 < len(text):
            at += 1
            character = text[at]
        elif character in "%_":
            made += character
            at += 1
            continue
        if not known(character) or character == _ESCAPE:
            return None
        shown = folded(character)
        made += f"{_ESCAPE}{shown}" if shown in "%_" else shown
        at += 1
    return made


def _hexadecimal(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    if len(node.name) % 2:
        reader.refuse("a hexadecimal literal has two digits for each byte", node)
    return QueryValue(f"unhex({quoted(node.name)})", Kind(ValueType.BYTES))


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.BitString):
        return "a literal b'...', which is bytes to the server (a BIT is compared with numbers),"
    if isinstance(node, exp.Anonymous):
        return f"{str(node.this).upper()}()"
    return f"{node.sql_name()}()" if isinstance(node, exp.Func) else type(node).__name__.upper()


def _quotient(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    return reader.functions["/"](reader, node)


def _whole_quotient(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    left, right = reader.value(node.this), reader.value(node.expression)
    if left.type is not ValueType.INTEGER or right.type is not ValueType.INTEGER:
        reader.refuse("DIV and % take whole numbers", node)
    operator = "//" if isinstance(node, exp.IntDiv) else "%"
    unsigned = left.kind.unsigned or (operator == "//" and right.kind.unsigned)
    wide = f"CAST({left.sql} AS HUGEINT) {operator} CAST({right.sql} AS HUGEINT)"
    whole = _whole(wide, [left, right], unsigned=unsigned)
    return replace(whole, sql=f"CASE WHEN {right.sql} = 0 THEN NULL ELSE {whole.sql} END")


def _whole(wide: str, operands: Sequence[QueryValue], *, unsigned: bool) -> QueryValue:
    """A whole number that was calculated with more digits; it is an error if its type does not hold it."""
    if unsigned:
        return QueryValue(f"CAST(({wide}) AS UBIGINT)", UNSIGNED)
    if any(value.kind.is_of_year for value in operands):
        return QueryValue(f"CAST(CAST(({wide}) AS UBIGINT) AS BIGINT)", replace(INTEGER, is_of_year=True))
    return QueryValue(f"CAST(({wide}) AS BIGINT)", INTEGER)


_VALUES: Final[dict[type[exp.Expr], Translate]] = {
    exp.Column: lambda reader, node: reader.column(node),  # after GROUP BY it is another method
    exp.Literal: ExpressionReader.literal,
    exp.HexString: _hexadecimal,
    exp.Null: lambda _, __: QueryValue("NULL", NULL),
    exp.Paren: lambda reader, node: reader.value(node.this),
    exp.Neg: ExpressionReader.negative,
    exp.Add: ExpressionReader.calculated,
    exp.Sub: ExpressionReader.calculated,
    exp.Mul: ExpressionReader.calculated,
    exp.Div: _quotient,
    exp.IntDiv: _whole_quotient,
    exp.Mod: _whole_quotient,
    exp.Case: ExpressionReader.case,
    exp.If: ExpressionReader.when,
    exp.Coalesce: ExpressionReader.coalesced,
    exp.Nullif: ExpressionReader.null_if,
    exp.Collate: ExpressionReader.collated,
    exp.Cast: ExpressionReader.cast,
    exp.Subquery: ExpressionReader.scalar,
}
_PREDICATE_READERS: Final[dict[type[exp.Expr], Callable[[ExpressionReader, exp.Expr], str]]] = {
    exp.Paren: lambda reader, node: f"({reader.condition(node.this)})",
    exp.And: lambda reader, node: f"({reader.condition(node.this)} AND {reader.condition(node.expression)})",
    exp.Or: lambda reader, node: f"({reader.condition(node.this)} OR {reader.condition(node.expression)})",
    exp.Not: lambda reader, node: f"(NOT {reader.condition(node.this)})",
    exp.Boolean: lambda _, node: "true" if node.this else "false",
    exp.Exists: lambda reader, node: f"EXISTS ({reader.subquery(node.this, reader.scope)[0]})",
    exp.In: ExpressionReader.among,
    exp.Between: ExpressionReader.between,
    exp.Is: ExpressionReader.truth,
    exp.Like: ExpressionReader.like,
    exp.Escape: ExpressionReader.escaped,
}
