"""MySQL's column types in other engines: the narrowest type that can hold every value, and what is lost.
Not here: the types of change tables (`strata_cdc.changes.arrow`), statements (`create_table.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.dialects.engines import Dialect
from strata_cdc.schema.model.types import NO_DIMENSIONS, ColumnType, Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable


class ForeignType(Struct, frozen=True):
    """A type of another engine."""

    text: str
    """The type as that engine writes it."""
    lost: str | None = None
    """What the type no longer expresses; None if it expresses everything."""


class Names(Struct, frozen=True, kw_only=True):
    """The names of an engine's types; `{n}` is a length, `{f}` a number of fraction digits."""

    signed: tuple[str, str, str, str]
    """Signed integers of 1, 2, 4 and 8 bytes."""
    unsigned: tuple[str, str, str, str]
    decimal: str
    most_digits: int
    float32: str
    float64: str
    boolean: str
    text: str
    varchar: str
    binary: str
    date: str
    datetime: str
    timestamp: str
    json: str | None
    vector: str
    uuid: str | None = None


_WIDER: Final = ("SMALLINT", "INT", "BIGINT", "DECIMAL(20,0)")
"""For engines whose integers all have signs: the next wider type."""

NAMES: Final[dict[Dialect, Names]] = {
    Dialect.SPARK: Names(
        signed=("TINYINT", "SMALLINT", "INT", "BIGINT"),
        unsigned=_WIDER,
        decimal="DECIMAL({n},{f})",
        most_digits=38,
        float32="FLOAT",
        float64="DOUBLE",
        boolean="BOOLEAN",
        text="STRING",
        varchar="VARCHAR({n})",
        binary="BINARY",
        date="DATE",
        datetime="TIMESTAMP_NTZ",
        timestamp="TIMESTAMP",
        json=None,
        vector="ARRAY<FLOAT>",
    ),
    Dialect.DUCKDB: Names(
        signed=("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
        unsigned=("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
        decimal="DECIMAL({n},{f})",
        most_digits=38,
        float32="REAL",
        float64="DOUBLE",
        boolean="BOOLEAN",
        text="VARCHAR",
        varchar="VARCHAR",
        binary="BLOB",
        date="DATE",
        datetime="TIMESTAMP",
        timestamp="TIMESTAMPTZ",
        json="JSON",
        vector="FLOAT[{n}]",
        uuid="UUID",
    ),
    Dialect.POSTGRES: Names(
        signed=("SMALLINT", "SMALLINT", "INT", "BIGINT"),
        unsigned=("SMALLINT", "INT", "BIGINT", "NUMERIC(20,0)"),
        decimal="NUMERIC({n},{f})",
        most_digits=65,
        float32="REAL",
        float64="DOUBLE PRECISION",
        boolean="BOOLEAN",
        text="TEXT",
        varchar="VARCHAR({n})",
        binary="BYTEA",
        date="DATE",
        datetime="TIMESTAMP({f})",
        timestamp="TIMESTAMPTZ({f})",
        json="JSONB",
        vector="REAL[]",
        uuid="UUID",
    ),
    Dialect.BIGQUERY: Names(
        signed=("INT64", "INT64", "INT64", "INT64"),
        unsigned=("INT64", "INT64", "INT64", "NUMERIC(20)"),
        decimal="BIGNUMERIC({n},{f})",
        most_digits=38,
        float32="FLOAT64",
        float64="FLOAT64",
        boolean="BOOL",
        text="STRING",
        varchar="STRING({n})",
        binary="BYTES",
        date="DATE",
        datetime="DATETIME",
        timestamp="TIMESTAMP",
        json="JSON",
        vector="ARRAY<FLOAT64>",
    ),
    Dialect.SNOWFLAKE: Names(
        signed=("SMALLINT", "SMALLINT", "INT", "BIGINT"),
        unsigned=_WIDER,
        decimal="DECIMAL({n},{f})",
        most_digits=38,
        float32="DOUBLE",
        float64="DOUBLE",
        boolean="BOOLEAN",
        text="VARCHAR",
        varchar="VARCHAR({n})",
        binary="BINARY",
        date="DATE",
        datetime="TIMESTAMP_NTZ({f})",
        timestamp="TIMESTAMP_LTZ({f})",
        json="VARIANT",
        vector="VECTOR(FLOAT, {n})",
    ),
    Dialect.CLICKHOUSE: Names(
        signed=("Int8", "Int16", "Int32", "Int64"),
        unsigned=("UInt8", "UInt16", "UInt32", "UInt64"),
        decimal="Decimal({n},{f})",
        most_digits=65,
        float32="Float32",
        float64="Float64",
        boolean="Bool",
        text="String",
        varchar="String",
        binary="String",
        date="Date32",
        datetime="DateTime64({f})",
        timestamp="DateTime64({f}, 'UTC')",
        json=None,
        vector="Array(Float32)",
        uuid="UUID",
    ),
}

_SIZES = {TypeKind.TINYINT: 0, TypeKind.SMALLINT: 1, TypeKind.MEDIUMINT: 2, TypeKind.INT: 2, TypeKind.BIGINT: 3}
_HAS_ENUM = frozenset({Dialect.DUCKDB})


def foreign_type(column_type: str, dialect: Dialect) -> ForeignType:
    """Returns the type of another engine for a column type of MySQL.

    Args:
        dialect: The engine; not MySQL.

    Raises:
        BadData: The text is not a column type.
    """
    kind = parse_column_type(column_type)
    return _BY_FAMILY[kind.kind.facts.family](kind, NAMES[dialect], dialect)


def _integer(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    which = names.unsigned if kind.unsigned else names.signed
    return ForeignType(which[_SIZES[kind.kind]])


def _decimal(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    digits = kind.length or 10
    if digits > names.most_digits:
        return ForeignType(names.text, f"{digits} digits are more than a number can have there: text")
    return ForeignType(names.decimal.format(n=digits, f=kind.decimals or 0))


def _floating(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    return ForeignType(names.float32 if kind.kind is TypeKind.FLOAT else names.float64)


def _bits(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    bits = kind.length or 1
    if bits == 1:
        return ForeignType(names.boolean)
    return ForeignType(names.signed[3] if bits < 64 else names.unsigned[3], f"{bits} bits are a number")


def _characters(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    # This includes CHAR: other engines fill it with blanks, which MySQL removes.
    return ForeignType(names.varchar.format(n=kind.length) if kind.length else names.text)


def _text(_: ColumnType, names: Names, __: Dialect) -> ForeignType:
    return ForeignType(names.text)


def _labels(kind: ColumnType, names: Names, dialect: Dialect) -> ForeignType:
    is_enum = kind.kind is TypeKind.ENUM and dialect in _HAS_ENUM
    if is_enum and len(set(kind.labels)) == len(kind.labels) and not any("\0" in label for label in kind.labels):
        labels = ", ".join("'" + label.replace("'", "''") + "'" for label in kind.labels)
        # What MySQL stores instead of an invalid value must fit, too.
        return ForeignType(f"ENUM({labels})" if "" in kind.labels else f"ENUM('', {labels})")
    return ForeignType(names.text, f"the labels of {kind.kind.value.upper()} are not checked")


def _bytes(_: ColumnType, names: Names, __: Dialect) -> ForeignType:
    return ForeignType(names.binary)


def _temporal(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    if kind.kind is TypeKind.DATE:
        return ForeignType(names.date)
    if kind.kind is TypeKind.TIME:
        return ForeignType(names.signed[3], "TIME is a number of microseconds")
    which = names.datetime if kind.kind is TypeKind.DATETIME else names.timestamp
    return ForeignType(which.format(f=kind.length or 0))


def _year(_: ColumnType, names: Names, __: Dialect) -> ForeignType:
    return ForeignType(names.signed[1])


def _document(_: ColumnType, names: Names, __: Dialect) -> ForeignType:
    return ForeignType(names.text, "JSON is text") if names.json is None else ForeignType(names.json)


def _geometry(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    return ForeignType(names.binary, f"{kind.kind.value.upper()} is bytes: SRID and WKB as MySQL stores them")


def _vector(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    if kind.length == NO_DIMENSIONS:
        return ForeignType(names.binary, "VECTOR(0) is bytes")
    return ForeignType(names.vector.format(n=kind.length))


def _fixed_bytes(kind: ColumnType, names: Names, _: Dialect) -> ForeignType:
    if kind.kind is TypeKind.UUID and names.uuid is not None:
        return ForeignType(names.uuid)
    return ForeignType(names.text, f"{kind.kind.value.upper()} is text")


_BY_FAMILY: Final[dict[Family, Callable[[ColumnType, Names, Dialect], ForeignType]]] = {
    Family.INTEGER: _integer,
    Family.DECIMAL: _decimal,
    Family.FLOATING: _floating,
    Family.BITS: _bits,
    Family.CHARACTERS: _characters,
    Family.TEXT: _text,
    Family.BYTES: _bytes,
    Family.BLOB: _bytes,
    Family.LABELS: _labels,
    Family.TEMPORAL: _temporal,
    Family.YEAR: _year,
    Family.DOCUMENT: _document,
    Family.GEOMETRY: _geometry,
    Family.VECTOR: _vector,
    Family.FIXED_BYTES: _fixed_bytes,
}
