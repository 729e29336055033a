"""The columns of tables: as which kind a query reads them, and in which type DuckDB gets them.
Not here: their types in Arrow (`changes/arrow.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.changes.arrow import MOST_DIGITS
from strata_cdc.dialects.queries.values import Kind, ValueType
from strata_cdc.schema.model.types import Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column

_DIGITS: Final = {
    TypeKind.TINYINT: 3, TypeKind.SMALLINT: 5, TypeKind.MEDIUMINT: 8, TypeKind.INT: 10, TypeKind.BIGINT: 20,
}  # fmt: skip
_TEMPORAL: Final = {
    TypeKind.DATE: ValueType.DATE, TypeKind.DATETIME: ValueType.DATETIME, TypeKind.TIMESTAMP: ValueType.DATETIME,
    TypeKind.TIME: ValueType.TIME,
}  # fmt: skip
_TYPES: Final = {
    Family.FLOATING: ValueType.DOUBLE,
    Family.YEAR: ValueType.YEAR,
    Family.DOCUMENT: ValueType.JSON,
    Family.BYTES: ValueType.BYTES,
    Family.BLOB: ValueType.BYTES,
}


def kind_of(column: Column) -> Kind:
    """The kind of a column's values."""
    kind = parse_column_type(column.column_type)
    family = kind.kind.facts.family
    if family is Family.INTEGER:
        digits = _DIGITS[kind.kind]
        return Kind(ValueType.INTEGER, unsigned=kind.unsigned, digits=digits, is_padded=kind.zerofill, shown_as=kind)
    if family is Family.DECIMAL and (kind.length or 10) <= MOST_DIGITS:
        digits, scale = kind.length or 10, kind.decimals or 0
        return Kind(ValueType.DECIMAL, digits=digits, scale=scale, is_padded=kind.zerofill, shown_as=kind)
    if family in {Family.CHARACTERS, Family.TEXT}:
        return Kind(ValueType.TEXT, collation=column.collation, shown_as=kind)
    if family is Family.LABELS and column.collation is not None:
        type_ = ValueType.ENUM if kind.kind is TypeKind.ENUM else ValueType.SET
        return Kind(type_, collation=column.collation, labels=kind.labels, shown_as=kind)
    if family is Family.BITS:
        return Kind(ValueType.BIT, unsigned=True, digits=kind.length or 1, shown_as=kind)
    if family is Family.TEMPORAL:
        return Kind(_TEMPORAL[kind.kind], fraction=kind.length or 0, shown_as=kind)
    return Kind(_TYPES.get(family, ValueType.SHOWN), shown_as=kind)


def loaded_as(kind: Kind) -> pa.DataType:
    """The type in which DuckDB gets a column."""
    if kind.type is ValueType.INTEGER:
        return pa.uint64() if kind.unsigned else pa.int64()
    if kind.type is ValueType.DOUBLE:
        return pa.float64()
    if kind.type is ValueType.DATETIME:
        return pa.timestamp("us")
    return kind.arrow
