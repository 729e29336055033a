"""JSON documents with the types of their values, which their text does not show: read from the binary form of MySQL's
log, and written as SQL that makes the same binary form.
Not here: where documents lie in an event (`logged_documents.py`), their text (`binlog/kernels/jsonb.py`).

Format: `sql-common/json_binary.h` (9.7)."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from strata_cdc.binlog.kernels.json_values import (
    DOUBLE,
    INT16,
    INT32,
    INT64,
    LITERAL,
    OPAQUE,
    STRING,
    UINT16,
    UINT32,
    UINT64,
)
from strata_cdc.binlog.kernels.jsonb import LARGE_ARRAY, LARGE_OBJECT, MOST_DEPTH
from strata_cdc.past.undo.literals import InexactError, utf8_text

_DATE, _TIME, _DATETIME, _TIMESTAMP, _DECIMAL, _BYTES = 10, 11, 12, 7, 246, 15
_MOST_DIGITS, _MOST_STORED = 65, 81
"""Of a DECIMAL; a stored one counts the digits before the point in groups of nine."""
_BASE64_LINE: Final = 76
_LITERALS: Final = {0: None, 1: True, 2: False}
_NUMBERS: Final = {INT16: "<h", UINT16: "<H", INT32: "<i", UINT32: "<I", INT64: "<q", UINT64: "<Q", DOUBLE: "<d"}
_INLINE: Final = {False: frozenset({LITERAL, INT16, UINT16}), True: frozenset({LITERAL, INT16, UINT16, INT32, UINT32})}
_UNSIGNED: Final = frozenset({UINT16, UINT32, UINT64})
_SIGNED_LIMIT: Final = 1 << 63
_ZERO: Final = re.compile(r"-?0000-|\d{4}-00|\d{4}-\d\d-00")


class NotADocumentError(Exception):
    """Bytes are no document."""


class ShownNumber(Struct, frozen=True):
    """A number as the server prints it."""

    text: str


class TypedValue(Struct, frozen=True):
    """A value of which a text of JSON says another type."""

    text: str
    """As the server prints it, without quotes."""
    sql: str
    """An expression that has the value and its type; empty if there is none."""
    is_number: bool = False


def read_tree(data: bytes) -> Any:
    """A document: dictionaries, lists, strings, None, True, False, `ShownNumber` and `TypedValue`.

    Raises:
        NotADocumentError: The bytes are no document, or there are bytes after it.
    """
    try:
        value, end = _value(data, data[0], 1, 0)
    except (IndexError, struct.error, UnicodeDecodeError, KeyError, OverflowError) as error:
        raise NotADocumentError(str(error)) from None
    if end != len(data):
        raise NotADocumentError("there are bytes after it")
    return value


def tree_of_text(text: str) -> Any:
    """What the text of a document shows: as `read_tree`, without `TypedValue`."""
    return json.loads(text, parse_float=ShownNumber, parse_int=ShownNumber, parse_constant=ShownNumber)


def shown_tree(tree: Any) -> Any:
    """A document as its text shows it, to be compared and to be a key."""
    if isinstance(tree, dict):
        return ("object", *((key, shown_tree(value)) for key, value in sorted(tree.items())))
    if isinstance(tree, list):
        return ("array", *map(shown_tree, tree))
    if isinstance(tree, ShownNumber):
        # Only a DECIMAL has zeros at its end; servers and Python write the exponents of a DOUBLE in different forms.
        has_zeros = "e" not in tree.text and "." in tree.text and tree.text.endswith("0") and tree.text[-2:] != ".0"
        form = tree.text if has_zeros or tree.text.lstrip("-").isdigit() else ""
        return ("number", form, Decimal(tree.text))
    if isinstance(tree, TypedValue):
        return shown_tree(ShownNumber(tree.text)) if tree.is_number else tree.text
    return ("literal", tree) if tree is None or isinstance(tree, bool) else tree


def has_types(tree: Any) -> bool:
    """Whether a text of JSON does not have all of its types."""
    if isinstance(tree, dict):
        return any(map(has_types, tree.values()))
    return any(map(has_types, tree)) if isinstance(tree, list) else isinstance(tree, TypedValue)


def document_sql(tree: Any) -> str:
    """An expression that makes the document.

    Raises:
        InexactError: A value in it has no expression.
    """
    # A cast of bytes to JSON would read them as text.
    return f"JSON_EXTRACT(JSON_ARRAY({_sql(tree)}), '$[0]')" if isinstance(tree, TypedValue) else _sql(tree)


def _sql(tree: Any) -> str:
    if not has_types(tree):
        return f"CAST({utf8_text(_text(tree))} AS JSON)"
    if isinstance(tree, dict):
        return f"JSON_OBJECT({', '.join(f'{utf8_text(key)}, {_sql(value)}' for key, value in tree.items())})"
    if isinstance(tree, list):
        return f"JSON_ARRAY({', '.join(map(_sql, tree))})"
    if not tree.sql:
        raise InexactError("the document has a value whose type no expression has")
    return str(tree.sql)


def _text(tree: Any) -> str:
    if isinstance(tree, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_text(value)}" for key, value in tree.items())
            + "}"
        )
    if isinstance(tree, list):
        return "[" + ", ".join(map(_text, tree)) + "]"
    return tree.text if isinstance(tree, ShownNumber) else json.dumps(tree, ensure_ascii=False)


# Reading ----------------------------------------------------------------------------------------


def _value(data: bytes, kind: int, at: int, depth: int) -> tuple[Any, int]:
    """A value and the offset after it."""
    if kind <= LARGE_ARRAY:
        return _container(data, kind, at, depth)
    if kind == LITERAL:
        return _LITERALS[data[at]], at + 1
    if kind in _NUMBERS:
        return _number(data, kind, at)
    size, begin = _length(data, at if kind == STRING else at + 1)
    raw = data[begin : begin + size]
    if len(raw) < size:
        raise NotADocumentError("it ends early")
    if kind == STRING:
        return raw.decode(), begin + size
    if kind != OPAQUE:
        raise NotADocumentError(f"no value has type {kind}")
    return _opaque(data[at], raw), begin + size


def _number(data: bytes, kind: int, at: int) -> tuple[Any, int]:
    form = _NUMBERS[kind]
    [number] = struct.unpack_from(form, data, at)
    end = at + struct.calcsize(form)
    if kind in _UNSIGNED and number < _SIGNED_LIMIT:
        return TypedValue(str(number), f"CAST({number} AS UNSIGNED)", is_number=True), end
    return ShownNumber(repr(number)), end


def _container(data: bytes, kind: int, start: int, depth: int) -> tuple[Any, int]:
    is_large, is_object = kind in {LARGE_OBJECT, LARGE_ARRAY}, kind <= LARGE_OBJECT
    form, width = ("<I", 4) if is_large else ("<H", 2)
    count, size = (int(struct.unpack_from(form, data, start + at)[0]) for at in (0, width))
    if depth > MOST_DEPTH or size > len(data) - start or 2 * width + count * (width + 1) > size:
        raise NotADocumentError("its entries do not fit into it")
    entries = start + 2 * width + (count * (width + 2) if is_object else 0)
    values, spent = [], 0
    for number in range(count):
        entry = entries + number * (width + 1)
        child = data[entry]
        is_inline = child in _INLINE[is_large]
        at = entry + 1 if is_inline else start + int(struct.unpack_from(form, data, entry + 1)[0])
        value, end = _value(data, child, at, depth + 1)
        # Values that lie on each other would grow without limit.
        spent += 0 if is_inline else end - at
        if spent > size or end > start + size:
            raise NotADocumentError("its values do not fit into it")
        values.append(value)
    if not is_object:
        return values, start + size
    return dict(zip(_keys(data, start, count, form, width), values, strict=True)), start + size


def _keys(data: bytes, start: int, count: int, form: str, width: int) -> list[str]:
    keys = []
    for number in range(count):
        entry = start + 2 * width + number * (width + 2)
        at, size = struct.unpack_from(form, data, entry)[0], struct.unpack_from("<H", data, entry + width)[0]
        keys.append(data[start + at : start + at + size].decode())
    return keys


def _length(data: bytes, at: int) -> tuple[int, int]:
    size = 0
    for count in range(5):
        size |= (data[at + count] & 0x7F) << (7 * count)
        if data[at + count] < 0x80:
            return size, at + count + 1
    raise NotADocumentError("a length is too long")


# Values without a type in JSON ------------------------------------------------------------------


def _opaque(kind: int, raw: bytes) -> TypedValue:
    if kind == _DECIMAL:
        return _decimal(raw)
    if kind in {_DATE, _TIME, _DATETIME, _TIMESTAMP}:
        [packed] = struct.unpack("<q", raw)
        text = _time(packed) if kind == _TIME else _moment(packed, has_time=kind != _DATE)
        word = {_DATE: "DATE", _TIME: "TIME", _DATETIME: "TIMESTAMP"}.get(kind)
        # No literal has a zero in a date.
        return TypedValue(text, f"{word}'{text}'" if word and (kind == _TIME or not _ZERO.match(text)) else "")
    encoded = b64encode(raw).decode()
    lines = "\n".join(encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded), _BASE64_LINE))
    return TypedValue(f"base64:type{kind}:{lines}", f"X'{raw.hex().upper()}'" if kind == _BYTES else "")


def _decimal(raw: bytes) -> TypedValue:
    precision, scale = raw[0], raw[1]
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4)
    whole, first = divmod(precision - scale, 9)
    groups = [first] * (first > 0) + [9] * whole
    point = len(groups)
    groups += [9] * (scale // 9) + [scale % 9] * (scale % 9 > 0)
    is_negative = not raw[2] & 0x80
    packed = bytes([raw[2] ^ 0x80, *raw[3:]])
    packed = bytes(byte ^ 0xFF for byte in packed) if is_negative else packed
    digits, at = [], 0
    for length in groups:
        size = 4 if length == 9 else sizes[length]
        digits.append(f"{int.from_bytes(packed[at : at + size], 'big'):0{length}}")
        at += size
    if at != len(packed) or not 0 < precision <= _MOST_STORED or scale > precision:
        raise NotADocumentError("it is no DECIMAL")
    number = "".join(digits[:point]).lstrip("0") or "0"
    text = f"{'-' if is_negative else ''}{number}{'.' if scale else ''}{''.join(digits[point:])}"
    return TypedValue(text, f"CAST('{text}' AS DECIMAL({min(precision, _MOST_DIGITS)},{scale}))", is_number=True)


def _moment(packed: int, *, has_time: bool) -> str:
    micros, packed = packed & 0xFFFFFF, packed >> 24
    month, day = divmod(packed >> 17, 32)
    text = f"{month // 13:04}-{month % 13:02}-{day:02}"
    return f"{text} {_clock(packed, (packed >> 12) & 31, micros)}" if has_time else text


def _time(packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, packed = packed & 0xFFFFFF, packed >> 24
    return f"{sign}{_clock(packed, (packed >> 12) & 0x3FF, micros)}"


def _clock(packed: int, hours: int, micros: int) -> str:
    return f"{hours:02}:{(packed >> 6) & 63:02}:{packed & 63:02}.{micros:06}"
