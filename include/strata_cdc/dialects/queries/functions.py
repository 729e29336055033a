"""What MySQL's functions mean, in DuckDB's SQL: those that are not here are refused by name.
Not here: aggregates (`aggregates.py`), operators (`expressions.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.changes.arrow import MOST_DIGITS
from strata_cdc.dialects.conditions.literals import temporal
from strata_cdc.dialects.conditions.terms import ValueKind
from strata_cdc.dialects.queries.collations import quoted
from strata_cdc.dialects.queries.comparing import (
    as_double,
    as_kind,
    bits_as_number,
    shared_collation,
    temporal_value,
    united,
)
from strata_cdc.dialects.queries.values import (
    DATE,
    DATETIME,
    EXACT,
    INTEGER,
    NULL,
    TEMPORAL,
    Kind,
    QueryValue,
    Strength,
    ValueType,
    decimal,
    integer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.dialects.queries.expressions import ExpressionReader

    Translate = Callable[[ExpressionReader, exp.Expr], QueryValue]

MACROS: Final = (
    "CREATE OR REPLACE TEMP MACRO finite(x) AS "
    "CASE WHEN isinf(x) OR isnan(x) THEN CAST(error('a number is out of the range of DOUBLE') AS DOUBLE) ELSE x END",
    "CREATE OR REPLACE TEMP MACRO in_calendar(x) AS CASE WHEN x IS NULL OR "
    "x BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999' THEN x "
    "ELSE CAST(error('a date is out of the calendar') AS TIMESTAMP) END",
    "CREATE OR REPLACE TEMP MACRO half_up(x, unit) AS "
    "CAST((CAST(x AS HUGEINT) + sign(x) * (CAST(unit AS HUGEINT) // 2)) // CAST(unit AS HUGEINT) AS HUGEINT)",
    "CREATE OR REPLACE TEMP MACRO plain_case(s, what) AS CASE WHEN NOT regexp_full_match(s, '[ -~]*', 's') THEN "
    "CAST(error(what || ': the case of a character is not known here: ' || s) AS VARCHAR) ELSE s END",
    "CREATE OR REPLACE TEMP MACRO index_part(s, by_, n) AS CASE WHEN s IS NULL THEN NULL WHEN n = 0 THEN '' "
    "WHEN n > 0 THEN array_to_string(string_split(s, by_)[:n], by_) "
    "ELSE array_to_string(string_split(s, by_)[n:], by_) END",
    "CREATE OR REPLACE TEMP MACRO json_text(j, p, what) AS CASE json_type(j, p) "
    "WHEN 'VARCHAR' THEN json_extract_string(j, p) WHEN 'UBIGINT' THEN json_extract_string(j, p) "
    "WHEN 'BIGINT' THEN json_extract_string(j, p) WHEN 'BOOLEAN' THEN json_extract_string(j, p) "
    "WHEN 'NULL' THEN 'null' WHEN NULL THEN NULL "
    "ELSE CASE WHEN json_type(j, p) IS NULL THEN NULL ELSE "
    "CAST(error(what || ': ->> reads texts, whole numbers and truth values of a document') AS VARCHAR) END END",
)
"""Macros of DuckDB that all queries have."""

_PARTS: Final[dict[type[exp.Expr], str]] = {
    exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day", exp.Quarter: "quarter",
    exp.DayOfYear: "dayofyear",
}  # fmt: skip
_CLOCK_PARTS: Final[dict[type[exp.Expr], str]] = {exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second"}
_EXTRACTED: Final = {"YEAR", "MONTH", "DAY", "QUARTER", "HOUR", "MINUTE", "SECOND"}
_STEPS: Final = {
    "MICROSECOND": "to_microseconds", "SECOND": "to_seconds", "MINUTE": "to_minutes", "HOUR": "to_hours",
    "DAY": "to_days", "WEEK": "to_weeks", "MONTH": "to_months", "QUARTER": "to_quarters", "YEAR": "to_years",
}  # fmt: skip
_OF_DAYS: Final = {"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}
_FORMATS: Final = re.compile(r"(?:%[YmdHMSfjyp]|%%(?![A-Za-z%])|[^%])*")
"""Formats that mean the same in MySQL and DuckDB, as sqlglot writes them: in `%%x` it takes `%x` for a format."""
_PATH: Final = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
_ROUNDED_IN_INTEGERS: Final = 18
_DIGITS_OF_INT: Final = 10
_BITS_OF_BIGINT: Final = 64
_SAME_TEXT: Final = frozenset({ValueType.INTEGER, ValueType.DECIMAL, ValueType.DATE})
"""Types whose texts are the same in DuckDB."""


def _day(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """A date or time of which only the date counts; sqlglot puts a conversion to a date around it."""
    inner = node.this if isinstance(node, exp.TsOrDsToDate) else node
    if isinstance(inner, exp.Literal) and inner.is_string:
        moment = temporal(inner.name, ValueKind.DATE) or temporal(inner.name, ValueKind.DATETIME)
        if moment is not None:
            return temporal_value(moment.value)
    return _moment(reader, inner)


def _moment(reader: ExpressionReader, node: exp.Expr, types: frozenset[ValueType] = TEMPORAL) -> QueryValue:
    value = reader.value(node)
    if value.type not in types:
        reader.refuse(f"{value.name} is no date here: write DATE '...' or TIMESTAMP '...'", node)
    return value


def _part(name: str) -> Translate:
    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        part = integer(f"{name}({_day(reader, node.this).sql})")
        return replace(part, kind=replace(part.kind, is_of_year=name == "year"))

    return read


def _clock_part(name: str) -> Translate:
    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        return integer(f"{name}({_moment(reader, node.this, frozenset({ValueType.DATETIME})).sql})")

    return read


def _extract(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    unit = str(node.this.name).upper()
    if unit not in _EXTRACTED:
        reader.refuse(f"EXTRACT({unit}) is not translated", node)
    value = _moment(reader, node.expression)
    return integer(f"extract({unit.lower()} FROM CAST({value.sql} AS TIMESTAMP))")


def _date(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    return QueryValue(f"CAST({_moment(reader, node.this).sql} AS DATE)", DATE)


def _days_between(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    left, right = _day(reader, node.this), _day(reader, node.expression)
    return integer(f"CAST({left.sql} AS DATE) - CAST({right.sql} AS DATE)")


def _weekday(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    return integer(f"dayofweek({_day(reader, node.this).sql}) + 1")


def _week_day(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    return integer(f"isodow({_moment(reader, node.expressions[0]).sql}) - 1")


def _last_day(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    return QueryValue(f"last_day({_day(reader, node.this).sql})", DATE)


def _moved(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """DATE_ADD, DATE_SUB; a date plus or minus an INTERVAL."""
    sign = "-" if isinstance(node, (exp.DateSub, exp.Sub)) else "+"
    interval = node.expression
    unit, count_node = node.args.get("unit"), interval
    if isinstance(interval, exp.Interval):
        unit, count_node = interval.args.get("unit"), interval.this
    value, count = _moment(reader, node.this), _count(reader, count_node)
    name = str(unit.name if unit is not None else "").upper()
    if name not in _STEPS:
        reader.refuse(f"INTERVAL with {name or 'no unit'} is not translated", node)
    moved = f"in_calendar(CAST({value.sql} AS TIMESTAMP) {sign} {_STEPS[name]}(CAST({count.sql} AS INTEGER)))"
    if value.type is ValueType.DATE and name in _OF_DAYS:
        return QueryValue(f"CAST({moved} AS DATE)", DATE)
    return QueryValue(moved, replace(DATETIME, fraction=6 if name == "MICROSECOND" else value.kind.fraction))


def _count(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    if isinstance(node, exp.Literal) and node.is_string and re.fullmatch(r"-?\d{1,9}", node.name):
        return integer(node.name)  # sqlglot makes texts of the numbers of intervals
    value = reader.value(node)
    if value.type is not ValueType.INTEGER:
        reader.refuse("an INTERVAL has a whole number", node)
    return value


def _formatted(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    inner, form = node.this, node.args["format"]
    value = _moment(reader, inner.this if isinstance(inner, exp.TsOrDsToTimestamp) else inner)
    if not isinstance(form, exp.Literal) or not _FORMATS.fullmatch(form.name) or not form.name.isascii():
        reader.refuse("DATE_FORMAT() has %Y %m %d %H %i %s %f %j %y here", node)
    return QueryValue(f"strftime({value.sql}, {quoted(form.name)})", _text_of(reader))


def _text_of(reader: ExpressionReader) -> Kind:
    return Kind(ValueType.TEXT, collation=reader.connection_collation, strength=Strength.LITERAL)


# Texts ------------------------------------------------------------------------------------------


def _as_text(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """A text, or a number or date whose text is the same in DuckDB."""
    value = reader.value(node)
    if value.type in {ValueType.ENUM, ValueType.SET}:
        return replace(value, kind=Kind(ValueType.TEXT, collation=value.kind.collation))
    if value.kind.is_padded:
        reader.refuse(
            f"the text of {value.name} begins with zeros (ZEROFILL) that are not known here: + 0 leaves them out",
            node,
        )
    if value.type is ValueType.YEAR:
        text = f"CASE WHEN {value.sql} = 0 THEN '0000' ELSE CAST({value.sql} AS VARCHAR) END"
        return QueryValue(text, _text_of(reader), name=value.name)
    if value.type in _SAME_TEXT:
        # DuckDB writes no zero before the point of a DECIMAL(3,3).
        is_all_fraction = value.type is ValueType.DECIMAL and 0 < value.kind.scale < MOST_DIGITS
        sql = f"CAST({value.sql} AS DECIMAL({MOST_DIGITS},{value.kind.scale}))" if is_all_fraction else value.sql
        return QueryValue(f"CAST({sql} AS VARCHAR)", _text_of(reader), name=value.name)
    if value.type not in {ValueType.TEXT, ValueType.NULL}:
        reader.refuse(f"the text of {value.name} is not known here", node)
    return value


def _text(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value = reader.value(node)
    if value.type in {ValueType.ENUM, ValueType.SET}:
        return _as_text(reader, node)
    if value.type is not ValueType.TEXT:
        way = ": CAST(... AS CHAR) makes one of it" if value.type in _SAME_TEXT else ""
        reader.refuse(f"{value.name} is no text{way}", node)
    return value


def _joined(values: Sequence[QueryValue]) -> Kind:
    texts = [value for value in values if value.type is ValueType.TEXT]
    if not texts:
        return NULL
    collation, strength = shared_collation(texts)
    return Kind(ValueType.TEXT, collation=collation, strength=strength)


def _concat(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    values = [_as_text(reader, argument) for argument in node.expressions]
    return QueryValue(f"({' || '.join(value.sql for value in values)})", _joined(values))


def _pipes(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """`||` under PIPES_AS_CONCAT."""
    if isinstance(node.parent, exp.Collate):
        # MySQL groups COLLATE first.
        reader.refuse("|| before COLLATE needs parentheses", node)
    values = [_as_text(reader, part) for part in node.flatten(unnest=False)]
    return QueryValue(f"({' || '.join(value.sql for value in values)})", _joined(values))


def _concat_ws(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    values = [_as_text(reader, argument) for argument in node.expressions]
    return QueryValue(f"concat_ws({', '.join(value.sql for value in values)})", _joined(values))


def _of_text(sql: str) -> Translate:
    """A function that gives a text of the argument's collation."""

    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        value = _text(reader, node.this)
        return QueryValue(sql.format(value.sql, quoted(value.name)), replace(value.kind, shown_as=None))

    return read


def _length(sql: str) -> Translate:
    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        value = _text(reader, node.this)
        if "strlen" in sql and not (value.kind.collation or "").startswith(("utf8", "ascii", "uca1400")):
            reader.refuse("LENGTH() counts bytes, which are not those of utf8mb4: CHAR_LENGTH()", node)
        return integer(sql.format(value.sql))

    return read


def _characters(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """LENGTH (bytes), CHAR_LENGTH: sqlglot has one class for both."""
    value = reader.value(node.this)
    if value.type is ValueType.BYTES:
        return integer(f"octet_length({value.sql})")
    return _length("strlen({})" if node.args.get("binary") else "length({})")(reader, node)


def _whole(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value = reader.value(node)
    if value.type is not ValueType.INTEGER:
        reader.refuse("a number of characters is a whole number", node)
    return value


def _not_negative(count: QueryValue) -> str:
    """A number of characters; NULL stays NULL."""
    return f"CASE WHEN {count.sql} < 0 THEN 0 ELSE {count.sql} END"


def _end(name: str) -> Translate:
    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        value, count = _text(reader, node.this), _whole(reader, node.expression)
        return QueryValue(f"{name}({value.sql}, {_not_negative(count)})", replace(value.kind, shown_as=None))

    return read


def _substring(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    if node.args.get("start") is None:
        reader.refuse("SUBSTRING() has two or three arguments", node)
    value, start = _text(reader, node.this), _whole(reader, node.args["start"])
    length = node.args.get("length")
    count = "" if length is None else f", {_not_negative(_whole(reader, length))}"
    # A start of 0, or before the text, gives an empty text, unless something is NULL.
    is_nothing = f"{start.sql} = 0 OR {start.sql} < -length({value.sql})"
    is_null = (
        f"{value.sql} IS NULL" if length is None else f"{value.sql} IS NULL OR {_whole(reader, length).sql} IS NULL"
    )
    sql = f"CASE WHEN {is_null} THEN NULL WHEN {is_nothing} THEN '' "
    return QueryValue(f"{sql}ELSE substring({value.sql}, {start.sql}{count}) END", replace(value.kind, shown_as=None))


def _trim(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value, position = _text(reader, node.this), str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(position)
    if node.expression or name is None:
        reader.refuse("TRIM() removes blanks here", node)
    return QueryValue(f"{name}({value.sql}, ' ')", replace(value.kind, shown_as=None))


def _replace(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    arguments = node.expressions or [node.this, node.expression, node.args.get("replacement")]
    if None in arguments:
        reader.refuse("REPLACE() has three arguments", node)
    values = [_text(reader, argument) for argument in arguments]
    sql = [value.sql for value in values]
    text = f"CASE WHEN {sql[1]} = '' THEN {sql[0]} ELSE replace({', '.join(sql)}) END"
    return QueryValue(text, _joined(values))


def _index_part(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """SUBSTRING_INDEX with a literal count other than 0: the search for the separator distinguishes case."""
    value, separator, count = _text(reader, node.this), node.args["delimiter"], node.args["count"]
    by = reader.value(separator)
    whole = reader.value(count)
    if not isinstance(by.literal, str) or len(by.literal) != 1 or not isinstance(whole.literal, int):
        reader.refuse("SUBSTRING_INDEX() has a literal of one character and a literal number here", node)
    sql = f"index_part({value.sql}, {by.sql}, {whole.literal})"
    return QueryValue(sql, replace(value.kind, shown_as=None))


# Numbers ----------------------------------------------------------------------------------------


def _number(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value = reader.value(node)
    if value.type not in EXACT:
        reader.refuse(f"{value.name} is no exact number", node)
    return value


def _absolute(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value = reader.value(node.this)
    reader.require_numbers([value], node)
    kind = replace(value.kind, shown_as=None)
    return value if kind.unsigned else QueryValue(f"abs({value.sql})", kind)


def _sign(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    value = _number(reader, node.this)
    reader.require_numbers([value], node)
    return integer(f"sign({value.sql})")


def _up_or_down(name: str) -> Translate:
    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        value = _number(reader, node.this)
        reader.require_numbers([value], node)
        if value.type is ValueType.INTEGER:
            return replace(value, kind=replace(value.kind, shown_as=None))
        if value.kind.digits - value.kind.scale >= _ROUNDED_IN_INTEGERS:
            reader.refuse(f"{name.upper()}() of so many digits is not translated", node)
        return integer(f"{name}({value.sql})")

    return read


def _rounded(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """ROUND of exact numbers to a literal number of digits: half away from zero."""
    value, column_sources = _number(reader, node.this), node.args.get("decimals")
    count = 0 if column_sources is None else reader.value(column_sources).literal
    if not isinstance(count, int) or count < 0:
        reader.refuse("ROUND() has a literal number of digits, at least 0", node)
    if value.kind.is_quotient and value.exact is None:
        reader.refuse("ROUND() of this quotient is not translated", node)
    if value.exact is not None:
        return _rounded_quotient(value, count)
    if value.type is ValueType.INTEGER or count >= value.kind.scale:
        return replace(value, kind=replace(value.kind, shown_as=None))
    kind = decimal(value.kind.digits - value.kind.scale + 1 + count, count)
    wide = f"CAST({value.sql} * CAST({10**value.kind.scale} AS DECIMAL({value.kind.scale + 1},0)) AS HUGEINT)"
    if value.kind.digits + value.kind.scale + 1 > MOST_DIGITS:
        reader.refuse("ROUND() of so many digits is not translated", node)
    return QueryValue(_scaled(f"half_up({wide}, {10 ** (value.kind.scale - count)})", kind), kind)


def _rounded_quotient(value: QueryValue, count: int) -> QueryValue:
    """The server rounds either all digits that it has, or those that it shows: if the results differ, this fails."""
    scale = min(count, value.kind.scale)
    kind = decimal(value.kind.digits - value.kind.scale + 1 + scale, scale)
    all_digits = f"half_up({value.exact}, {10 ** (value.exact_scale - scale)})"
    shown = f"half_up({value.exact}, {10 ** (value.exact_scale - value.kind.scale)})"
    twice = f"half_up({shown}, {10 ** (value.kind.scale - scale)})"
    fail = "error('ROUND() of a quotient depends on how the server stores it')"
    sql = f"CASE WHEN {all_digits} <> {twice} THEN CAST({fail} AS HUGEINT) ELSE {all_digits} END"
    return QueryValue(_scaled(sql, kind), kind)


def _scaled(whole: str, kind: Kind) -> str:
    """A HUGEINT as a decimal: its last digits come after the point."""
    if not kind.scale:
        return f"CAST({whole} AS DECIMAL({max(kind.digits, 1)},0))"
    unit = f"CAST(1e-{kind.scale} AS DECIMAL({kind.scale + 1},{kind.scale}))"
    return f"CAST((CAST({whole} AS DECIMAL({MOST_DIGITS},0)) * {unit}) AS DECIMAL({max(kind.digits, 1)},{kind.scale}))"


def quotient(left: QueryValue, right: QueryValue, wide_left: str, wide_right: str) -> QueryValue:
    """A quotient of exact numbers as MySQL has it: four digits more than the dividend are shown, and more are kept, in
    whole groups of nine digits (strings/decimal.cc, `do_div_mod`).

    Args:
        left: The dividend; its digits and scale count.
        right: The divisor.
        wide_left: The dividend's digits as a HUGEINT.
        wide_right: The divisor's.
    """
    shown = left.kind.scale + 4
    groups = [-(-scale // 9) * 9 for scale in (left.kind.scale, right.kind.scale)]
    more = max(0, 4 - (groups[0] - left.kind.scale) - (groups[1] - right.kind.scale))
    kept = -(-(groups[0] + groups[1] + more) // 9) * 9
    up = 10 ** (kept - left.kind.scale + right.kind.scale)
    exact = f"(CASE WHEN {wide_right} = 0 THEN NULL ELSE ({wide_left} * CAST({up} AS HUGEINT)) // {wide_right} END)"
    before = left.kind.digits - left.kind.scale + right.kind.scale
    kind = Kind(ValueType.DECIMAL, digits=min(before + shown, MOST_DIGITS), scale=shown, is_quotient=True)
    rounded = _scaled(f"half_up({exact}, {10 ** (kept - shown)})", kind) if kept >= shown else ""
    if not rounded:
        rounded = _scaled(f"({exact} * CAST({10 ** (shown - kept)} AS HUGEINT))", kind)
        return QueryValue(rounded, kind)
    return QueryValue(rounded, kind, exact=exact, exact_scale=kept)


def wide(value: QueryValue) -> str:
    """The digits of an exact number as a HUGEINT."""
    if not value.kind.scale:
        return f"CAST({value.sql} AS HUGEINT)"
    return f"CAST(CAST({value.sql} AS DECIMAL({MOST_DIGITS},{value.kind.scale})) * {10**value.kind.scale} AS HUGEINT)"


def _divided(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    left, right = reader.value(node.this), reader.value(node.expression)
    reader.require_numbers([left, right], node)
    if ValueType.NULL in {left.type, right.type}:
        return QueryValue("NULL", NULL)
    if ValueType.DOUBLE in {left.type, right.type}:
        if ValueType.DECIMAL in {left.type, right.type}:
            reader.refuse("decimals are not calculated with floating-point numbers", node)
        return reader.double(f"{as_double(left)} / nullif({as_double(right)}, 0)")
    for value in (left, right):
        if value.kind.digits + value.kind.scale > MOST_DIGITS:
            reader.refuse(f"{value.name} has too many digits to be divided: CAST(... AS DECIMAL(...))", node)
    return quotient(left, right, wide(left), wide(right))


def _extreme(name: str) -> Translate:
    def read(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
        values = [reader.value(argument) for argument in (node.this, *node.expressions)]
        kind = united(values)
        if kind.type not in {*EXACT, *TEMPORAL, ValueType.DOUBLE} or kind.is_quotient:
            reader.refuse(f"{name.upper()}() compares numbers or dates here", node)
        sql = [as_kind(value, kind) for value in values]
        # NULL if any argument is NULL; DuckDB's functions ignore NULLs.
        nothing = " OR ".join(f"{argument} IS NULL" for argument in sql)
        return QueryValue(f"CASE WHEN {nothing} THEN NULL ELSE {name}({', '.join(sql)}) END", kind)

    return read


def _cast(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    to = node.args["to"]
    cast = _CASTS.get(to.this.name)
    if cast is None or (to.expressions and cast is not _cast_decimal):
        reader.refuse(f"CAST AS {to.sql(dialect='mysql')} is not translated", node)
    return cast(reader, node, reader.value(node.this))


def _cast_text(reader: ExpressionReader, node: exp.Expr, value: QueryValue) -> QueryValue:
    text = _as_text(reader, node.this)
    if text.type is ValueType.NULL or value.type is ValueType.TEXT:
        return replace(text, kind=replace(text.kind, shown_as=None))
    return QueryValue(text.sql, Kind(ValueType.TEXT, collation=reader.connection_collation))


def _cast_integer(reader: ExpressionReader, node: exp.Expr, value: QueryValue) -> QueryValue:
    if value.type is ValueType.BIT and value.kind.digits < _BITS_OF_BIGINT:
        value = bits_as_number(value)
    elif value.type is not ValueType.YEAR and (
        value.type is not ValueType.INTEGER or (value.kind.unsigned and value.kind.digits > _DIGITS_OF_INT)
    ):
        reader.refuse(f"CAST of {value.name} AS SIGNED is not translated", node)
    return QueryValue(f"CAST({value.sql} AS BIGINT)", INTEGER)


def _cast_date(reader: ExpressionReader, node: exp.Expr, value: QueryValue) -> QueryValue:
    if value.type not in TEMPORAL:
        reader.refuse(f"{value.name} is no date here: write DATE '...'", node)
    return QueryValue(f"CAST({value.sql} AS DATE)", DATE)


def _cast_bytes(reader: ExpressionReader, node: exp.Expr, value: QueryValue) -> QueryValue:
    if value.type is not ValueType.TEXT or not (value.kind.collation or "").startswith("utf8mb4"):
        reader.refuse("BINARY of what is no text of utf8mb4 is not translated", node)
    return QueryValue(f"encode({value.sql})", Kind(ValueType.BYTES))


def _cast_decimal(reader: ExpressionReader, node: exp.Expr, value: QueryValue) -> QueryValue:
    if value.type not in EXACT or value.kind.is_quotient:
        reader.refuse(f"CAST of {value.name} AS DECIMAL is not translated", node)
    sizes = [int(size.name) for size in node.args["to"].expressions]
    digits, scale = [*sizes, *(10, 0)[len(sizes) :]]
    if digits > MOST_DIGITS or scale < value.kind.scale:
        reader.refuse("CAST to fewer digits after the point is not translated: ROUND()", node)
    # A value that has too many digits before the point is an error here; the server cuts it off and warns.
    return QueryValue(f"CAST({value.sql} AS DECIMAL({digits},{scale}))", decimal(digits, scale))


_CASTS: Final[dict[str, Callable[[ExpressionReader, exp.Expr, QueryValue], QueryValue]]] = {
    **dict.fromkeys(("CHAR", "VARCHAR", "TEXT"), _cast_text),
    "BIGINT": _cast_integer,
    "DECIMAL": _cast_decimal,
    "DATE": _cast_date,
    **dict.fromkeys(("BINARY", "VARBINARY"), _cast_bytes),
}
"""By sqlglot's names of types."""


def _json_text(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """Column ->> '$.key.key'."""
    document, path = reader.value(node.this), node.expression
    text = path.sql(dialect="mysql").strip("'") if isinstance(path, exp.JSONPath) else path.name
    if document.type is not ValueType.JSON or not _PATH.fullmatch(text):
        reader.refuse("->> takes a JSON column and a path of keys, as in '$.a.b'", node)
    kind = Kind(ValueType.TEXT, collation="utf8mb4_bin")
    return QueryValue(f"json_text({document.sql}, {quoted(text)}, {quoted(document.name)})", kind)


def _unquoted(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """JSON_UNQUOTE(JSON_EXTRACT(...))."""
    inner = node.expressions[0] if node.expressions else node.this
    if not isinstance(inner, exp.JSONExtract):
        reader.refuse("JSON_UNQUOTE() takes JSON_EXTRACT() here", node)
    return _json_text(reader, inner)


def _field(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """Which of the texts, or of the whole numbers, is the first that equals the first argument; 0 if none does."""
    first, *others = node.expressions
    values = [reader.value(argument) for argument in node.expressions]
    types = {ValueType.TEXT if value.type is ValueType.ENUM else value.type for value in values} - {ValueType.NULL}
    if not others or types not in ({ValueType.TEXT}, {ValueType.INTEGER}):
        reader.refuse("FIELD() takes texts, or whole numbers", node)
    # The server takes one collation for all arguments.
    collations = {value.kind.collation for value in values if value.kind.strength is not Strength.LITERAL}
    collations.discard(None)
    if len(collations) > 1:
        reader.refuse("FIELD() takes texts of one collation", node)
    conditions = (reader.condition(exp.EQ(this=first.copy(), expression=other.copy())) for other in others)
    cases = " ".join(f"WHEN {equal} THEN {at}" for at, equal in enumerate(conditions, start=1))
    return integer(f"CASE {cases} ELSE 0 END")


def _unix_time(reader: ExpressionReader, node: exp.Expr) -> QueryValue:
    """Seconds since 1970; what the server gives outside of 32 bits depends on its version."""
    if len(node.expressions) != 1:
        reader.refuse("UNIX_TIMESTAMP() takes a date or time here", node)
    value = _moment(reader, node.expressions[0])
    if value.kind.fraction:
        reader.refuse("UNIX_TIMESTAMP() takes times without fractions of a second here", node)
    at = f"CAST({value.sql} AS TIMESTAMP)"
    day = f"(CAST({value.sql} AS DATE) - DATE '1970-01-01')"
    seconds = f"{day} * 86400 + hour({at}) * 3600 + minute({at}) * 60 + second({at})"
    fail = "CAST(error('UNIX_TIMESTAMP() of a time before 1970 or after 2038') AS BIGINT)"
    is_outside = f"{at} < TIMESTAMP '1970-01-01 00:00:01' OR {at} > TIMESTAMP '2038-01-19 03:14:07'"
    return integer(f"CASE WHEN {is_outside} THEN {fail} ELSE {seconds} END")


FUNCTIONS: Final[Mapping[type[exp.Expr] | str, Translate]] = {
    **{kind: _part(name) for kind, name in _PARTS.items()},
    **{kind: _clock_part(name) for kind, name in _CLOCK_PARTS.items()},
    exp.Extract: _extract,
    exp.TsOrDsToDate: _date,
    exp.Date: _date,
    exp.DateDiff: _days_between,
    exp.DayOfWeek: _weekday,
    "WEEKDAY": _week_day,
    exp.LastDay: _last_day,
    exp.DateAdd: _moved,
    exp.DateSub: _moved,
    "INTERVAL": _moved,
    exp.TimeToStr: _formatted,
    exp.Concat: _concat,
    exp.DPipe: _pipes,
    exp.ConcatWs: _concat_ws,
    exp.Lower: _of_text("lower(plain_case({0}, {1}))"),
    exp.Upper: _of_text("upper(plain_case({0}, {1}))"),
    exp.Length: _characters,
    "CHAR_LENGTH": _length("length({})"),
    "CHARACTER_LENGTH": _length("length({})"),
    exp.Left: _end("left"),
    exp.Right: _end("right"),
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Replace: _replace,
    "REPLACE": _replace,
    exp.SubstringIndex: _index_part,
    exp.Abs: _absolute,
    exp.Sign: _sign,
    exp.Floor: _up_or_down("floor"),
    exp.Ceil: _up_or_down("ceil"),
    exp.Round: _rounded,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.JSONExtractScalar: _json_text,
    "JSON_UNQUOTE": _unquoted,
    "FIELD": _field,
    "UNIX_TIMESTAMP": _unix_time,
    "CAST": _cast,
    "/": _divided,
}
