"""Constant defaults of BINARY and VARBINARY, in MariaDB also of BLOB. COLUMN_DEFAULT shows their bytes only up to the
first zero, so a column stores the full bytes separately (`Column.default_bytes`).
Not here: the bytes of a statement's literal (`schema/apply/defaults.py`), querying a server (`schema/live/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.model.types import Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.types import ColumnType


def known_bytes(column: Column) -> bytes | None:
    """All bytes of a constant default, those of BINARY filled with zeros; None if a zero may have hidden some bytes."""
    kind = parse_column_type(column.column_type)
    if column.default_bytes is not None:
        return bytes.fromhex(column.default_bytes)
    if is_blob(column):
        return None
    shown = _shown(column.default or "")
    if shown is None:
        return filled((column.default or "").encode(), kind)
    return filled(shown, kind) if len(shown) >= (kind.length or 0) - (kind.kind is TypeKind.BINARY) else None


def may_hide_bytes(column: Column) -> bool:
    """Whether a column has a constant default of bytes, not all of which are known."""
    is_bytes = parse_column_type(column.column_type).kind.facts.family in {Family.BYTES, Family.BLOB}
    is_constant = column.default is not None and not column.default_is_expression
    return is_bytes and is_constant and known_bytes(column) is None


def is_blob(column: Column) -> bool:
    """Whether it is a BLOB of any length."""
    return parse_column_type(column.column_type).kind.facts.family is Family.BLOB


def hidden_default(column: Column, raw: bytes) -> str | None:
    """The value of `Column.default_bytes` for all bytes of the default that a column shows.

    Returns:
        Hexadecimal digits; None if the shown default already contains all bytes, or if it is a different default.
    """
    kind = parse_column_type(column.column_type)
    if not may_hide_bytes(column) or raw.partition(b"\0")[0] != _shown(column.default or ""):
        return None
    return filled(raw, kind).hex().upper()


def filled(raw: bytes, kind: ColumnType) -> bytes:
    """The bytes; those of BINARY are filled with zeros up to its length."""
    return raw.ljust(kind.length or 0 if kind.kind is TypeKind.BINARY else 0, b"\0")


def _shown(default: str) -> bytes | None:
    return bytes.fromhex(default.removeprefix("0x")) if default.startswith("0x") else None
