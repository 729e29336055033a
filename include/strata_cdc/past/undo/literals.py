"""Values as SQL: a literal that a column stores exactly, and a condition that a column has exactly this value.

Both hold in the session that a script begins with (`script.py`): strict, times in UTC, utf8mb4. The text has only
printable ASCII, without quotes and backslashes, so that neither a client's charset nor NO_BACKSLASH_ESCAPES matters.
Not here: values of another type (`columns.py`), names and statements (`steps.py`)."""

from __future__ import annotations

import json
import re
import struct
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata_cdc.binlog.kernels.charsets import ALIAS
from strata_cdc.changes.arrow import has_many_forms
from strata_cdc.changes.charset import UTF8, characters_of, charset_table
from strata_cdc.changes.jsonl import time_text
from strata_cdc.errors import BadData
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.types import (
    BLOBS,
    INTEGERS,
    LABELLED,
    SPATIAL,
    STRINGS,
    ColumnType,
    Family,
    TypeKind,
    kinds_of,
    parse_column_type,
    shown_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.model.definition import Column

_PLAIN: Final = re.compile(r"[ -&(-\[\]-~]*")
"""Printable ASCII without `'` and a backslash."""
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?)?")
_LIKE_ASCII: Final = UTF8 | {"ascii", "latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251"}
"""Charsets in which the bytes of plain text are those of ASCII."""


class Verbatim(Struct, frozen=True):
    """A value that the lake's column cannot hold, as `_invalid` has it."""

    text: str


class InexactError(Exception):
    """A value that cannot be written as SQL exactly; the message says why, without the value."""


def literal(column: Column, value: Any) -> str:
    """An expression for VALUES and SET: the column stores exactly this value.

    Args:
        column: The column as it is now.
        value: In the Python form of the column's Arrow type, a `Verbatim`, or None for NULL.

    Raises:
        InexactError: A strict session cannot store the value, or what the value was is not known.
    """
    if value is None:
        return "NULL"
    kind = parse_column_type(column.column_type)
    if isinstance(value, Verbatim):
        return _verbatim(column, kind, value.text)
    if kind.kind in LABELLED:
        number = _number_of(column, kind, value)
        if number == 0 and kind.kind is TypeKind.ENUM:
            raise InexactError("it is the empty value of an ENUM (number 0), which a strict session does not store")
        return str(number)
    return _text(column, value) if kind.kind in STRINGS else _LITERALS[kind.kind](kind, value)


def condition(column: Column, value: Any) -> str:
    """A condition that the column has exactly this value: texts by their bytes, whatever the collation, and NULL by IS
    NULL.

    Args:
        column: The column as it is now.
        value: As in `literal`.

    Raises:
        InexactError: What the value was is not known.
    """
    name = quoted(column.name)
    if value is None:
        return f"{name} IS NULL"
    kind = parse_column_type(column.column_type)
    if kind.kind in LABELLED:
        return f"CAST({name} AS UNSIGNED) <=> {_compared_number(column, kind, value)}"
    if kind.kind in STRINGS:
        return _same_text(column, value)
    if kind.kind is TypeKind.JSON and isinstance(value, str):
        # JSON itself compares 1.0 and 1 as equal.
        return f"CAST(CAST({name} AS CHAR) AS BINARY) <=> {utf8_text(value).removeprefix('_utf8mb4 ')}"
    if kind.kind in SPATIAL or kind.kind is TypeKind.VECTOR:
        return f"CAST({name} AS BINARY) <=> {literal(column, value)}"
    return f"{name} <=> {literal(column, value)}"


def equality(column: Column, value: Any) -> str:
    """A condition on a column of a key, by which the server finds the row in its index.

    Raises:
        InexactError: What the value was is not known.
    """
    kind = parse_column_type(column.column_type)
    written = _compared_number(column, kind, value) if kind.kind in LABELLED else literal(column, value)
    return f"{quoted(column.name)} = {written}"


def _compared_number(column: Column, kind: ColumnType, value: Any) -> int:
    """The number by which an ENUM or SET is compared, because labels are compared by the collation. It may be 0, which
    is only not stored."""
    return int(_verbatim(column, kind, value.text)) if isinstance(value, Verbatim) else _number_of(column, kind, value)


# Texts ------------------------------------------------------------------------------------------


def _text(column: Column, text: str) -> str:
    """Plain text in quotes, other text in hexadecimal, in the bytes of the column's charset."""
    charset = column.character_set or "utf8mb4"
    if charset in _LIKE_ASCII and _PLAIN.fullmatch(text):
        return f"'{text}'"
    introducer = "utf8mb4" if charset in UTF8 else charset
    return f"_{introducer} X'{encoded(charset, text).hex().upper()}'"


def _same_text(column: Column, value: str | Verbatim) -> str:
    # A literal is compared in the charset of the session, a hexadecimal one as bytes.
    written = literal(column, value)
    return f"CAST({quoted(column.name)} AS BINARY) <=> {written[written.find('X') :] if written[0] == '_' else written}"


def utf8_text(text: str) -> str:
    """A text in the charset of the session: a document, a name."""
    return f"'{text}'" if _PLAIN.fullmatch(text) else f"_utf8mb4 X'{encoded('utf8mb4', text).hex().upper()}'"


def encoded(charset: str, text: str) -> bytes:
    """The bytes of a text.

    Raises:
        InexactError: The charset lacks a character.
    """
    try:
        return encoded_text(charset, text)
    except NoSuchCharacterError as error:
        raise InexactError(str(error)) from None


# Values that no column of the lake holds ------------------------------------------------------------


def _verbatim(column: Column, kind: ColumnType, text: str) -> str:
    if kind.kind in LABELLED and text.isdecimal():
        if kind.kind is TypeKind.ENUM and int(text) == 0:
            raise InexactError("it is the empty value of an ENUM (number 0), which a strict session does not store")
        return text
    if kind.kind in _DATES and _DATE.fullmatch(text):
        return f"'{text}'"
    if has_many_forms(column) and text.startswith("0x"):
        return f"_{column.character_set} X'{text.removeprefix('0x')}'"
    if kind.kind is TypeKind.JSON and text.startswith("["):
        raise InexactError("the log has only what changed in the document (binlog_row_value_options=PARTIAL_JSON)")
    raise InexactError("its bytes are no value of the column's type")


_DATES: Final = frozenset({TypeKind.DATE, TypeKind.DATETIME, TypeKind.TIMESTAMP})


_CHECKED_LABELS: Final = 8
"""How many labels of a SET the server tells one by one (MariaDB 11.8)."""


def hides_labels(column: Column) -> bool:
    """Whether information_schema does not show all characters of an ENUM's or SET's labels."""
    if column.label_bytes is None and column.column_type.isascii():
        return False
    return column.label_bytes is not None or any(
        shown_text(label) != label for label in parse_column_type(column.column_type).labels
    )


def _number_of(column: Column, kind: ColumnType, value: str) -> int:
    """The number of a label, or of the labels of a SET."""
    if kind.kind is TypeKind.SET and len(kind.labels) > _CHECKED_LABELS and hides_labels(column):
        raise InexactError("the server does not show the labels of this SET, so that no script can check their numbers")
    if not value and "" not in kind.labels:
        return 0
    try:
        if kind.kind is TypeKind.ENUM:
            return kind.labels.index(value) + 1
        return sum(1 << kind.labels.index(label) for label in value.split(","))
    except ValueError:
        raise InexactError("the column does not have this label now") from None


# Documents --------------------------------------------------------------------------------------


def _document(_: ColumnType, value: str) -> str:
    json.loads(value, parse_float=_require_double, parse_int=_require_integer)
    return utf8_text(value)


def _require_double(text: str) -> None:
    """Numbers of JSON may be decimals (CAST(... AS JSON)); read from text, they become doubles."""
    if Decimal(text) != Decimal(repr(float(text))) or ("e" not in text and text[-1] == "0" and text[-2:] != ".0"):
        raise InexactError("the document has a DECIMAL, which no text of JSON has")


def _require_integer(text: str) -> None:
    if not -(1 << 63) <= int(text) < 1 << 64:
        raise InexactError("the document has a DECIMAL, which no text of JSON has")


# Everything else --------------------------------------------------------------------------------


def _integer(_: ColumnType, value: Any) -> str:
    return str(int(value))


def _decimal(_: ColumnType, value: Decimal | str) -> str:
    return value if isinstance(value, str) else f"{value:f}"


def _floating(_: ColumnType, value: float) -> str:
    # A FLOAT is compared as the double that it is. Without an exponent, it would be a DECIMAL.
    text = repr(float(value))
    if not _PLAIN.fullmatch(text) or text.lstrip("-")[0] not in "0123456789":
        raise InexactError("it is no finite number")
    return text if "e" in text else f"{text}e0"


def _bytes(_: ColumnType, value: bytes) -> str:
    return f"X'{value.hex().upper()}'"


def _date(_: ColumnType, value: Any) -> str:
    return f"DATE'{value.isoformat()}'"


def _moment(kind: ColumnType, value: Any) -> str:
    end = 19 + (1 + kind.length if kind.length else 0)
    return f"TIMESTAMP'{value.replace(tzinfo=None).isoformat(' ', 'microseconds')[:end]}'"


def _time(kind: ColumnType, value: int) -> str:
    return f"TIME'{time_text(value, kind.length or 0)}'"


def _vector(_: ColumnType, value: list[float]) -> str:
    return f"X'{struct.pack(f'<{len(value)}f', *value).hex().upper()}'"


def _geometry(_: ColumnType, value: dict[str, Any]) -> str:
    """The form in which the server stores it; ST_GeomFromWKB would exchange axes."""
    return f"X'{(value['srid'].to_bytes(4, 'little', signed=True) + value['wkb']).hex().upper()}'"


def _fixed(_: ColumnType, value: str) -> str:
    if not _PLAIN.fullmatch(value):
        raise BadData(f"{value!r} is no UUID and no address")
    return f"'{value}'"


_LITERALS: Final[dict[TypeKind, Callable[[ColumnType, Any], str]]] = {
    **dict.fromkeys(INTEGERS, _integer),
    TypeKind.BIT: _integer,
    TypeKind.YEAR: _integer,
    TypeKind.DECIMAL: _decimal,
    TypeKind.FLOAT: _floating,
    TypeKind.DOUBLE: _floating,
    **dict.fromkeys(kinds_of(Family.BYTES), _bytes),
    **dict.fromkeys(BLOBS, _bytes),
    TypeKind.DATE: _date,
    TypeKind.DATETIME: _moment,
    TypeKind.TIMESTAMP: _moment,
    TypeKind.TIME: _time,
    TypeKind.JSON: _document,
    TypeKind.VECTOR: _vector,
    **dict.fromkeys(kinds_of(Family.FIXED_BYTES), _fixed),
    **dict.fromkeys(SPATIAL, _geometry),
}
"""How the values of each column type are written; ENUM and SET by their numbers."""


_CODECS: Final = {
    "ucs2": "utf_16_be",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
} | dict.fromkeys(UTF8, "utf_8")


class NoSuchCharacterError(Exception):
    """A charset does not have a character."""


def encoded_text(charset: str, text: str) -> bytes:
    """The usual bytes of a text.

    Args:
        charset: MySQL's name of it.
        text: Of characters that the charset has.

    Raises:
        NoSuchCharacterError: It lacks one.
        UnsupportedEventError: MySQL has no such charset.
    """
    try:
        if charset in _CODECS:
            return text.encode(_CODECS[charset])
        table = _bytes_of_characters(charset)
        return b"".join(_beyond(charset, ch) if ch > "\uffff" else table[ch] for ch in text)
    except (KeyError, UnicodeEncodeError):
        raise NoSuchCharacterError(f"{charset} does not have all of its characters") from None


def _beyond(charset: str, character: str) -> bytes:
    """The bytes of a character beyond the first plane: GB18030 numbers these in order, and no other charset that has a
    table has any."""
    if charset != "gb18030":
        raise KeyError(character)
    return character.encode(charset)


@lru_cache(maxsize=64)
def _bytes_of_characters(charset: str) -> dict[str, bytes]:
    _, table = charset_table(charset)
    codes = ((int(table[code]), data) for code, data in characters_of(charset))
    return {chr(code): data for code, data in codes if code >= 0 and not code & ALIAS}
