"""A sink's columns as definitions of tables.
Not here: reading schema files (`schema_files.py`), values (`values.py`).

A schema file has no charsets, collations, indexes but the primary key, generated expressions and comments; these stay
unknown (None). The order of the columns in the primary key is unknown, too: here it is the order of the table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import BadData
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition
from strata_cdc.schema.model.types import LABELLED, TEMPORAL_WITH_FRACTION, ColumnType, Family, TypeKind

if TYPE_CHECKING:
    from strata_cdc.ticdc.schema_files import SchemaFile, SinkColumn

_UNSIGNED: Final = " UNSIGNED"
_NAMES: Final = {
    **{kind.value: kind for kind in TypeKind if kind.facts.family not in {Family.GEOMETRY, Family.FIXED_BYTES}},
    "var_string": TypeKind.VARCHAR,
}
"""TiDB's names of types (pkg/parser/types, `TypeToStr`)."""
_WITH_LENGTH: Final = frozenset({Family.CHARACTERS, Family.BYTES, Family.BITS})
_CLOCKS: Final = frozenset({TypeKind.DATETIME, TypeKind.DATE})
_NOW: Final = ("CURRENT_TIMESTAMP", "CURRENT_DATE")
_COMPUTED: Final = re.compile(
    r"(?:rand|uuid|uuid_to_bin|date_format|replace|upper|str_to_date|json_object|json_array|json_quote|vec_from_text"
    r"|nextval)\(.*\)",
    re.IGNORECASE | re.DOTALL,
)
"""The functions that a default may be (TiDB, pkg/ddl/add_column.go, `getFuncCallDefaultValue`). A schema file has their
text, and does not say whether that is a constant."""
UNKNOWN_DEFAULTS: Final = frozenset({Family.BITS, Family.BYTES, Family.BLOB})
"""Families whose defaults are bytes, which a schema file does not keep."""


def definition_of(file: SchemaFile) -> TableDefinition:
    """The definition of a table's version.

    Raises:
        BadData: A column has a type that is not supported.
    """
    columns = tuple(_column(column, file) for column in file.table_columns or ())
    parts = tuple(KeyPart(column.column_name) for column in file.table_columns or () if column.column_is_pk == "true")
    return TableDefinition(columns, (Key("PRIMARY", KeyKind.PRIMARY, parts),) if parts else ())


def _column(column: SinkColumn, file: SchemaFile) -> Column:
    kind = column_type(column, file)
    default = None if column.column_default is None else str(column.column_default)
    is_unknown = default is not None and _is_unknown(kind, default)
    return Column(
        column.column_name,
        kind.text,
        nullable=column.column_nullable != "false",
        # Without its text, it is a default that is not known.
        default=None if kind.kind.facts.family in UNKNOWN_DEFAULTS else default,
        default_is_expression=is_unknown,
    )


def _is_unknown(kind: ColumnType, default: str) -> bool:
    """Whether a default gives a row another value than its text."""
    return (
        kind.kind.facts.family in UNKNOWN_DEFAULTS
        or kind.kind is TypeKind.TIMESTAMP
        or (kind.kind in _CLOCKS and default.upper().startswith(_NOW))
        or _COMPUTED.fullmatch(default) is not None
    )


def column_type(column: SinkColumn, file: SchemaFile) -> ColumnType:
    """The type of a column. The display widths of integers, except tinyint(1), and ZEROFILL have no meaning for values.

    Raises:
        BadData: The type is not supported, or its numbers are none.
    """
    name = column.column_type.removesuffix(_UNSIGNED)
    try:
        return _sized(_NAMES[name.lower()], column, unsigned=column.column_type.endswith(_UNSIGNED))
    except (KeyError, ValueError) as error:
        raise BadData(
            f"column {column.column_name} has the type {column.column_type}, which is not supported",
            table=f"{file.schema}.{file.table}",
            file=file.path,
            remedy="Exclude the table with --table, or by the filter of the changefeed.",
        ) from error


def _sized(kind: TypeKind, column: SinkColumn, *, unsigned: bool) -> ColumnType:
    family = kind.facts.family
    precision = None if column.column_precision is None else int(column.column_precision)
    scale = None if column.column_scale is None else int(column.column_scale)
    length, decimals = None, None
    if kind in LABELLED:
        return ColumnType(kind, labels=column.column_elems)
    if kind in TEMPORAL_WITH_FRACTION:
        length = scale or 0
    elif family in _WITH_LENGTH or (kind is TypeKind.TINYINT and precision == 1 and not unsigned):
        length = precision
    elif family is Family.DECIMAL or (family is Family.FLOATING and scale is not None):
        length, decimals = precision, scale or 0
    return ColumnType(kind, length, decimals, unsigned=unsigned)
