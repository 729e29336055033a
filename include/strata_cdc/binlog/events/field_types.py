"""How each type of column is logged: one entry per code of a TABLE_MAP. A new code gets its entry here.
Not here: what the cells mean (`changes/`), the types of the schema that are logged so (`schema/model/types.py`)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import FieldType

if TYPE_CHECKING:
    from collections.abc import Callable

# Bytes that 0 to 8 left-over decimal digits take (strings/decimal.cc, dig2bytes).
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4)


class MetadataForm(Enum):
    """How a TABLE_MAP writes the metadata of a column."""

    NONE = auto()
    ONE_BYTE = auto()
    TWO_BYTES = auto()
    PRECISION = auto()
    """Precision, then scale."""
    REAL_TYPE = auto()
    """The type that it really is, then its size: CHAR, ENUM and SET have one code."""


class LoggedField(Struct, frozen=True):
    """What a TABLE_MAP and row images have of a column with some code."""

    width: Callable[[int], int | None]
    """From the metadata to the width of a cell: n >= 0 for n bytes, -n for a length in n bytes and what it counts;
    None if no server writes that."""
    metadata: MetadataForm = MetadataForm.NONE
    has_sign: bool = False
    """SIGNEDNESS has a bit for it (9.7, sql/log_event.cc, `is_numeric_type`)."""
    has_charset: bool = False
    """The charset lists count it (`is_character_type`)."""


def bit_length(metadata: int) -> int:
    """Bits of a BIT column: its metadata has whole bytes in the high byte, left-over bits in the low one."""
    return (metadata >> 8) * 8 + (metadata & 0xFF)


def decimal_bytes(precision: int, scale: int) -> int:
    """Bytes of a packed DECIMAL(precision, scale): nine digits in four bytes (strings/decimal.cc)."""
    whole, fraction = precision - scale, scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + fraction // 9 * 4 + _DIGIT_BYTES[fraction % 9]


def _fixed(size: int) -> Callable[[int], int | None]:
    return lambda _: size


def _with_fraction(size: int) -> Callable[[int], int | None]:
    """`size` bytes without the fraction, which takes (fsp + 1) / 2 more (MySQL 5.6, my_time.cc)."""
    return lambda fsp: size + (fsp + 1) // 2 if fsp <= 6 else None


def _old(size: int, *with_fraction: int) -> Callable[[int], int | None]:
    """`size` bytes without a fraction; with one, which only MariaDB has, by its digits (5.3, sql/field.cc)."""
    return lambda fsp: (size, *with_fraction)[fsp] if fsp <= 6 else None


def _prefixed(metadata: int) -> int | None:
    return -metadata if 1 <= metadata <= 4 else None


def _text(metadata: int) -> int | None:
    return -1 if metadata < 256 else -2


def _packed(metadata: int) -> int | None:
    return metadata if 1 <= metadata <= 8 else None


def _decimal(metadata: int) -> int | None:
    precision, scale = metadata >> 8, metadata & 0xFF
    return decimal_bytes(precision, scale) if precision and scale <= precision <= 65 else None


def _bits(metadata: int) -> int | None:
    bits = bit_length(metadata)
    return (bits + 7) // 8 if 1 <= bits <= 64 else None


def _never(metadata: int) -> int | None:  # noqa: ARG001 - no server logs a column so
    return None


_ONE, _TWO, _REAL = MetadataForm.ONE_BYTE, MetadataForm.TWO_BYTES, MetadataForm.REAL_TYPE

LOGGED_FIELDS: dict[int, LoggedField] = {
    FieldType.DECIMAL: LoggedField(_never),
    FieldType.TINY: LoggedField(_fixed(1), has_sign=True),
    FieldType.SHORT: LoggedField(_fixed(2), has_sign=True),
    FieldType.INT24: LoggedField(_fixed(3), has_sign=True),
    FieldType.LONG: LoggedField(_fixed(4), has_sign=True),
    FieldType.LONGLONG: LoggedField(_fixed(8), has_sign=True),
    FieldType.FLOAT: LoggedField(_fixed(4), _ONE, has_sign=True),
    FieldType.DOUBLE: LoggedField(_fixed(8), _ONE, has_sign=True),
    FieldType.NEWDECIMAL: LoggedField(_decimal, MetadataForm.PRECISION, has_sign=True),
    FieldType.BIT: LoggedField(_bits, _TWO),
    FieldType.YEAR: LoggedField(_fixed(1), has_sign=True),
    FieldType.DATE: LoggedField(_fixed(3)),
    FieldType.NEWDATE: LoggedField(_fixed(3)),
    FieldType.TIME: LoggedField(_old(3, 4, 4, 5, 5, 5, 6)),
    FieldType.TIME2: LoggedField(_with_fraction(3), _ONE),
    FieldType.DATETIME: LoggedField(_old(8, 6, 6, 7, 7, 7, 8)),
    FieldType.DATETIME2: LoggedField(_with_fraction(5), _ONE),
    FieldType.TIMESTAMP: LoggedField(_old(4, 5, 5, 6, 6, 7, 7)),
    FieldType.TIMESTAMP2: LoggedField(_with_fraction(4), _ONE),
    FieldType.STRING: LoggedField(_text, _REAL, has_charset=True),
    FieldType.VARCHAR: LoggedField(_text, _TWO, has_charset=True),
    FieldType.VAR_STRING: LoggedField(_text, _TWO, has_charset=True),
    FieldType.BLOB: LoggedField(_prefixed, _ONE, has_charset=True),
    FieldType.VARCHAR_COMPRESSED: LoggedField(_text, MetadataForm.TWO_BYTES, has_charset=True),
    FieldType.BLOB_COMPRESSED: LoggedField(_prefixed, MetadataForm.ONE_BYTE, has_charset=True),
    FieldType.TINY_BLOB: LoggedField(_never, _ONE, has_charset=True),
    FieldType.MEDIUM_BLOB: LoggedField(_never, _ONE, has_charset=True),
    FieldType.LONG_BLOB: LoggedField(_never, _ONE, has_charset=True),
    FieldType.ENUM: LoggedField(_packed, _REAL),
    FieldType.SET: LoggedField(_packed, _REAL),
    FieldType.JSON: LoggedField(_prefixed, _ONE),
    FieldType.GEOMETRY: LoggedField(_prefixed, _ONE),
    FieldType.VECTOR: LoggedField(_prefixed, _ONE, has_charset=True),
    FieldType.NULL: LoggedField(_fixed(0)),
    FieldType.TYPED_ARRAY: LoggedField(_never),
    FieldType.INVALID: LoggedField(_never),
    FieldType.BOOL: LoggedField(_never),
}

UNKNOWN_FIELD = LoggedField(_never)
"""A code that no server of today writes: taken to have no metadata."""
