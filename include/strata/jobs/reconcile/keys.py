"""Keys in SQL: the order in which the server goes through a table, and what lies behind a key or has one.
Keys are compared by the server alone, which knows their collations.
Not here: reading rows (`server_rows.py`)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from strata.schema.model.create_sql import quoted
from strata.schema.model.definition import KeyKind
from strata.schema.model.types import Family, TypeKind, kinds_of, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from strata.schema.model.definition import Column, TableDefinition
    from strata.schema.model.types import ColumnType

_AS_NUMBER: Final = kinds_of(Family.LABELS, Family.BITS, Family.YEAR)
"""Ordered by number, and compared with a literal as something else: ENUM as text, a small number as a year of 2000."""

Key = tuple[Any, ...]
"""Values of the primary key's columns, as Arrow gives them to Python."""


class KeyColumns:
    """The columns of a table's primary key."""

    def __init__(self, definition: TableDefinition) -> None:
        found = next(key for key in definition.keys if key.kind is KeyKind.PRIMARY)
        columns = ((part, definition.column(part.column or "")) for part in found.parts)
        self._parts = [_Part(column, descending=part.descending) for part, column in columns if column is not None]

    @property
    def order(self) -> str:
        """What follows ORDER BY."""
        return ", ".join(f"{part.name} DESC" if part.descending else part.name for part in self._parts)

    def behind(self, key: Key, *, inclusive: bool = False) -> str:
        """The condition that a row lies behind a key in that order.

        The first part is compared by itself as well: for that the server has a range of the index.
        """
        pairs = list(zip(self._parts, key, strict=True))
        last = len(pairs) - 1
        choices = [
            " AND ".join(
                [
                    *(part.equal(value) for part, value in pairs[:at]),
                    part.beyond(value, inclusive=inclusive and at == last),
                ]
            )
            for at, (part, value) in enumerate(pairs)
        ]
        first, value = pairs[0]
        return f"{first.beyond(value, inclusive=True)} AND ({' OR '.join(f'({choice})' for choice in choices)})"

    def among(self, keys: Iterable[Key]) -> str:
        """The condition that a row has one of some keys."""
        found = [" AND ".join(part.equal(value) for part, value in zip(self._parts, key, strict=True)) for key in keys]
        return " OR ".join(f"({one})" for one in found)


class _Part:
    """One column of a key."""

    def __init__(self, column: Column, *, descending: bool) -> None:
        self.name, self.descending = quoted(column.name), descending
        self._kind = parse_column_type(column.column_type)
        # An index cannot be used for these; they are few, and keys of them short.
        self._compared = f"({self.name} + 0)" if self._kind.kind in _AS_NUMBER else self.name

    def equal(self, value: Any) -> str:
        return f"{self._compared} = {literal(self._kind, value)}"

    def beyond(self, value: Any, *, inclusive: bool) -> str:
        sign = "<" if self.descending else ">"
        return f"{self._compared} {sign}{'=' if inclusive else ''} {literal(self._kind, value)}"


def literal(kind: ColumnType, value: Any) -> str:
    """A value as the server reads it without loss.

    Args:
        kind: Of its column.
        value: As Arrow gives it to Python; never None.
    """
    return _LITERALS.get(kind.kind, _number)(kind, value)


def _number(_kind: ColumnType, value: Any) -> str:
    return str(int(value) if isinstance(value, bool) else value)


def _floating(_kind: ColumnType, value: Any) -> str:
    # With an exponent it is a DOUBLE, else a DECIMAL.
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _text(_kind: ColumnType, value: Any) -> str:
    return f"_utf8mb4 0x{value.encode().hex()}" if value else "_utf8mb4 ''"


def _binary(_kind: ColumnType, value: Any) -> str:
    return f"0x{value.hex()}" if value else "''"


def _label(kind: ColumnType, value: Any) -> str:
    return str(kind.labels.index(value) + 1 if value else 0)


def _members(kind: ColumnType, value: Any) -> str:
    return str(sum(1 << kind.labels.index(one) for one in value.split(",")) if value else 0)


def _moment(_kind: ColumnType, value: datetime | date) -> str:
    if not isinstance(value, datetime):
        return f"'{value.isoformat()}'"
    return f"'{value.replace(tzinfo=None).isoformat(' ', 'microseconds')}'"


def _time(_kind: ColumnType, micros: int) -> str:
    length = timedelta(microseconds=abs(micros))
    minutes, seconds = divmod(length.days * 86_400 + length.seconds, 60)
    sign = "-" if micros < 0 else ""
    return f"'{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{length.microseconds:06}'"


_LITERALS: Final[dict[TypeKind, Callable[[ColumnType, Any], str]]] = {
    **dict.fromkeys(kinds_of(Family.FLOATING), _floating),
    **dict.fromkeys(kinds_of(Family.CHARACTERS, Family.TEXT), _text),
    **dict.fromkeys(kinds_of(Family.BYTES, Family.BLOB), _binary),
    TypeKind.ENUM: _label,
    TypeKind.SET: _members,
    **dict.fromkeys((TypeKind.DATE, TypeKind.DATETIME, TypeKind.TIMESTAMP), _moment),
    TypeKind.TIME: _time,
}


def keys_of(columns: Sequence[Sequence[Any]]) -> list[Key]:
    """Keys of columns of values."""
    return list(zip(*columns, strict=True))
