"""The text of a literal default as `information_schema.COLUMNS.COLUMN_DEFAULT` shows it: the value that was stored.
Not here: dates and times (`temporal.py`); defaults that are expressions, which stay as they were written."""

from __future__ import annotations

import ipaddress
import re
import uuid
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from strata_cdc.schema.apply.charset import charset_of
from strata_cdc.schema.apply.floats import approximate_text, double_text
from strata_cdc.schema.apply.labels import bytes_of_literal, shown_label
from strata_cdc.schema.apply.temporal import temporal_text
from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.model.charsets import CHARSETS, NOT_OF_ASCII
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.types import ColumnType, Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.ddl.literals import Literal
    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.types import ColumnType

_EXACT = Context(prec=100)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
"""The start of a text that begins with a number."""


def default_text(literal: Literal, column: Column, context: DdlContext) -> str | None:
    """COLUMN_DEFAULT of a column whose default is `literal`; the literal's own text if no rule is known.

    None for types that have no default: outside strict mode MySQL accepts `TEXT DEFAULT ''` and ignores it.
    """
    column_type = parse_column_type(column.column_type)
    facts = column_type.kind.facts
    if facts.capacity is not None and not context.flavour.is_mariadb():
        return None
    return STORED_DEFAULTS[facts.family](literal, column, column_type, context)


def _value(literal: Literal) -> Decimal | None:
    if literal.kind in {LiteralKind.HEX, LiteralKind.BITS}:
        return Decimal(literal.number())
    try:
        return Decimal(literal.text.strip() or "0")
    except InvalidOperation:
        return None


def _integer(literal: Literal, column_type: ColumnType) -> str:
    value = _value(literal)
    if value is None:
        return literal.text
    # A number with an exponent is a double, which rounds half to even; all others round half up.
    approximate = literal.kind is LiteralKind.NUMBER and "e" in literal.text.lower()
    text = str(int(value.quantize(Decimal(1), ROUND_HALF_EVEN if approximate else ROUND_HALF_UP, context=_EXACT)))
    return text.zfill(column_type.length) if column_type.zerofill and column_type.length else text


def _decimal(literal: Literal, column_type: ColumnType) -> str:
    value = _value(literal)
    if value is None:
        # Only for DECIMAL, ALTER COLUMN SET DEFAULT accepts a text that is not a number.
        begins = _NUMBER.match(literal.text.lstrip())
        value = _in_range(Decimal(begins.group()) if begins else Decimal(), column_type)
    decimals = column_type.decimals or 0
    text = f"{value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, context=_EXACT):f}"
    if text.startswith("-") and not text.strip("-0."):
        text = text[1:]
    if column_type.zerofill and column_type.length:
        text = text.zfill(column_type.length + (1 if decimals else 0))
    return text


def _in_range(value: Decimal, column_type: ColumnType) -> Decimal:
    decimals = column_type.decimals or 0
    most = Decimal(10) ** ((column_type.length or 10) - decimals) - Decimal(1).scaleb(-decimals)
    return min(max(value, Decimal() if column_type.unsigned else -most), most)


def _bit(literal: Literal) -> str:
    value = _value(literal) if literal.kind is not LiteralKind.TEXT else None
    number = int(value) if value is not None else int.from_bytes(literal.text.encode(), "big")
    return f"b'{number:b}'"


def _bytes(literal: Literal, context: DdlContext) -> bytes:
    """The bytes that a binary column stores for a literal: a string's bytes are those in its charset."""
    if literal.kind in {LiteralKind.HEX, LiteralKind.BITS}:
        return literal.raw_bytes()
    if literal.kind is LiteralKind.NUMBER:
        return _number_text(literal.text).encode()
    # An introducer changes the meaning of the bytes, not the bytes.
    return literal.text.encode(charset_of(context.client_charset).codec or "utf_8", errors="replace")


def exact_bytes(literal: Literal, context: DdlContext) -> bytes | None:
    """The bytes that a binary column stores for a literal, without the zeros that fill a BINARY; None if they do not
    follow from the charsets of the statement."""
    if literal.kind is not LiteralKind.TEXT:
        return _bytes(literal, context)
    if not literal.text.isascii():
        is_known = context.client_charset == "utf8mb4" and literal.charset is None and "\ufffd" not in literal.text
        return literal.text.encode() if is_known and _is_unicode(literal.text) else None
    return None if context.client_charset in NOT_OF_ASCII else literal.text.encode()


def _is_unicode(text: str) -> bool:
    """Whether all its bytes are characters."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def shown_bytes(raw: bytes, column_type: ColumnType) -> str:
    """Bytes as COLUMN_DEFAULT shows them: up to the first zero; BINARY(n) is filled with zeros."""
    is_filled = column_type.kind is TypeKind.BINARY and column_type.length
    if not raw and not is_filled:
        return ""
    return "0x" + raw.partition(b"\0")[0].hex().upper()


def _plain_text(literal: Literal, column: Column, context: DdlContext) -> str:
    if literal.kind is LiteralKind.NUMBER:
        return _number_text(literal.text)
    codec = charset_of(column.collation or "binary").codec or "utf_8"
    if literal.kind in {LiteralKind.HEX, LiteralKind.BITS}:
        meant = literal.charset if literal.charset in CHARSETS else column.character_set or "binary"
        return shown_label(bytes_of_literal(literal, meant), meant)
    text = literal.text
    if literal.charset is not None and not text.isascii():
        text = _reread(text, literal.charset, context)
    return text if text.isascii() else text.encode(codec, errors="replace").decode(codec, errors="replace")


def _reread(text: str, introduced: str, context: DdlContext) -> str:
    """A string with an introducer: its bytes stay, and are read in the charset of the introducer."""
    sent = charset_of(context.client_charset).codec or "utf_8"
    try:
        meant = charset_of(introduced).codec or "utf_8"
    except KeyError:
        return text
    return text.encode(sent, errors="replace").decode(meant, errors="replace")


def _number_text(text: str) -> str:
    """A number as a string: integers without leading zeros, decimals as written, doubles as they are printed."""
    if "e" in text.lower():
        return double_text(float(text))
    if "." in text:
        sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
        whole, _, fraction = digits.partition(".")
        whole = whole.lstrip("0") or "0"
        return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
    return str(int(text))


def _text(literal: Literal, column: Column, column_type: ColumnType, context: DdlContext) -> str:
    text = _plain_text(literal, column, context)
    if column_type.length is not None:
        text = text[: column_type.length]
    return text.rstrip(" ") if column_type.kind is TypeKind.CHAR else text


def _labels(literal: Literal, column: Column, column_type: ColumnType, context: DdlContext) -> str:
    """Labels with the spelling of the type; the members of a SET are in the type's order."""
    text = _plain_text(literal, column, context)
    by_name = {fold_name(label): label for label in reversed(column_type.labels)}
    exact = set(column_type.labels)
    if column_type.kind is TypeKind.ENUM:
        chosen = text if text in exact else by_name.get(fold_name(text.rstrip(" ")), text)
    else:
        members = {by_name.get(fold_name(part.rstrip(" ")), part) for part in text.split(",")} if text else set()
        # An empty label has no comma after it where nothing precedes it.
        chosen = ",".join(label for label in column_type.labels if label in members).lstrip(",")
    return (
        chosen
        if column.character_set is not None
        else shown_bytes(chosen.encode(errors="surrogateescape"), column_type)
    )


def _approximate(literal: Literal, column_type: ColumnType) -> str:
    value = _value(literal)
    return literal.text if value is None else approximate_text(float(value), column_type)


STORED_DEFAULTS: Final[dict[Family, Callable[[Literal, Column, ColumnType, DdlContext], str]]] = {
    Family.INTEGER: lambda literal, _, kind, __: _integer(literal, kind),
    Family.DECIMAL: lambda literal, _, kind, __: _decimal(literal, kind),
    Family.FLOATING: lambda literal, _, kind, __: _approximate(literal, kind),
    Family.BITS: lambda literal, _, __, ___: _bit(literal),
    Family.CHARACTERS: _text,
    Family.BYTES: lambda literal, _, kind, context: shown_bytes(_bytes(literal, context), kind),
    Family.LABELS: _labels,
    Family.TEMPORAL: lambda literal, _, kind, context: temporal_text(literal, kind, context),
    Family.FIXED_BYTES: lambda literal, _, kind, __: address_text(literal, kind),
    # Only MariaDB has literal defaults of these.
    Family.TEXT: _text,
    Family.BLOB: lambda literal, _, kind, context: shown_bytes(_bytes(literal, context), kind),
    Family.VECTOR: lambda literal, _, kind, context: shown_bytes(_bytes(literal, context), kind),
    Family.GEOMETRY: lambda literal, _, kind, context: shown_bytes(_bytes(literal, context), kind),
    Family.DOCUMENT: _text,
    Family.YEAR: lambda literal, _, kind, context: temporal_text(literal, kind, context)[-(kind.length or 4) :],
}
"""The stored value of a literal, by the family of each type that can have a literal default."""


_GROUPS: Final = 8
_OF_IPV4: Final = 6
"""Groups before an IPv4 address in an INET6."""


def address_text(literal: Literal, column_type: ColumnType) -> str:
    """The text that a SELECT gives of the literal's value; its own text if it is no value of the type: a default in
    parentheses may be so, and the server refuses rows that would have it."""
    try:
        raw = literal.raw_bytes() if literal.kind is not LiteralKind.TEXT else _PARSERS[column_type.kind](literal.text)
        return _TEXTS[column_type.kind](raw)
    except (ValueError, IndexError):
        return literal.text


def shown_address(text: str, column_type: ColumnType) -> str:
    """The text that a SELECT gives of a UUID or an address, from any text of it.

    Raises:
        ValueError: It is none.
    """
    return _TEXTS[column_type.kind](_PARSERS[column_type.kind](text))


def _inet6(raw: bytes) -> str:
    """The longest run of zero groups becomes `::`, also a single group, the first of equal ones; an IPv4 address at the
    end is written as such (plugin/type_inet/sql_type_inet.cc, `Inet6::to_string`)."""
    groups = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, 2 * _GROUPS, 2)]
    begin, length = _longest_zeros(groups)
    is_ipv4 = begin == 0 and (length == _OF_IPV4 or (length == _OF_IPV4 - 1 and groups[_OF_IPV4 - 1] == 0xFFFF))
    texts = [f"{group:x}" for group in groups]
    if is_ipv4:
        texts[_OF_IPV4:] = [str(ipaddress.IPv4Address(raw[2 * _OF_IPV4 :]))]
    if not length:
        return ":".join(texts)
    return f"{':'.join(texts[:begin])}::{':'.join(texts[begin + length :])}"


def _longest_zeros(groups: list[int]) -> tuple[int, int]:
    """Index and length of the longest run of zeros; length 0 if there is none."""
    best = (0, 0)
    for begin in range(_GROUPS):
        length = next((at for at, group in enumerate(groups[begin:]) if group), _GROUPS - begin)
        if length > best[1]:
            best = begin, length
    return best


_PARSERS: Final[dict[TypeKind, Callable[[str], bytes]]] = {
    TypeKind.UUID: lambda text: uuid.UUID(text.replace("-", "")).bytes,
    TypeKind.INET4: lambda text: ipaddress.IPv4Address(text).packed,
    TypeKind.INET6: lambda text: ipaddress.IPv6Address(text).packed,
}
_TEXTS: Final[dict[TypeKind, Callable[[bytes], str]]] = {
    TypeKind.UUID: lambda raw: str(uuid.UUID(bytes=raw)),
    TypeKind.INET4: lambda raw: str(ipaddress.IPv4Address(raw)),
    TypeKind.INET6: _inet6,
}
