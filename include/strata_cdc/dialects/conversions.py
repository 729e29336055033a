"""What an ALTER makes of a column's values, in an engine's SQL, if SQL can do it exactly: the same results as in
`tables/values/`.
Not here: which conversions a table went through (`tables/lifetimes.py`), the views (`views.py`).

Each function returns NULL for a value if it is not known here what the server makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace
from sqlglot import exp

from strata_cdc.changes.arrow import MOST_DIGITS, arrow_type_of, may_be_invalid
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.trees import tried, typed
from strata_cdc.schema.model.conversions import ValueClass, keeps_values, value_class
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from strata_cdc.dialects.view_source import TypeChange
    from strata_cdc.schema.model.types import ColumnType

_C = ValueClass
_WHOLE: Final = frozenset({_C.INTEGER, _C.BITS, _C.YEAR})
_UNICODE: Final = "utf8mb4"
_BYTES_OF_INTEGERS: Final = {
    TypeKind.TINYINT: 1, TypeKind.SMALLINT: 2, TypeKind.MEDIUMINT: 3, TypeKind.INT: 4, TypeKind.BIGINT: 8,
}  # fmt: skip
_UNITS: Final = {0: "second", 3: "millisecond", 6: "microsecond"}
"""The units to which SQL can cut a moment, by digits of the fraction."""
_HALF: Final = {0: 500_000, 3: 500, 6: 0}
_LAST_MOMENT: Final = "9999-12-31 23:59:59.999999"
_WHOLE_NUMBER: Final = "^[+-]?[0-9]{1,30}$"
_BYTE_LENGTH: Final = {Dialect.DUCKDB: "strlen", Dialect.SPARK: "octet_length"}
_DIMENSIONS: Final = {Dialect.DUCKDB: "len", Dialect.SPARK: "size"}


def converted(value: exp.Expr, step: TypeChange, dialect: Dialect) -> exp.Expr | None:
    """Returns a value after a conversion; None if SQL does not have the conversion.

    Args:
        value: The value in the type of `step.before`, as change tables have it.
        step: The conversion.
        dialect: The engine.
    """
    if _keeps(step):
        return value
    old, new = parse_column_type(step.before.column_type), parse_column_type(step.after.column_type)
    if not (_is_plain(step, old) and _is_plain(step, new)):
        return None
    pair, case = (value_class(old.kind), value_class(new.kind)), _Case(value, step, old, new, dialect)
    if step.after.auto_increment and not step.before.auto_increment:
        return _numbered(case) if pair == (_C.INTEGER, _C.INTEGER) else None
    write = _SQL.get(pair)
    return None if write is None else write(case)


def is_whole(step: TypeChange) -> bool:
    """Whether SQL can convert every value that mirrors convert."""
    return _has_sql(step) and (_keeps(step) or _certain(step) is None)


def in_sql(values: pa.Array, step: TypeChange) -> NDArray[np.bool_]:
    """Returns which values SQL can convert, as far as this can be known without an engine.

    Args:
        values: Values in the type of `step.before`; none NULL.
        step: The conversion.
    """
    if not _has_sql(step):
        return np.zeros(len(values), np.bool_)
    certain = None if _keeps(step) else _certain(step)
    if certain is None:
        return np.ones(len(values), np.bool_)
    return np.asarray(certain(values, parse_column_type(step.after.column_type)))


def _has_sql(step: TypeChange) -> bool:
    return converted(exp.null(), step, Dialect.DUCKDB) is not None


def _keeps(step: TypeChange) -> bool:
    return keeps_values(replace(step.before, nullable=step.after.nullable), step.after)


def stay_apart(step: TypeChange) -> bool:
    """Whether every value, also one that no row had any more, is known after the conversion, and different values are
    still different."""
    if _keeps(step):
        return True
    old, new = parse_column_type(step.before.column_type), parse_column_type(step.after.column_type)
    pair = value_class(old.kind), value_class(new.kind)
    if step.after.auto_increment and not step.before.auto_increment:
        return False
    if pair == (_C.TEXT, _C.TEXT):
        has_room = new.length is None or (old.length is not None and old.length <= new.length)
        is_kept = has_room and (new.kind is not TypeKind.CHAR or old.kind is TypeKind.CHAR)
        return is_kept and step.after.character_set in {step.before.character_set, _UNICODE}
    if pair == (_C.DECIMAL, _C.DECIMAL):
        whole = (old.length or 10) - (old.decimals or 0) <= (new.length or 10) - (new.decimals or 0)
        return whole and (old.decimals or 0) <= (new.decimals or 0) and (old.unsigned or not new.unsigned)
    return pair[0] in _WHOLE and _has_room(old, new)


def _has_room(old: ColumnType, new: ColumnType) -> bool:
    """Whether a type has all whole numbers of another one, or their texts."""
    low, high = _bounds(old)
    if value_class(new.kind) in _WHOLE:
        return _bounds(new)[0] <= low and high <= _bounds(new)[1]
    if value_class(new.kind) is _C.DECIMAL:
        digits = (new.length or 10) - (new.decimals or 0)
        return max(-low, high) < 10**digits and (low >= 0 or not new.unsigned)
    # A ZEROFILL has longer texts, and bits become bytes.
    is_text = value_class(new.kind) is _C.TEXT and value_class(old.kind) is not _C.BITS and not old.zerofill
    return is_text and new.length is not None and max(len(str(low)), len(str(high))) <= new.length


def _is_plain(step: TypeChange, kind: ColumnType) -> bool:
    """Whether the type is none of these: FLOAT with digits (FLOAT(7,3)), a number that change tables have as text,
    labels of which several have the same text."""
    if kind.kind is TypeKind.DECIMAL:
        return (kind.length or 10) <= MOST_DIGITS
    column = step.before if parse_column_type(step.before.column_type) == kind else step.after
    is_odd = may_be_invalid(column) and value_class(kind.kind) in {_C.ENUM, _C.SET}
    return not (is_odd or (value_class(kind.kind) is _C.FLOATING and kind.decimals is not None))


class _Case:
    """A conversion and its value."""

    def __init__(self, value: exp.Expr, step: TypeChange, old: ColumnType, new: ColumnType, dialect: Dialect) -> None:
        self.step, self.old, self.new, self.dialect = step, old, new, dialect
        self._value = value

    @property
    def value(self) -> exp.Expr:
        return self._value.copy()

    @property
    def target(self) -> pa.DataType:
        return arrow_type_of(self.new)

    def cast(self, value: exp.Expr, kind: pa.DataType) -> exp.Expr:
        """Casts a value; NULL if it does not fit."""
        return tried(value, kind, self.dialect)

    def number(self) -> exp.Expr:
        """Returns a whole number in a form that can be compared: BIT(1) is a boolean in change tables."""
        if pa.types.is_boolean(arrow_type_of(self.old)):
            return typed(self.value, pa.int32(), self.dialect)
        return self.value


def _when(holds: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=holds, true=value)])


# Numbers ----------------------------------------------------------------------------------------


def _bounds(kind: ColumnType) -> tuple[int, int]:
    if kind.kind is TypeKind.YEAR:
        return 1901, 2155
    if kind.kind is TypeKind.BIT:
        return 0, 2 ** (kind.length or 1) - 1
    size: int = 2 ** (8 * _BYTES_OF_INTEGERS[kind.kind])
    return (0, size - 1) if kind.unsigned else (-size // 2, size // 2 - 1)


def _to_whole(case: _Case, number: exp.Expr) -> exp.Expr:
    low, high = (exp.cast(exp.Literal.string(str(bound)), "DECIMAL(20, 0)") for bound in _bounds(case.new))
    wide = case.cast(number, pa.decimal128(38, 0))
    plain = typed(number.copy(), pa.int32(), case.dialect) if pa.types.is_boolean(case.target) else number.copy()
    return _when(exp.Between(this=wide, low=low, high=high), case.cast(plain, case.target))


def _numbered(case: _Case) -> exp.Expr:
    """A whole number in a column that becomes AUTO_INCREMENT, which may replace zeros by numbers."""
    expression = _to_whole(case, case.number())
    return (
        _when(exp.NEQ(this=case.value, expression=exp.Literal.number(0)), expression)
        if case.step.numbers_zeros
        else expression
    )


def _to_decimal(case: _Case, number: exp.Expr) -> exp.Expr:
    """A decimal, rounded half away from zero."""
    expression = case.cast(number, case.target)
    if not case.new.unsigned:
        return expression
    return _when(exp.GTE(this=expression, expression=exp.Literal.number(0)), expression.copy())


def _to_floating(case: _Case, number: exp.Expr) -> exp.Expr:
    """A number that is converted through a double; a decimal is first converted to its text, so that it is rounded only
    once."""
    expression = number
    if not case.new.unsigned:
        return expression if pa.types.is_float64(case.target) else case.cast(expression, case.target)
    fits = exp.GTE(this=number, expression=exp.Literal.number(0))
    return _when(fits, typed(number.copy(), case.target, case.dialect))


def _wider_floating(case: _Case) -> exp.Expr | None:
    """A FLOAT as a DOUBLE; in the other direction, engines round differently."""
    return (
        _to_floating(case, typed(case.value, pa.float64(), case.dialect)) if pa.types.is_float64(case.target) else None
    )


def _double(case: _Case, number: exp.Expr) -> exp.Expr:
    return typed(typed(number, pa.string(), case.dialect), pa.float64(), case.dialect)


def _rounded(case: _Case, decimals: int) -> exp.Expr:
    return exp.Round(this=case.value, decimals=exp.Literal.number(decimals))


def _decimal_of_decimal(case: _Case) -> exp.Expr:
    decimals = case.new.decimals or 0
    return _to_decimal(case, case.value if decimals >= (case.old.decimals or 0) else _rounded(case, decimals))


# Texts ------------------------------------------------------------------------------------------


def _fitted(case: _Case, text: exp.Expr) -> exp.Expr:
    """A text in a type of another length: only blanks that do not fit are cut, as the server does."""
    blank = exp.Literal.string(" ")
    trimmed = exp.Trim(this=text.copy(), expression=blank, position="TRAILING")
    if case.new.length is None:
        capacity = case.new.kind.facts.capacity
        size = exp.Anonymous(this=_BYTE_LENGTH[case.dialect], expressions=[text.copy()])
        most = exp.Literal.number(0 if capacity is None else capacity(case.new))
        return _when(exp.LTE(this=size, expression=most), text)
    room = exp.Literal.number(case.new.length)
    first = exp.Substring(this=text.copy(), start=exp.Literal.number(1), length=room.copy())
    whole = trimmed.copy() if case.new.kind is TypeKind.CHAR else first
    return _when(exp.LTE(this=exp.Length(this=trimmed), expression=room), whole)


def _text_of_text(case: _Case) -> exp.Expr | None:
    before, after = case.step.before.character_set or _UNICODE, case.step.after.character_set or _UNICODE
    if "swe7" in {before, after} or (case.new.length is None and after != _UNICODE):
        return None
    fitted = _fitted(case, case.value)
    if after in {before, _UNICODE}:
        return fitted
    # In other charsets, only ASCII texts are converted: these have as many bytes as characters here.
    size = exp.Anonymous(this=_BYTE_LENGTH[case.dialect], expressions=[case.value])
    return _when(exp.EQ(this=size, expression=exp.Length(this=case.value)), fitted)


def _text_of_number(case: _Case) -> exp.Expr | None:
    if case.old.zerofill or case.new.length is None or "swe7" in (case.step.after.character_set or ""):
        return None
    text = typed(case.number(), pa.string(), case.dialect)
    if case.old.kind is TypeKind.YEAR:
        text = exp.Anonymous(this="lpad", expressions=[text, exp.Literal.number(4), exp.Literal.string("0")])
    return _when(exp.LTE(this=exp.Length(this=text), expression=exp.Literal.number(case.new.length)), text.copy())


def _whole_of_text(case: _Case) -> exp.Expr:
    form = exp.Literal.string(_WHOLE_NUMBER)
    number = case.cast(case.value, pa.decimal128(38, 0))
    plain = _when(exp.RegexpLike(this=case.value, expression=form), number)
    return _to_whole(case, plain)


def _label_of_text(case: _Case) -> exp.Expr:
    """A label in exactly that spelling; an ENUM's number 0 and a SET without members stay as they are."""
    is_enum = value_class(case.old.kind) is _C.ENUM
    text = case.value if is_enum else exp.Trim(this=case.value, expression=exp.Literal.string(" "), position="TRAILING")
    labels = [*case.new.labels, *([""] if is_enum or case.new.kind is TypeKind.SET else [])]
    known = exp.In(this=text, expressions=[exp.Literal.string(label) for label in labels])
    return _when(known, text.copy())


def _bytes_of_bytes(case: _Case) -> exp.Expr | None:
    capacity = case.new.length
    if capacity is None and case.new.kind.facts.capacity is not None:
        capacity = case.new.kind.facts.capacity(case.new)
    if capacity is None or case.new.kind is TypeKind.BINARY:
        return None
    size = exp.Anonymous(this="octet_length", expressions=[case.value])
    return _when(exp.LTE(this=size, expression=exp.Literal.number(capacity)), case.value)


def _vector_of_vector(case: _Case) -> exp.Expr:
    size = exp.Anonymous(this=_DIMENSIONS[case.dialect], expressions=[case.value])
    return _when(exp.LTE(this=size, expression=exp.Literal.number(case.new.length or 0)), case.value)


# Moments ----------------------------------------------------------------------------------------


def _cut(case: _Case, digits: int) -> exp.Expr | None:
    """A moment with fewer digits after the second: rounded half up, or cut towards the past."""
    if digits not in _UNITS:
        return None
    moment = case.value
    if not case.step.truncates and _HALF[digits]:
        half = exp.Interval(this=exp.Literal.string(str(_HALF[digits])), unit=exp.var("MICROSECOND"))
        moment = exp.Add(this=moment, expression=half)
    cut = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(_UNITS[digits]), moment])
    kind = arrow_type_of(case.old)
    last = typed(exp.Literal.string(_LAST_MOMENT), pa.timestamp("us"), case.dialect)
    expression = typed(cut, kind, case.dialect)
    return _when(exp.LTE(this=expression, expression=last), expression.copy())


def _fewer_digits(case: _Case) -> exp.Expr | None:
    return _cut(case, case.new.length or 0)


def _day(case: _Case) -> exp.Expr | None:
    cut = _cut(case, 0)
    return None if cut is None else typed(cut, pa.date32(), case.dialect)


_SQL: Final[dict[tuple[ValueClass, ValueClass], Callable[[_Case], exp.Expr | None]]] = {
    **{(number, other): lambda case: _to_whole(case, case.number()) for number in _WHOLE for other in _WHOLE},
    **{(number, _C.DECIMAL): lambda case: _to_decimal(case, case.number()) for number in _WHOLE},
    **{(number, _C.FLOATING): lambda case: _to_floating(case, _double(case, case.number())) for number in _WHOLE},
    (_C.DECIMAL, _C.DECIMAL): _decimal_of_decimal,
    (_C.DECIMAL, _C.INTEGER): lambda case: _to_whole(case, _rounded(case, 0)),
    (_C.DECIMAL, _C.FLOATING): lambda case: _to_floating(case, _double(case, case.value)),
    (_C.FLOATING, _C.FLOATING): _wider_floating,
    (_C.BYTES, _C.BYTES): _bytes_of_bytes,
    (_C.VECTOR, _C.VECTOR): _vector_of_vector,
    **{(number, _C.TEXT): _text_of_number for number in (_C.INTEGER, _C.DECIMAL, _C.YEAR)},
    **{(text, _C.TEXT): _text_of_text for text in (_C.TEXT, _C.ENUM, _C.SET)},
    (_C.TEXT, _C.INTEGER): _whole_of_text,
    **{(text, _C.ENUM): _label_of_text for text in (_C.TEXT, _C.ENUM)},
    (_C.ENUM, _C.SET): _label_of_text,
    (_C.DATE, _C.DATETIME): lambda case: typed(case.value, pa.timestamp("us"), case.dialect),
    (_C.DATETIME, _C.DATETIME): _fewer_digits,
    (_C.DATETIME, _C.DATE): _day,
}
"""By the classes before and after the conversion; for pairs of `KNOWN` that are not here, a view has a mapping of the
values."""


def _certain(step: TypeChange) -> Callable[[pa.Array, ColumnType], pa.Array] | None:
    """Which values an expression of `_SQL` converts; None: all values that mirrors convert."""
    old, new = parse_column_type(step.before.column_type), parse_column_type(step.after.column_type)
    pair = value_class(old.kind), value_class(new.kind)
    if pair[0] in _TEXTS and pair[1] is _C.TEXT:
        is_of_unicode = (step.after.character_set or _UNICODE) in {step.before.character_set or _UNICODE, _UNICODE}
        return None if is_of_unicode else lambda texts, _: pc.string_is_ascii(texts)
    return _CERTAIN.get(pair)


_TEXTS: Final = frozenset({_C.TEXT, _C.ENUM, _C.SET})
_CERTAIN: Final[dict[tuple[ValueClass, ValueClass], Callable[[pa.Array, ColumnType], pa.Array]]] = {
    (_C.TEXT, _C.INTEGER): lambda texts, _: pc.match_substring_regex(texts, _WHOLE_NUMBER),
    **{
        pair: lambda texts, kind: pc.is_in(texts, pa.array(kind.labels, pa.string()))
        for pair in ((_C.TEXT, _C.ENUM), (_C.ENUM, _C.ENUM), (_C.ENUM, _C.SET))
    },
}
"""Pairs of `_SQL` whose expressions do not convert all values that mirrors convert."""
