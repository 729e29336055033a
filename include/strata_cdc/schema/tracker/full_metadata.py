"""The definition of a table from a TABLE_MAP with FULL metadata (`binlog_row_metadata`): it closes a gap without a
server.
Not here: maps without names (`changes/physical.py`), whether a map agrees with a version
(`changes/table_map_check.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.flavour import Vendor
from strata_cdc.schema.apply.labels import hidden_bytes, shown_label
from strata_cdc.schema.model.charsets import CHARSETS, COLLATION_NAMES, charset_of_collation
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition
from strata_cdc.schema.model.logged_types import type_logged_as
from strata_cdc.schema.model.types import GEOMETRIES, LABELLED, SPATIAL, ColumnType, Family, TypeKind

if TYPE_CHECKING:
    from strata_cdc.binlog.events.model import TableMap


def definition_from_map(table_map: TableMap) -> TableDefinition | None:
    """The table's columns and primary key; None if the map does not name the columns, or if a part is not understood.
    None of MariaDB's maps says enough: UUID, addresses and vectors are bytes there, and rows of a versioned table or of
    a sequence look like all others.

    It has no defaults, no comments, no other keys and no display widths: rows need none of them.
    """
    if table_map.names is None or table_map.vendor is Vendor.MARIADB:
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
    is_text = charset != "binary" and not column_type.kind.facts.has_idle_charset
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
        LookupError: Rows cannot have this type, or its labels, dimensions or geometry are not in the map.
        DdlError: Labels that cannot be shown.
    """
    code, metadata = table_map.types[at], table_map.metadata[at]
    is_text = charset != "binary"
    column_type = type_logged_as(code, metadata, is_text=is_text, wide=CHARSETS[charset].max_bytes)
    if column_type.kind in LABELLED:
        if labels is None:
            raise KeyError("no labels")
        return replace(column_type, labels=tuple(shown_label(label, charset) for label in labels))
    if column_type.kind.facts.family is Family.VECTOR:
        return replace(column_type, length=_ordinal(table_map.vector_dimensions, table_map, at))
    if column_type.kind in SPATIAL:
        return ColumnType(GEOMETRIES[_ordinal(table_map.geometry_types, table_map, at)])
    return replace(column_type, unsigned=_is_unsigned(table_map, at) and column_type.kind is not TypeKind.YEAR)


def _is_unsigned(table_map: TableMap, at: int) -> bool:
    return table_map.unsigned is not None and table_map.unsigned[at]


def _ordinal(given: tuple[int, ...] | None, table_map: TableMap, at: int) -> int:
    """The value for a column, from a list that has only the columns of its type."""
    return (given or ())[table_map.types[:at].count(table_map.types[at])]
