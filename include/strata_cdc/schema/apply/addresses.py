"""The text of UUID, INET4 and INET6 of MariaDB, for literal defaults.
Not here: values of rows (`binlog/kernels/address_texts.py`)."""

from __future__ import annotations

import ipaddress
import uuid
from typing import TYPE_CHECKING, Final

from strata_cdc.schema.ddl.literals import LiteralKind
from strata_cdc.schema.model.types import TypeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.ddl.literals import Literal
    from strata_cdc.schema.model.types import ColumnType

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
