"""A table as a TABLE_MAP with FULL metadata tells it (`binlog_row_metadata`): what closes a gap without a server.
Not here: maps without names (`rows/physical.py`), whether a map agrees with a version (`rows/table_map_check.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.errors import DdlError
from strata.schema.apply.labels import hidden_bytes, shown_label
from strata.schema.model.charsets import CHARSETS, COLLATION_NAMES, charset_of_collation
from strata.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition
from strata.schema.model.types import AS_BINARY, GEOMETRIES, ColumnType, TypeKind
from strata.wire.codes import FieldType

if TYPE_CHECKING:
    from strata.events.model import TableMap

_PLAIN = {
    FieldType.TINY: TypeKind.TINYINT,
    FieldType.SHORT: TypeKind.SMALLINT,
    FieldType.INT24: TypeKind.MEDIUMINT,
    FieldType.LONG: TypeKind.INT,
    FieldType.LONGLONG: TypeKind.BIGINT,
    FieldType.FLOAT: TypeKind.FLOAT,
    FieldType.DOUBLE: TypeKind.DOUBLE,
    FieldType.YEAR: TypeKind.YEAR,
    FieldType.DATE: TypeKind.DATE,
    FieldType.NEWDATE: TypeKind.DATE,
    FieldType.TIME: TypeKind.TIME,
    FieldType.DATETIME: TypeKind.DATETIME,
    FieldType.TIMESTAMP: TypeKind.TIMESTAMP,
    FieldType.JSON: TypeKind.JSON,
}
_FRACTIONAL = {
    FieldType.TIME2: TypeKind.TIME,
    FieldType.DATETIME2: TypeKind.DATETIME,
    FieldType.TIMESTAMP2: TypeKind.TIMESTAMP,
}
_TEXTS = {1: TypeKind.TINYTEXT, 2: TypeKind.TEXT, 3: TypeKind.MEDIUMTEXT, 4: TypeKind.LONGTEXT}
_BLOBS = {1: TypeKind.TINYBLOB, 2: TypeKind.BLOB, 3: TypeKind.MEDIUMBLOB, 4: TypeKind.LONGBLOB}
_STRINGS = {
    FieldType.STRING: TypeKind.CHAR,
    FieldType.VARCHAR: TypeKind.VARCHAR,
    FieldType.VAR_STRING: TypeKind.VARCHAR,
}
_MEMBERS = {FieldType.ENUM: TypeKind.ENUM, FieldType.SET: TypeKind.SET}


def definition_from_map(table_map: TableMap) -> TableDefinition | None:
    """The table's columns and primary key; None if the map does not name the columns, or holds what is not understood.

    It has no defaults, no comments, no other keys and no display widths: rows need none of them.
    """
    if table_map.names is None:
        return None
    try:
        columns = tuple(_column(table_map, at) for at in range(len(table_map.types)))
    except (DdlError, LookupError):
        return None
    parts = tuple(KeyPart(columns[at].name) for at in table_map.primary_key or ())
    return TableDefinition(columns, (Key("PRIMARY", KeyKind.PRIMARY, parts),) if parts else ())


def _column(table_map: TableMap, at: int) -> Column:
    collation = table_map.collations[at] if table_map.collations else 0
    name = COLLATION_NAMES[collation] if collation else "binary"
    charset = charset_of_collation(name)
    labels = table_map.labels[at] if table_map.labels else None
    column_type = _type(table_map, at, charset, labels)
    is_text = charset != "binary" and column_type.kind is not TypeKind.VECTOR
    return Column(
        (table_map.names or ())[at],
        column_type.text,
        nullable=table_map.nullable[at],
        character_set=charset if is_text else None,
        collation=name if is_text else None,
        invisible=table_map.visible is not None and not table_map.visible[at],
        label_bytes=hidden_bytes(labels, charset) if labels is not None else None,
    )


def _type(table_map: TableMap, at: int, charset: str, labels: tuple[bytes, ...] | None) -> ColumnType:
    """The type of a column.

    Raises:
        KeyError: A type that rows cannot have.
        DdlError: Labels that nobody can show.
    """
    code, metadata = FieldType(table_map.types[at]), table_map.metadata[at]
    if code in _PLAIN:
        return ColumnType(_PLAIN[code], unsigned=_is_unsigned(table_map, at) and code is not FieldType.YEAR)
    if code in _FRACTIONAL:
        return ColumnType(_FRACTIONAL[code], metadata)
    if code in _MEMBERS and labels is not None:
        return ColumnType(_MEMBERS[code], labels=tuple(shown_label(label, charset) for label in labels))
    if code is FieldType.NEWDECIMAL:
        return ColumnType(TypeKind.DECIMAL, metadata >> 8, metadata & 0xFF, unsigned=_is_unsigned(table_map, at))
    if code is FieldType.VECTOR:
        return ColumnType(TypeKind.VECTOR, _ordinal(table_map.vector_dimensions, table_map, at))
    if code is FieldType.GEOMETRY:
        return ColumnType(GEOMETRIES[_ordinal(table_map.geometry_types, table_map, at)])
    if code is FieldType.BIT:
        return ColumnType(TypeKind.BIT, (metadata >> 8) * 8 + (metadata & 0xFF))
    return _string_type(code, metadata, charset)


def _string_type(code: FieldType, metadata: int, charset: str) -> ColumnType:
    is_binary = charset == "binary"
    if code is FieldType.BLOB:
        return ColumnType((_BLOBS if is_binary else _TEXTS)[metadata])
    kind = _STRINGS[code]
    return ColumnType(AS_BINARY[kind] if is_binary else kind, metadata // CHARSETS[charset].max_bytes)


def _is_unsigned(table_map: TableMap, at: int) -> bool:
    return table_map.unsigned is not None and table_map.unsigned[at]


def _ordinal(given: tuple[int, ...] | None, table_map: TableMap, at: int) -> int:
    """What is written for a column in a list that counts the columns of its type only."""
    return (given or ())[table_map.types[:at].count(table_map.types[at])]
