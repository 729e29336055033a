"""Does a TABLE_MAP agree with the schema version that is to decode its rows?
Not here: what becomes of rows where it does not (`stream.py`), finding versions (`schema/history/historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata.events.field_types import bit_length
from strata.schema.model.charsets import CHARSETS, COLLATION_NAMES, charset_of_collation
from strata.schema.model.types import SPATIAL, STRINGS, ColumnType, TypeKind, parse_column_type
from strata.wire.codes import FieldType

if TYPE_CHECKING:
    from strata.events.model import TableMap
    from strata.schema.model.definition import Column, TableDefinition

_INTEGERS = {
    TypeKind.TINYINT: FieldType.TINY,
    TypeKind.SMALLINT: FieldType.SHORT,
    TypeKind.MEDIUMINT: FieldType.INT24,
    TypeKind.INT: FieldType.LONG,
    TypeKind.BIGINT: FieldType.LONGLONG,
    TypeKind.FLOAT: FieldType.FLOAT,
    TypeKind.DOUBLE: FieldType.DOUBLE,
    TypeKind.YEAR: FieldType.YEAR,
}
_OLD_TEMPORAL = {
    TypeKind.TIME: FieldType.TIME,
    TypeKind.DATETIME: FieldType.DATETIME,
    TypeKind.TIMESTAMP: FieldType.TIMESTAMP,
}
_TEMPORAL = {
    TypeKind.TIME: FieldType.TIME2,
    TypeKind.DATETIME: FieldType.DATETIME2,
    TypeKind.TIMESTAMP: FieldType.TIMESTAMP2,
}
_BLOBS = {
    TypeKind.TINYTEXT: 1,
    TypeKind.TINYBLOB: 1,
    TypeKind.TEXT: 2,
    TypeKind.BLOB: 2,
    TypeKind.MEDIUMTEXT: 3,
    TypeKind.MEDIUMBLOB: 3,
    TypeKind.LONGTEXT: 4,
    TypeKind.LONGBLOB: 4,
}
_ALONE = {
    TypeKind.DATE: {(int(FieldType.DATE), 0), (int(FieldType.NEWDATE), 0)},
    TypeKind.JSON: {(int(FieldType.JSON), 4)},
    TypeKind.VECTOR: {(int(FieldType.VECTOR), 4)},
}
_SIZES = {TypeKind.FLOAT: 4, TypeKind.DOUBLE: 8}
_SIGNED = frozenset({*_INTEGERS, TypeKind.DECIMAL}) - {TypeKind.YEAR}
_BINARY = 63
"""The collation id of bytes that are no text."""


class Disagreement(Struct, frozen=True):
    """What a TABLE_MAP and a version say differently."""

    column: str
    """Its name in the version; '' if it is about the table."""
    says: str
    """The version's side."""
    logged: str
    """The TABLE_MAP's side."""

    def __str__(self) -> str:
        what = f"column {self.column}" if self.column else "the table"
        return f"{what} is {self.says} in the schema and {self.logged} in the TABLE_MAP"


def disagreements(definition: TableDefinition, table_map: TableMap) -> list[Disagreement]:
    """All differences between a version and a TABLE_MAP that make its rows unsafe to decode; none if they agree.

    Compared are the number of columns, types with their metadata, nullability, signedness, charsets and, where the
    server writes them (binlog_row_metadata=FULL), names.
    """
    columns = definition.columns
    if len(columns) != len(table_map.types):
        return [Disagreement("", f"of {len(columns)} columns", f"of {len(table_map.types)}")]
    found = []
    for at, column in enumerate(columns):
        found += _physical_differences(column, table_map, at)
        found += _nullability(column, table_map, at)
        found += _name(column, table_map, at)
    return found


def differing_values(definition: TableDefinition, table_map: TableMap) -> list[Disagreement]:
    """The differences between the columns that both have, from the first on, that would give other values."""
    both = min(len(definition.columns), len(table_map.types))
    columns = enumerate(definition.columns[:both])
    return [
        each
        for at, column in columns
        for each in (*_physical_differences(column, table_map, at), *_name(column, table_map, at))
    ]


def _physical_differences(column: Column, table_map: TableMap, at: int) -> list[Disagreement]:
    kind = parse_column_type(column.column_type)
    return [
        *_type(column, kind, table_map, at),
        *_signedness(column, kind, table_map, at),
        *_charset(column, kind, table_map, at),
    ]


def _type(column: Column, kind: ColumnType, table_map: TableMap, at: int) -> list[Disagreement]:
    logged = (table_map.types[at], table_map.metadata[at])
    if logged[0] == FieldType.BIT:
        logged = (FieldType.BIT, bit_length(logged[1]))
    allowed = _physical(column, kind)
    if logged in allowed:
        return []
    return [Disagreement(column.name, column.column_type, _describe(*logged))]


def _physical(column: Column, kind: ColumnType) -> set[tuple[int, int]]:
    """The type codes and metadata that a server may write for a column."""
    name = kind.kind
    if name in _INTEGERS:
        return {(_INTEGERS[name], _SIZES.get(name, 0))}
    if name in _TEMPORAL:
        # Tables made before 5.6 keep the old forms, which have no fraction, until they are rebuilt.
        return {(_TEMPORAL[name], kind.length or 0)} | ({(_OLD_TEMPORAL[name], 0)} if not kind.length else set())
    if name in _BLOBS:
        return {(FieldType.BLOB, _BLOBS[name])}
    if name in _ALONE:
        return _ALONE[name]
    if name in SPATIAL:
        return {(FieldType.GEOMETRY, 4)}
    return {_sized(column, kind)}


def _sized(column: Column, kind: ColumnType) -> tuple[int, int]:
    """Type code and metadata of a type that has a length or labels."""
    length = 1 if kind.length is None else kind.length
    match kind.kind:
        case TypeKind.DECIMAL:
            return FieldType.NEWDECIMAL, length << 8 | (kind.decimals or 0)
        case TypeKind.BIT:
            return FieldType.BIT, length
        case TypeKind.ENUM:
            return FieldType.ENUM, 1 if len(kind.labels) < 256 else 2
        case TypeKind.SET:
            size = (len(kind.labels) + 7) // 8
            return FieldType.SET, size if size <= 4 else 8
        case TypeKind.CHAR | TypeKind.BINARY:
            return FieldType.STRING, length * _widest(column.character_set)
        case _:
            return FieldType.VARCHAR, length * _widest(column.character_set)


def _widest(charset: str | None) -> int:
    if charset is None:
        return 1
    known = CHARSETS.get("utf8mb3" if charset == "utf8" else charset)
    return known.max_bytes if known else 1


def _describe(code: int, metadata: int) -> str:
    try:
        name = FieldType(code).name
    except ValueError:
        name = f"type {code}"
    if code == FieldType.NEWDECIMAL:
        return f"DECIMAL({metadata >> 8},{metadata & 0xFF})"
    return f"{name}({metadata})" if metadata else name


def _nullability(column: Column, table_map: TableMap, at: int) -> list[Disagreement]:
    if column.nullable == table_map.nullable[at]:
        return []
    words = {True: "nullable", False: "NOT NULL"}
    return [Disagreement(column.name, words[column.nullable], words[table_map.nullable[at]])]


def _signedness(column: Column, kind: ColumnType, table_map: TableMap, at: int) -> list[Disagreement]:
    if table_map.unsigned is None or kind.kind not in _SIGNED or kind.unsigned == table_map.unsigned[at]:
        return []
    words = {True: "unsigned", False: "signed"}
    return [Disagreement(column.name, words[kind.unsigned], words[table_map.unsigned[at]])]


def _charset(column: Column, kind: ColumnType, table_map: TableMap, at: int) -> list[Disagreement]:
    collation = table_map.collations[at] if table_map.collations else 0
    if collation == 0 or kind.kind is TypeKind.VECTOR:
        return []
    logged = charset_of_collation(COLLATION_NAMES.get(collation, f"collation {collation}"))
    has_text = kind.kind in STRINGS or column.character_set is not None
    says = (column.character_set or "binary") if has_text else "binary"
    if {"utf8": "utf8mb3"}.get(says, says) == {"utf8": "utf8mb3"}.get(logged, logged):
        return []
    return [Disagreement(column.name, f"in charset {says}", f"in {logged}")]


def _name(column: Column, table_map: TableMap, at: int) -> list[Disagreement]:
    if table_map.names is None or table_map.names[at].casefold() == column.name.casefold():
        return []
    return [Disagreement(column.name, f"called {column.name}", f"called {table_map.names[at]}")]
