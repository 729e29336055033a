"""A table as its TABLE_MAP alone describes it: columns `@1`, `@2`, ..., as in mysqlbinlog.
Not here: versions that know the names (`schema/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.schema.model.charsets import COLLATION_NAMES, charset_of_collation
from strata_cdc.schema.model.definition import Column, TableDefinition
from strata_cdc.schema.model.logged_types import type_logged_as
from strata_cdc.schema.model.types import STRINGS, ColumnType, TypeKind

if TYPE_CHECKING:
    from strata_cdc.binlog.events.model import TableMap

_NUMBERED: dict[int, ColumnType] = {
    FieldType.SET: ColumnType(TypeKind.BIGINT, unsigned=True),
    FieldType.ENUM: ColumnType(TypeKind.INT, unsigned=True),
}


def physical_definition(table_map: TableMap) -> TableDefinition:
    """Columns with the types of a TABLE_MAP; ENUM and SET as their numbers, and text as bytes if its charset is not
    written."""
    return TableDefinition(tuple(_column(table_map, at) for at in range(len(table_map.types))))


def _column(table_map: TableMap, at: int) -> Column:
    code, metadata = table_map.types[at], table_map.metadata[at]
    collation = table_map.collations[at] if table_map.collations else 0
    charset = charset_of_collation(COLLATION_NAMES.get(collation, "binary")) if collation else "binary"
    if code == FieldType.STRING and not collation:
        # A CHAR or a BINARY: without knowing which, the zeros at the end of a BINARY cannot be restored.
        code = FieldType.VARCHAR
    column_type = _type(code, metadata, is_text=charset != "binary")
    if table_map.unsigned is not None and table_map.unsigned[at] and code != FieldType.YEAR:
        column_type = replace(column_type, unsigned=True)
    return Column(
        f"@{at + 1}",
        column_type.text,
        nullable=table_map.nullable[at],
        character_set=charset if column_type.kind in STRINGS else None,
    )


def _type(code: int, metadata: int, *, is_text: bool) -> ColumnType:
    """The type of a column; text has its length in bytes, `char(n)`, because its length in characters is not known."""
    try:
        return _NUMBERED.get(code) or type_logged_as(code, metadata, is_text=is_text)
    except KeyError:
        return ColumnType(TypeKind.VARBINARY, metadata)
