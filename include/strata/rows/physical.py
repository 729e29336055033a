"""A table as its TABLE_MAP alone shows it: columns `@1`, `@2`, ..., as mysqlbinlog has them.
Not here: versions that know the names (`schema/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.events.field_types import bit_length
from strata.schema.model.charsets import COLLATION_NAMES, charset_of_collation
from strata.schema.model.definition import Column, TableDefinition
from strata.wire.codes import FieldType

if TYPE_CHECKING:
    from strata.events.model import TableMap

_PLAIN = {
    FieldType.TINY: "tinyint",
    FieldType.SHORT: "smallint",
    FieldType.INT24: "mediumint",
    FieldType.LONG: "int",
    FieldType.LONGLONG: "bigint",
    FieldType.FLOAT: "float",
    FieldType.DOUBLE: "double",
    FieldType.YEAR: "year",
    FieldType.DATE: "date",
    FieldType.NEWDATE: "date",
    FieldType.TIME: "time",
    FieldType.DATETIME: "datetime",
    FieldType.TIMESTAMP: "timestamp",
    FieldType.JSON: "json",
    FieldType.GEOMETRY: "geometry",
    FieldType.VECTOR: "vector",
    FieldType.SET: "bigint unsigned",
    FieldType.ENUM: "int unsigned",
}
_FRACTIONAL = {FieldType.TIME2: "time", FieldType.DATETIME2: "datetime", FieldType.TIMESTAMP2: "timestamp"}
_BLOBS = {
    1: ("tinyblob", "tinytext"),
    2: ("blob", "text"),
    3: ("mediumblob", "mediumtext"),
    4: ("longblob", "longtext"),
}


def physical_definition(table_map: TableMap) -> TableDefinition:
    """Columns of the types that a TABLE_MAP has; ENUM and SET as their numbers, text whose charset is not written as
    bytes."""
    return TableDefinition(tuple(_column(table_map, at) for at in range(len(table_map.types))))


def _column(table_map: TableMap, at: int) -> Column:
    code, metadata = table_map.types[at], table_map.metadata[at]
    collation = table_map.collations[at] if table_map.collations else 0
    charset = charset_of_collation(COLLATION_NAMES.get(collation, "binary")) if collation else "binary"
    text = charset != "binary" and code in (FieldType.VARCHAR, FieldType.VAR_STRING, FieldType.STRING, FieldType.BLOB)
    if code == FieldType.STRING and not collation:
        # A CHAR or a BINARY: a BINARY's zeros at the end are not to be had without knowing.
        code = FieldType.VARCHAR
    unsigned = table_map.unsigned is not None and table_map.unsigned[at] and code != FieldType.YEAR
    return Column(
        f"@{at + 1}",
        _type_text(code, metadata, text=text) + (" unsigned" if unsigned else ""),
        nullable=table_map.nullable[at],
        character_set=charset if text else None,
    )


def _type_text(code: int, metadata: int, *, text: bool) -> str:
    if code in _PLAIN:
        return _PLAIN[FieldType(code)]
    if code in _FRACTIONAL:
        return f"{_FRACTIONAL[FieldType(code)]}({metadata})"
    if code == FieldType.NEWDECIMAL:
        return f"decimal({metadata >> 8},{metadata & 0xFF})"
    if code == FieldType.BIT:
        return f"bit({bit_length(metadata)})"
    if code == FieldType.BLOB:
        return _BLOBS.get(metadata, _BLOBS[4])[text]
    bytes_, texts = ("binary", "char") if code == FieldType.STRING else ("varbinary", "varchar")
    return f"{texts if text else bytes_}({metadata})"
