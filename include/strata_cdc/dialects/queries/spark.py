"""A translated query as one of Spark: what the query means is decided before, and each function has its entry here.

The translation of a query uses a small part of DuckDB's SQL. sqlglot reads it; each node is one that means the same in
Spark, or has an entry; any other is refused by name.

| in DuckDB's SQL | in Spark's |
|---|---|
| UBIGINT, HUGEINT | DECIMAL(20,0) in its bounds, DECIMAL(38,0) |
| `//` | the dividend without its remainder, divided: exact in each step, or an error |
| TIMESTAMP | TIMESTAMP_NTZ |
| keys of collations | `lower()` for ASCII, else `translate()` with the same characters; no function of Python |
| IN (SELECT ...) as a value | EXISTS: for IN, Spark (4.3) has false there instead of NULL |

Not here: the session and its settings (`spark_jobs/past_queries.py`), collations (`collations.py`)."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp, parse_one

from strata_cdc.changes.arrow import MOST_DIGITS
from strata_cdc.dialects.queries.collations import collation_key
from strata_cdc.dialects.queries.query import not_too_deep
from strata_cdc.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from strata_cdc.dialects.queries.collations import CollationKey

    Rewrite = Callable[[exp.Expr], exp.Expr]

_MOST_UNSIGNED: Final = (1 << 64) - 1
_MOST_ROWS: Final = (1 << 31) - 1
"""Spark's LIMIT is an INT."""
_KEY: Final = re.compile(r"(key|like|order)_(\w+)")
_CALENDAR: Final = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
_DIVISORS: Final = (9, 18)
"""Digits: the fewer a divisor has, the longer are the quotients for which Spark has a type."""
_CALLS: Final = 10_000
_DIGITS_OF_COUNT: Final = 19
_MOST_REPEATED: Final = 2000
"""Parts of an expression that comes several times in what Spark gets: within each other, they would become endless."""
_JAVA_FORMATS: Final = {
    "%Y": "yyyy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm", "%S": "ss", "%f": "SSSSSS", "%j": "DDD", "%y": "yy",
    "%p": "a",
}  # fmt: skip
_FORMAT_PARTS: Final = re.compile(r"%.|[^%]+")
_NO_CONTROL: Final = "[\\x00-\\x1f]"
_NOT_ASCII: Final = "[^ -~]"


def spark_sql(sql: str) -> str:
    """Spark's SQL for a part of DuckDB's SQL that `query.py` has made.

    It is for a session with ANSI mode, UTC, decimals without loss of precision, and no ordinals in GROUP BY and ORDER
    BY.

    Raises:
        QueryError: Spark does not have the meaning of some of it.
    """
    with not_too_deep(), _deep_stack():
        return _rewritten(parse_one(sql, dialect="duckdb")).sql(dialect="spark")


@contextmanager
def _deep_stack() -> Iterator[None]:
    """A hundred operators in a row are some thousand calls within each other: those of Python take no stack of C."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, _CALLS))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def _refusal(what: str) -> QueryError:
    return QueryError(f"Spark does not answer this: {what}", remedy="Leave out `--engine spark`: DuckDB answers it.")


def _rewritten(node: exp.Expr) -> exp.Expr:
    rewrite = _REWRITES.get(type(node))
    if rewrite is not None:
        return rewrite(node)
    if type(node) in _FUNCTIONS:
        return _call(_FUNCTIONS[type(node)], *map(_rewritten, _arguments(node)))
    if type(node) in _SAME:
        return _same(node)
    name = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__
    raise _refusal(f"{name.upper()} has no translation")


def _repeated(node: exp.Expr) -> exp.Expr:
    """As `_rewritten`, for what will come several times."""
    made = _rewritten(node)
    if sum(1 for _ in made.walk()) > _MOST_REPEATED:
        raise _refusal("expressions within each other that become too long; a query in FROM may have their parts")
    return made


def _same(node: exp.Expr) -> exp.Expr:
    return type(node)(**{name: _value(value) for name, value in node.args.items()})


def _value(value: Any) -> Any:
    if isinstance(value, exp.Expr):
        return _rewritten(value)
    return [_value(inner) for inner in value] if isinstance(value, list) else value


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function, in order."""
    arguments = []
    for value in node.args.values():
        arguments += [inner for inner in (value if isinstance(value, list) else [value]) if isinstance(inner, exp.Expr)]
    return arguments


# Parts of expressions ---------------------------------------------------------------------------


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _text(content: str) -> exp.Expr:
    return exp.Literal.string(content)


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(str(value)) if value >= 0 else exp.Neg(this=exp.Literal.number(str(-value)))


def _cast_to(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(kind, dialect="spark"))


def _whole(node: exp.Expr, digits: int = MOST_DIGITS) -> exp.Expr:
    return _cast_to(node, f"DECIMAL({digits},0)")


def _decided(condition: exp.Expr, then: exp.Expr, default: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=default)


def _failure(message: exp.Expr, kind: str) -> exp.Expr:
    return _cast_to(_call("raise_error", message), kind)


def _joined(*parts: exp.Expr) -> exp.Expr:
    return _call("concat", *parts)


# Types ------------------------------------------------------------------------------------------


def _cast(node: exp.Expr) -> exp.Expr:
    kind, inner = node.args["to"].this, node.this
    if kind is exp.DType.DECIMAL:
        sizes = ",".join(size.this.name for size in node.args["to"].expressions)
        return _cast_to(_decimal_text(inner) or _rewritten(inner), f"DECIMAL({sizes})")
    if kind is exp.DType.INT128:
        return _whole(_rewritten(inner))
    if kind is exp.DType.UBIGINT:
        return _unsigned(inner)
    if kind not in _TYPES:
        raise _refusal(f"CAST AS {kind.name} has no translation")
    return _cast_to(_rewritten(inner), _TYPES[kind])


def _decimal_text(node: exp.Expr) -> exp.Expr | None:
    """A number as a text: Spark reads `1e-3` as a DOUBLE."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return _text(f"{Decimal(node.name):f}")
    return None


def _unsigned(inner: exp.Expr) -> exp.Expr:
    if isinstance(inner, exp.Literal):
        return _whole(_text(inner.name), 20)
    value = _repeated(inner)
    outside = exp.Or(
        this=exp.LT(this=value.copy(), expression=_number(0)),
        expression=exp.GT(this=value.copy(), expression=_whole(_text(str(_MOST_UNSIGNED)), 20)),
    )
    fail = _failure(_text("a number is out of range of BIGINT UNSIGNED"), "DECIMAL(20,0)")
    return _decided(outside, fail, _whole(value, 20))


_TYPES: Final = {
    exp.DType.BIGINT: "BIGINT",
    exp.DType.INT: "INT",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.TEXT: "STRING",
    exp.DType.VARCHAR: "STRING",
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
    exp.DType.BOOLEAN: "BOOLEAN",
}


# Numbers ----------------------------------------------------------------------------------------


def _whole_quotient(node: exp.Expr) -> exp.Expr:
    """Towards zero. Spark rounds what its type for a quotient does not hold, so the remainder is taken away first."""
    left, right = _repeated(node.this), _repeated(node.expression)
    rest = exp.Mod(this=exp.Paren(this=left.copy()), expression=exp.Paren(this=right.copy()))
    multiple = exp.Paren(this=exp.Sub(this=left, expression=exp.Paren(this=rest)))

    def divided(by: exp.Expr) -> exp.Expr:
        return _whole(exp.Div(this=multiple.copy(), expression=by, typed=False, safe=False))

    known = _digits_of(node.expression.this)
    if known is not None:
        return divided(_whole(right, known))
    ifs = [
        exp.If(
            this=exp.LT(this=_call("abs", right.copy()), expression=_whole(_text(str(10**digits)))),
            true=divided(_whole(right.copy(), digits)),
        )
        for digits in _DIVISORS
    ]
    return exp.Case(ifs=ifs, default=divided(exp.Paren(this=right.copy())))


def _digits_of(node: exp.Expr) -> int | None:
    """How many digits a whole number has at most; None if it is not known."""
    while isinstance(node, (exp.Cast, exp.Paren)):
        node = node.this
    if isinstance(node, exp.Literal) and node.name.isdigit():
        return len(node.name)
    return _DIGITS_OF_COUNT if isinstance(node, exp.Count) else None


def _half_up(node: exp.Expr) -> exp.Expr:
    value, unit = node.expressions
    digits = len(unit.name) - 1
    if not isinstance(unit, exp.Literal) or unit.name != str(10**digits):
        raise _refusal("rounding to a unit that is no power of ten")
    whole = _whole(_rewritten(value))
    if not digits:
        return whole
    step = _cast_to(_text(f"{Decimal(1).scaleb(-digits):f}"), f"DECIMAL({digits},{digits})")
    return _whole(exp.Mul(this=whole, expression=step))


def _finite(node: exp.Expr) -> exp.Expr:
    value = _repeated(node.expressions[0])
    ends = [_cast_to(_text(text), "DOUBLE") for text in ("Infinity", "-Infinity", "NaN")]
    fail = _failure(_text("a number is out of the range of DOUBLE"), "DOUBLE")
    return _decided(exp.In(this=exp.Paren(this=value.copy()), expressions=ends), fail, exp.Paren(this=value))


def _added(node: exp.Expr) -> exp.Expr:
    """+ and -: also of a time and a number of units, and - of dates."""
    unit = _UNITS.get(_function_name(node.expression))
    if unit is not None:
        count = _rewritten(_arguments(node.expression)[0])
        if isinstance(node, exp.Sub):
            count = exp.Neg(this=exp.Paren(this=count))
        return _call("timestampadd", exp.Var(this=unit), count, _rewritten(node.this))
    if all(
        isinstance(argument, exp.Cast) and argument.args["to"].this is exp.DType.DATE for argument in _arguments(node)
    ):
        return _call("datediff", *map(_rewritten, _arguments(node)))
    return _same(node)


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


_UNITS: Final = {
    "to_microseconds": "MICROSECOND", "to_seconds": "SECOND", "to_minutes": "MINUTE", "to_hours": "HOUR",
    "to_days": "DAY", "to_weeks": "WEEK", "to_months": "MONTH", "to_quarters": "QUARTER", "to_years": "YEAR",
}  # fmt: skip


# Dates ------------------------------------------------------------------------------------------


def _in_calendar(node: exp.Expr) -> exp.Expr:
    value = _repeated(node.expressions[0])
    low, high = (_cast_to(_text(text), "TIMESTAMP_NTZ") for text in _CALENDAR)
    outside = exp.Or(
        this=exp.LT(this=value.copy(), expression=low), expression=exp.GT(this=value.copy(), expression=high)
    )
    return _decided(outside, _failure(_text("a date is out of the calendar"), "TIMESTAMP_NTZ"), value)


def _extract(node: exp.Expr) -> exp.Expr:
    return _call(str(node.this.name).lower(), _rewritten(node.expression))


def _week_day_from_sunday(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Sub(this=_call("dayofweek", _rewritten(node.this)), expression=_number(1)))


def _week_day_from_monday(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=_call("weekday", _rewritten(node.this)), expression=_number(1)))


def _last_day(node: exp.Expr) -> exp.Expr:
    return _call("last_day", _cast_to(_rewritten(node.this), "DATE"))


def _formatted(node: exp.Expr) -> exp.Expr:
    pattern, written = "", ""
    for part in [*_FORMAT_PARTS.findall(node.args["format"].name), ""]:
        if part == "%%" or (part and not part.startswith("%")):
            written += part.replace("%%", "%")
            continue
        # Java's patterns have texts in quotes; two quotes within a text are one.
        if written:
            pattern += "'" + written.replace("'", "''") + "'"
        written = ""
        if part and part not in _JAVA_FORMATS:
            raise _refusal(f"DATE_FORMAT with {part}")
        pattern += _JAVA_FORMATS[part] if part else ""
    return _call("date_format", _rewritten(node.this), _text(pattern))


# Texts ------------------------------------------------------------------------------------------


def _plain_case(node: exp.Expr) -> exp.Expr:
    value, name = map(_repeated, node.expressions)
    message = _joined(name, _text(": the case of a character is not known here: "), value.copy())
    return _decided(_matches(value, _NOT_ASCII), _failure(message, "STRING"), value.copy())


def _matches(value: exp.Expr, pattern: str) -> exp.Expr:
    return exp.RegexpLike(this=exp.Paren(this=value), expression=_text(pattern))


def _key(kind: str, key: CollationKey, node: exp.Expr) -> exp.Expr:
    """What `CollationKey.macros` are in DuckDB."""
    value, name = map(_repeated, node.expressions)
    if not key.same:
        return _known(kind, key, value, name, _trimmed(kind, key, value.copy(), " "))
    to = key.ranks if kind == "order" else key.same
    made = _call("translate", value.copy(), _text(key.characters or ""), _text(to))
    known = _known(kind, key, value, name, _trimmed(kind, key, made, to[(key.characters or "").index(" ")]))
    if kind == "order":
        return known
    # Most texts are ASCII, and for long ones `translate` takes ten times as long.
    return _decided(_matches(value.copy(), _NOT_ASCII), known, _trimmed(kind, key, _call("lower", value.copy()), " "))


def _trimmed(kind: str, key: CollationKey, made: exp.Expr, blank: str) -> exp.Expr:
    if not key.pads or kind == "like":
        return made
    return exp.Trim(this=made, expression=_text(blank), position="TRAILING")


def _known(kind: str, key: CollationKey, value: exp.Expr, name: exp.Expr, made: exp.Expr) -> exp.Expr:
    """The key of a text whose characters are known; an error for others."""
    if key.characters is not None:
        # Without all characters that are known, nothing is left.
        left = _call("translate", value.copy(), _text(key.characters), _text(""))
        unknown: exp.Expr = exp.NEQ(this=left, expression=_text(""))
    elif key.pads and kind == "order":
        unknown = _matches(value.copy(), _NO_CONTROL)
    else:
        return made
    return _decided(unknown, _failure(_joined(name, _text(key.unknown), value.copy()), "STRING"), made)


def _bytes_of(node: exp.Expr) -> exp.Expr:
    return _cast_to(_rewritten(node.this), "BINARY")


def _list(node: exp.Expr) -> exp.Expr:
    """string_agg(... ORDER BY ...)."""
    order = node.this
    return exp.WithinGroup(
        this=_call("listagg", _rewritten(order.this), _rewritten(node.args["separator"])),
        expression=exp.Order(expressions=[_rewritten(term) for term in order.expressions]),
    )


def _position(node: exp.Expr) -> exp.Expr:
    labels, value = node.expressions
    return _call("array_position", _call("array", *map(_rewritten, labels.expressions)), _rewritten(value))


def _json_text(node: exp.Expr) -> exp.Expr:
    document, path, name = map(_repeated, node.expressions)
    value = _call("variant_get", _call("parse_json", document), path)
    kind = _call("schema_of_variant", value)
    kinds = [_text(name) for name in ("STRING", "BIGINT", "BOOLEAN")]
    message = _joined(name, _text(": ->> reads texts, whole numbers and truth values of a document"))
    ifs = [
        exp.If(this=exp.Is(this=value.copy(), expression=exp.Null()), true=exp.Null()),
        exp.If(this=exp.EQ(this=kind.copy(), expression=_text("VOID")), true=_text("null")),
        exp.If(this=exp.In(this=kind.copy(), expressions=kinds), true=_cast_to(value.copy(), "STRING")),
    ]
    return exp.Case(ifs=ifs, default=_failure(message, "STRING"))


# Queries ----------------------------------------------------------------------------------------


def _among(node: exp.Expr) -> exp.Expr:
    """IN (SELECT ...) as MySQL has it: NULL if it is not known whether a row is equal."""
    if node.args.get("query") is None or _is_condition(node):
        return _same(node)
    if isinstance(node.this, exp.Tuple):
        raise _refusal("IN with several columns of a subquery, other than as a condition of WHERE or HAVING")
    value, query = _repeated(node.this), _repeated(node.args["query"].unnest())
    column = query.expressions[0]

    def exists(condition: exp.Expr | None = None) -> exp.Expr:
        rows = query.copy()
        rows.set("expressions", [_number(1)])
        if condition is not None:
            rows.set("where", exp.Where(this=condition))
        return exp.Exists(this=rows)

    def is_null(of: exp.Expr) -> exp.Expr:
        return exp.Is(this=exp.Paren(this=of.copy()), expression=exp.Null())

    ifs = [
        exp.If(this=exp.Not(this=exists()), true=exp.false()),
        exp.If(this=is_null(value), true=exp.Null()),
        exp.If(this=exists(exp.EQ(this=column.copy(), expression=exp.Paren(this=value))), true=exp.true()),
        exp.If(this=exists(is_null(column)), true=exp.Null()),
    ]
    return exp.Case(ifs=ifs, default=exp.false())


def _is_condition(node: exp.Expr) -> bool:
    """Whether IN (SELECT ...) is a condition of WHERE or HAVING, for which NULL and false are the same; or all of such
    a condition negated, which Spark joins as MySQL does. Anywhere else, Spark (4.3) has false instead of NULL."""
    inner = node
    while isinstance(inner.parent, exp.Paren):
        inner = inner.parent
    through: tuple[type[exp.Expr], ...] = (exp.Paren, exp.And, exp.Or)
    if isinstance(inner.parent, exp.Not) and not isinstance(node.this, exp.Tuple):
        inner, through = inner.parent, (exp.Paren, exp.And)
    while isinstance(inner.parent, through):
        inner = inner.parent
    return isinstance(inner.parent, (exp.Where, exp.Having))


def _count(node: exp.Expr) -> exp.Expr:
    inner = node.this
    if isinstance(inner, exp.Distinct):
        values = inner.expressions[0].expressions if isinstance(inner.expressions[0], exp.Tuple) else inner.expressions
        return _call("count", exp.Distinct(expressions=[_rewritten(argument) for argument in values]))
    return _call("count", _rewritten(inner))


def _limit(node: exp.Expr) -> exp.Expr:
    if int(node.expression.name) > _MOST_ROWS:
        raise _refusal(f"LIMIT or OFFSET with more than {_MOST_ROWS:,} rows")
    return _same(node)


def _anonymous(node: exp.Expr) -> exp.Expr:
    """A function that sqlglot does not know: a macro of `functions.py` or `collations.py`, or one of DuckDB."""
    name = str(node.this).lower()
    if name in _MACROS:
        return _MACROS[name](node)
    match = _KEY.fullmatch(name)
    key = collation_key(match.group(2)) if match else None
    if match is None or key is None:
        raise _refusal(f"{name}() has no translation")
    return _key(match.group(1), key, node)


_MACROS: Final[Mapping[str, Rewrite]] = {
    "error": lambda node: _call("raise_error", _rewritten(node.expressions[0])),
    "finite": _finite,
    "half_up": _half_up,
    "in_calendar": _in_calendar,
    "index_part": lambda node: _call("substring_index", *map(_rewritten, node.expressions)),
    "json_text": _json_text,
    "list_position": _position,
    "octet_length": lambda node: _call("octet_length", _rewritten(node.expressions[0])),
    "plain_case": _plain_case,
    "strlen": lambda node: _call("octet_length", _rewritten(node.expressions[0])),
}

_FUNCTIONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.Quarter: "quarter", exp.DayOfYear: "dayofyear",
    exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second",
    exp.Left: "left", exp.Right: "right", exp.Substring: "substring", exp.Replace: "replace",
    exp.Lower: "lower", exp.Upper: "upper", exp.Length: "char_length", exp.ConcatWs: "concat_ws",
    exp.Abs: "abs", exp.Sign: "sign", exp.Floor: "floor", exp.Ceil: "ceil",
    exp.Greatest: "greatest", exp.Least: "least", exp.Coalesce: "coalesce", exp.Nullif: "nullif",
    exp.First: "first", exp.Min: "min", exp.Max: "max", exp.Sum: "sum", exp.ArgMin: "min_by", exp.ArgMax: "max_by",
    exp.Unhex: "unhex",
}  # fmt: skip
"""Functions that mean the same, with the same arguments."""

_REWRITES: Final[Mapping[type[exp.Expr], Rewrite]] = {
    exp.Add: _added,
    exp.Anonymous: _anonymous,
    exp.Cast: _cast,
    exp.Count: _count,
    exp.DayOfWeek: _week_day_from_sunday,
    exp.DayOfWeekIso: _week_day_from_monday,
    exp.Encode: _bytes_of,
    exp.Extract: _extract,
    exp.GroupConcat: _list,
    exp.In: _among,
    exp.IntDiv: _whole_quotient,
    exp.LastDay: _last_day,
    exp.Limit: _limit,
    exp.Offset: _limit,
    exp.Sub: _added,
    exp.TimeToStr: _formatted,
}

_SAME: Final = frozenset(
    {
        exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Union,
        exp.Subquery, exp.Table, exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Distinct,
        exp.Filter, exp.Exists, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Tuple, exp.Neg, exp.Mul, exp.Div,
        exp.Mod, exp.DPipe, exp.Case, exp.If, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT,
        exp.GTE, exp.NullSafeEQ, exp.Is, exp.Like, exp.Escape, exp.Trim,
    }
)  # fmt: skip
"""What means the same in both, in a session with the settings of `spark_sql`."""
