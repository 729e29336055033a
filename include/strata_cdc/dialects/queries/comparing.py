"""How two values of a query are compared, grouped and ordered, as MySQL does it.
Not here: which texts are equal (`collations.py`), reading expressions (`expressions.py`)."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.changes.arrow import MOST_DIGITS
from strata_cdc.dialects.conditions.literals import temporal
from strata_cdc.dialects.conditions.terms import ValueKind
from strata_cdc.dialects.queries.collations import CollationKey, collation_key, quoted
from strata_cdc.dialects.queries.values import (
    EXACT,
    INTEGER,
    NULL,
    TEMPORAL,
    UNSIGNED,
    Kind,
    QueryValue,
    Strength,
    ValueType,
    as_decimal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXTS: Final = frozenset({ValueType.TEXT, ValueType.ENUM, ValueType.SET})
_LITERAL_OF: Final = {
    ValueType.DATE: ValueKind.DATE, ValueType.DATETIME: ValueKind.DATETIME, ValueType.TIME: ValueKind.TIME,
}  # fmt: skip
_ALWAYS_ALIKE: Final = frozenset({ValueType.DOUBLE, ValueType.DATE, ValueType.BYTES})
"""Types whose values have one type together, whatever their columns are."""
_FIRST_CLEAR_YEAR: Final = 1901
_DIGITS_OF_INT: Final = 10


class NotComparedError(Exception):
    """Two values are not compared here; the message says which."""


def sides(left: QueryValue, right: QueryValue, *, ordered: bool) -> tuple[str, str]:
    """The SQL of both sides of a comparison.

    Args:
        ordered: Whether the comparison asks which comes first.

    Raises:
        NotComparedError: MySQL converts one of them in a way that is not known here.
    """
    if ValueType.NULL in {left.type, right.type}:
        return left.sql, right.sql
    for rule in _RULES:
        pair = rule(left, right, ordered)
        if pair is not None:
            return pair
    way = "values of this type are only shown" if ValueType.SHOWN in {left.type, right.type} else "write the conversion"
    raise NotComparedError(f"{_shown(left)} is not compared with {_shown(right)}: {way}")


def _exact(left: QueryValue, right: QueryValue, _: bool) -> tuple[str, str] | None:  # noqa: FBT001  the form of all rules
    if left.type not in EXACT or right.type not in EXACT:
        return None
    if left.kind.is_quotient or right.kind.is_quotient:
        raise NotComparedError("the server compares quotients and averages with more digits than it shows: use ROUND()")
    if left.type is right.type is ValueType.INTEGER:
        if left.kind.unsigned is right.kind.unsigned:
            return left.sql, right.sql
        return f"CAST({left.sql} AS HUGEINT)", f"CAST({right.sql} AS HUGEINT)"
    scale = max(left.kind.scale, right.kind.scale)
    if max(left.kind.digits - left.kind.scale, right.kind.digits - right.kind.scale) + scale > MOST_DIGITS:
        raise NotComparedError(f"numbers of more than {MOST_DIGITS} digits are not compared")
    return as_decimal(left, scale), as_decimal(right, scale)


def _doubles(left: QueryValue, right: QueryValue, _: bool) -> tuple[str, str] | None:  # noqa: FBT001  as above
    numbers = {*EXACT, ValueType.DOUBLE}
    if left.type not in numbers or right.type not in numbers:
        return None
    for value in (left, right):
        if value.type is ValueType.DECIMAL and value.literal is None:
            raise NotComparedError("decimals are not compared with floating-point numbers")
    return as_double(left), as_double(right)


def as_double(value: QueryValue) -> str:
    """The SQL of a number as a DOUBLE."""
    if value.type is ValueType.DECIMAL and value.literal is not None:
        return f"CAST({quoted(str(value.literal))} AS DOUBLE)"
    return f"CAST({value.sql} AS DOUBLE)"


def _texts(left: QueryValue, right: QueryValue, ordered: bool) -> tuple[str, str] | None:  # noqa: FBT001  as above
    if left.type not in _TEXTS or right.type not in _TEXTS:
        return None
    if ordered and {left.type, right.type} & {ValueType.ENUM, ValueType.SET}:
        raise NotComparedError("which label comes first is not compared: CAST(... AS CHAR) compares its text")
    if ValueType.TEXT not in {left.type, right.type} and left.kind != right.kind:
        raise NotComparedError("labels of different columns are not compared")
    key = shared_key([left, right])
    if ordered and not key.is_total:
        raise NotComparedError(f"the order of texts in {key.collation} is not known here")
    return text_key(left, key, ordered=ordered), text_key(right, key, ordered=ordered)


def together(values: list[QueryValue]) -> list[QueryValue]:
    """The values of one IN, BETWEEN or CASE: all of their texts are compared by the same collation.

    Raises:
        NotComparedError: Two collations count equally.
    """
    texts = [value for value in values if value.type in _TEXTS]
    if len(texts) < 3 or len(texts) < len([value for value in values if value.type is not ValueType.NULL]):
        return values
    collation = shared_collation(texts)[0]
    return [
        replace(value, kind=replace(value.kind, collation=collation, strength=Strength.EXPLICIT))
        if value.type in _TEXTS
        else value
        for value in values
    ]


def shared_key(values: list[QueryValue]) -> CollationKey:
    """How texts that are compared with each other become keys.

    Raises:
        NotComparedError: MySQL refuses them too, or the collation is not known here.
    """
    collation = shared_collation(values)[0]
    key = None if collation is None else collation_key(collation)
    if key is None:
        raise NotComparedError(
            f"what is equal in {collation or 'its unknown collation'} is not known here: COLLATE utf8mb4_0900_bin "
            "compares by characters"
        )
    return key


def shared_collation(values: list[QueryValue]) -> tuple[str | None, Strength]:
    """The collation that counts, and how strong it is.

    Raises:
        NotComparedError: Two collations count equally.
    """
    strength = min((value.kind.strength for value in values), key=lambda kind: kind.value)
    collations = {value.kind.collation or "" for value in values if value.kind.strength is strength}
    if len(collations) > 1 and strength is Strength.COLUMN:
        collations = _stronger(collations)
    if len(collations) > 1:
        raise NotComparedError(
            f"the collations {' and '.join(sorted(map(str, collations)))} are not mixed: use COLLATE"
        )
    return collations.pop() or None, strength


def _stronger(collations: set[str]) -> set[str]:
    """Of the collations of columns, those that MySQL prefers: of Unicode; then those that compare characters."""
    unicode = {name for name in collations if name.startswith("utf8mb4")} or collations
    if len({name.partition("_")[0] for name in unicode}) > 1:
        return unicode
    exact = {name for name in unicode if name.endswith("_bin")}
    return exact if len(exact) == 1 else unicode


def text_key(value: QueryValue, key: CollationKey, *, ordered: bool = False) -> str:
    """The key of a text.

    Args:
        value: The text.
        key: How it becomes a key.
        ordered: Whether the keys' order counts.

    Raises:
        NotComparedError: It is a literal with characters whose weights are not known.
    """
    if key.is_identity and key.characters is None and not (ordered and key.pads):
        return value.sql
    if isinstance(value.literal, str) and not key.known(value.literal):
        raise NotComparedError(f"{key.collation} is not known here for a character of {value.literal!r}")
    return f"{key.order_macro if ordered else key.macro}({value.sql}, {quoted(value.name)})"


def _bytes(left: QueryValue, right: QueryValue, _: bool) -> tuple[str, str] | None:  # noqa: FBT001  as above
    if ValueType.BYTES not in {left.type, right.type}:
        return None
    texts = []
    for value in (left, right):
        if value.type is ValueType.BYTES:
            texts.append(value.sql)
        elif isinstance(value.literal, str) and value.literal.isascii():
            texts.append(f"encode({value.sql})")
        else:
            return None
    return texts[0], texts[1]


def _moments(left: QueryValue, right: QueryValue, _: bool) -> tuple[str, str] | None:  # noqa: FBT001  as above
    left, right = _as_temporal(left, right), _as_temporal(right, left)
    if left.type is right.type and left.type in {*TEMPORAL, ValueType.TIME}:
        return left.sql, right.sql
    if {left.type, right.type} == TEMPORAL:
        return f"CAST({left.sql} AS TIMESTAMP)", f"CAST({right.sql} AS TIMESTAMP)"
    return None


def _as_temporal(value: QueryValue, other: QueryValue) -> QueryValue:
    """A literal that is compared with a date or time, as one."""
    kind = _LITERAL_OF.get(other.type)
    if kind is None or not isinstance(value.literal, str) or value.type is not ValueType.TEXT:
        return value
    moment = temporal(value.literal, kind)
    if moment is None and kind is ValueKind.DATE:
        moment = temporal(value.literal, ValueKind.DATETIME)
    if moment is None:
        raise NotComparedError(f"{value.literal!r} is no {kind.name} in its full form")
    return temporal_value(moment.value)


def temporal_value(moment: object) -> QueryValue:
    """A date or time as an expression; a TIME is its microseconds."""
    if isinstance(moment, datetime):
        fraction = len(f"{moment.microsecond:06}".rstrip("0"))
        return QueryValue(f"TIMESTAMP {quoted(moment.isoformat(' '))}", Kind(ValueType.DATETIME, fraction=fraction))
    if isinstance(moment, date):
        return QueryValue(f"DATE {quoted(moment.isoformat())}", Kind(ValueType.DATE))
    return QueryValue(f"CAST({moment} AS BIGINT)", Kind(ValueType.TIME))


def _years(left: QueryValue, right: QueryValue, _: bool) -> tuple[str, str] | None:  # noqa: FBT001  as above
    for value, other in ((left, right), (right, left)):
        is_clear = isinstance(other.literal, int) and other.literal >= _FIRST_CLEAR_YEAR
        if value.type is ValueType.YEAR and (other.type is ValueType.YEAR or is_clear):
            return f"CAST({left.sql} AS BIGINT)", f"CAST({right.sql} AS BIGINT)"
    return None


def _bits(left: QueryValue, right: QueryValue, ordered: bool) -> tuple[str, str] | None:  # noqa: FBT001  as above
    if ValueType.BIT not in {left.type, right.type}:
        return None
    first, second = (bits_as_number(value) if value.type is ValueType.BIT else value for value in (left, right))
    return _exact(first, second, ordered)


def bits_as_number(value: QueryValue) -> QueryValue:
    """A BIT as the whole number that it is in comparisons and conditions."""
    whole = f"CAST({value.sql} AS BIGINT)" if value.kind.digits == 1 else value.sql
    return QueryValue(f"CAST({whole} AS UBIGINT)", UNSIGNED)


_RULES: Final[tuple[Callable[[QueryValue, QueryValue, bool], tuple[str, str] | None], ...]] = (
    _exact, _doubles, _texts, _bytes, _moments, _years, _bits,
)  # fmt: skip


def group_key(value: QueryValue, *, ordered: bool) -> str:
    """What DuckDB groups or orders by instead of a value.

    Raises:
        NotComparedError: What is equal among such values, or what comes first, is not known here.
    """
    if value.type is ValueType.TEXT:
        if value.literal is not None:
            return value.sql
        key = shared_key([value])
        if ordered and not key.is_total:
            raise NotComparedError(f"the order of texts in {key.collation} is not known here")
        return text_key(value, key, ordered=ordered)
    if value.type is ValueType.DOUBLE:
        # -0 and 0 are equal.
        return f"({value.sql} + 0.0::DOUBLE)"
    if value.type is ValueType.ENUM and ordered:
        # The number 0 is shown as an empty text, and comes before all labels.
        labels = ", ".join(map(quoted, value.kind.labels if "" in value.kind.labels else ("", *value.kind.labels)))
        return f"list_position([{labels}], {value.sql})"
    if value.type in {ValueType.SHOWN, ValueType.JSON} or (value.type is ValueType.SET and ordered):
        raise NotComparedError(f"{_shown(value)} is not compared")
    return value.sql


def is_one_spelling(value: QueryValue) -> bool:
    """Whether values that are equal are also the same characters."""
    if value.type is not ValueType.TEXT or value.literal is not None:
        return True
    return shared_key([value]).is_identity


def united(values: list[QueryValue]) -> Kind:
    """The kind of a value that is one of these: of CASE, COALESCE, or a column of a UNION.

    Raises:
        NotComparedError: MySQL converts them in a way that is not known here.
    """
    kinds = [value.kind for value in values if value.type is not ValueType.NULL]
    if not kinds:
        return NULL
    types = {kind.type for kind in kinds}
    if types <= EXACT:
        return _united_numbers(kinds, types)
    if types == {ValueType.TEXT}:
        collation, strength = shared_collation([value for value in values if value.type is ValueType.TEXT])
        return Kind(ValueType.TEXT, collation=collation, strength=strength)
    if types == {ValueType.DOUBLE, ValueType.INTEGER}:
        return Kind(ValueType.DOUBLE)
    return _united_others(kinds, types)


def _united_others(kinds: list[Kind], types: set[ValueType]) -> Kind:
    columns = {kind.shown_as for kind in kinds}
    column = columns.pop() if len(columns) == 1 else None
    if types <= TEMPORAL and ValueType.DATETIME in types:
        return Kind(ValueType.DATETIME, fraction=max(kind.fraction for kind in kinds), shown_as=column)
    if types <= _ALWAYS_ALIKE and len(types) == 1:
        return replace(kinds[0], shown_as=column)
    if len({replace(kind, shown_as=None) for kind in kinds}) == 1:
        return replace(kinds[0], shown_as=column)
    raise NotComparedError(f"{' and '.join(sorted(kind.name for kind in types))} have no common type here")


def _united_numbers(kinds: list[Kind], types: set[ValueType]) -> Kind:
    is_quotient = any(kind.is_quotient for kind in kinds)
    if is_quotient and len(kinds) > 1:
        raise NotComparedError("what the server shows of a quotient beside another number is not known here: ROUND()")
    if types == {ValueType.INTEGER}:
        if len({kind.unsigned for kind in kinds}) > 1:
            return _united_signs(kinds)
        same = {kind.shown_as for kind in kinds}
        return Kind(
            ValueType.INTEGER,
            unsigned=kinds[0].unsigned,
            digits=max(kind.digits for kind in kinds),
            is_padded=any(kind.is_padded for kind in kinds),
            shown_as=same.pop() if len(same) == 1 else None,
        )
    scale = max(kind.scale for kind in kinds)
    digits = max(kind.digits - kind.scale for kind in kinds) + scale
    if digits > MOST_DIGITS:
        raise NotComparedError(f"numbers of more than {MOST_DIGITS} digits have no common type here")
    is_padded = any(kind.is_padded for kind in kinds)
    return Kind(ValueType.DECIMAL, digits=digits, scale=scale, is_quotient=is_quotient, is_padded=is_padded)


def _united_signs(kinds: list[Kind]) -> Kind:
    """With and without a sign: a BIGINT, or a decimal if one is calculated without a sign, or is BIGINT UNSIGNED."""
    if any(kind.unsigned and (kind.shown_as is None or kind.digits > _DIGITS_OF_INT) for kind in kinds):
        return Kind(ValueType.DECIMAL, digits=20, is_padded=any(kind.is_padded for kind in kinds))
    return replace(INTEGER, is_padded=any(kind.is_padded for kind in kinds))


def as_kind(value: QueryValue, kind: Kind) -> str:
    """The SQL of a value as one of a united kind."""
    if kind.type is ValueType.DECIMAL:
        return f"CAST({value.sql} AS DECIMAL({kind.digits},{kind.scale}))"
    if kind.type is ValueType.DOUBLE:
        return as_double(value)
    if kind.type is ValueType.DATETIME:
        return f"CAST({value.sql} AS TIMESTAMP)"
    if kind.type is ValueType.INTEGER and value.type is ValueType.INTEGER and value.kind.unsigned is not kind.unsigned:
        return f"CAST({value.sql} AS BIGINT)"
    return value.sql


def _shown(value: QueryValue) -> str:
    column = value.kind.shown_as if value.type is ValueType.SHOWN else None
    return f"{value.name or 'a value'} ({value.type.name if column is None else column.text})"
