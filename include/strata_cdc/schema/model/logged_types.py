"""Column types and their form in TABLE_MAPs, in both directions.
Not here: the facts of each type (`types.py`), whether a TABLE_MAP and a version agree (`changes/`)."""

from __future__ import annotations

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.flavour import Vendor
from strata_cdc.schema.model.types import STRINGS, ColumnType, TypeKind


def logged_as(column_type: ColumnType, wide: int, vendor: Vendor = Vendor.MYSQL) -> set[tuple[int, int]]:
    """The type codes and metadata that a server may write for a type.

    Args:
        column_type: The type in the schema.
        wide: Bytes of the longest character of the column's charset; 1 if it has no charset.
        vendor: Of the server.
    """
    facts = column_type.kind.facts
    metadata = facts.metadata.of(column_type, wide)
    if column_type.compressed and facts.compressed_code is not None:
        # One byte more than the declared length, for the byte that says whether a value is compressed.
        return {(int(facts.compressed_code), metadata + (facts.code is FieldType.VARCHAR))}
    if vendor is Vendor.MARIADB and facts.logged_as_bytes is not None:
        return {(int(FieldType.VARCHAR), (column_type.length or 0) * facts.logged_as_bytes)}
    logged = {(int(facts.code), metadata)}
    if facts.old_code is not None and (vendor is Vendor.MARIADB or not column_type.length):
        # Tables made before 5.6 keep the old forms, which have no fraction, until they are rebuilt. MariaDB makes such
        # tables today, with fractions, while `mysql56_temporal_format` is off: no DDL shows it.
        logged.add((int(facts.old_code), 0))
    return logged


def type_logged_as(code: int, metadata: int, *, is_text: bool, wide: int = 1) -> ColumnType:
    """The type that a TABLE_MAP shows: the general type for all geometries; without labels, dimensions and signs. Types
    that MariaDB logs as bytes are the types of these bytes.

    Args:
        code: The type code of the TABLE_MAP.
        metadata: The value of `TableMap.metadata`.
        is_text: Whether the column has a charset other than binary.
        wide: Bytes of the longest character of that charset: lengths are logged in bytes.

    Raises:
        KeyError: No server logs such a column.
    """
    if code == FieldType.VAR_STRING:
        code = FieldType.VARCHAR
    kind = _KINDS[code, metadata if code in _SIZED else 0, is_text and code in _TEXT_CODES]
    is_compressed = code == kind.facts.compressed_code
    if is_compressed and code == FieldType.VARCHAR_COMPRESSED:
        metadata -= 1
    length, decimals = kind.facts.metadata.size(metadata, wide)
    return ColumnType(kind, length, decimals, compressed=is_compressed)


_SIZED = frozenset({FieldType.BLOB, FieldType.BLOB_COMPRESSED})
"""Codes of several types, which metadata distinguish."""
_TEXT_CODES = frozenset(code for kind in STRINGS for code in (kind.facts.code, kind.facts.compressed_code))
_KINDS = {
    (int(code), kind.facts.metadata.of(ColumnType(kind), 1) if code in _SIZED else 0, kind in STRINGS): kind
    for kind in reversed(TypeKind)
    for code in (kind.facts.code, kind.facts.old_code, kind.facts.compressed_code)
    if code is not None
}
"""By code, by the metadata that distinguishes BLOBs, and by whether it is text; of several types with one form, such as
geometries, the first."""
