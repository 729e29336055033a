"""Values of keys, as Arrow has them, in SQL: for queries of the server by keys of the lake.
Not here: the order of keys and conditions on them (`changes/select/keys.py`), reading rows (`server_rows.py`)."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.schema.model.types import Family, TypeKind, kinds_of, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.types import ColumnType

Key = tuple[Any, ...]
"""Values of the primary key's columns, as Arrow gives them to Python."""


def border_of(definition: TableDefinition, columns: Sequence[str], key: Key) -> tuple[str, ...]:
    """The values of some columns as literals.

    Args:
        columns: Their names.
        key: A value for each column; no value is None.
    """
    columns_of_key = (definition.column(name) for name in columns)
    kinds = [parse_column_type(column.column_type) for column in columns_of_key if column is not None]
    return tuple(literal(kind, value) for kind, value in zip(kinds, key, strict=True))


def literal(kind: ColumnType, value: Any) -> str:
    """A value as the server reads it without loss.

    Args:
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
    return str(kind.labels.index(value) + 1 if value in kind.labels else 0)


def _members(kind: ColumnType, value: Any) -> str:
    is_none = not value and value not in kind.labels
    return str(0 if is_none else sum(1 << kind.labels.index(label) for label in value.split(",")))


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
