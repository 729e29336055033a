"""The text form of event tokens: short, with characters that every URL and header takes, refused when damaged.
Not here: what tokens mean (`token.py`).

`v1.` and, in base64url without padding (RFC 4648), a CRC32 (4 bytes, big-endian) and MessagePack (array of places):

    [[source, lineage, committed_at, position], ...]
    position = [0, [[uuid, tag, [first, last, first, last, ...]], ...]]     a GTID set
             | [1, uuid, file name, offset]                                 a place in a server's files

`uuid` has 16 bytes, all numbers are integers. There is one text for each token; others that would say the same are
refused. The CRC finds a token that was cut or mistyped; it does not find one that was forged.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from strata.errors import InvalidTokenError, Usage
from strata.gtid.position import BinlogPosition
from strata.gtid.sets import MAX_GNO, GtidSet, Sid
from strata.gtid.token import FilePosition, Place, Token

_VERSION = "v1"
_FORM = re.compile(r"(v[0-9]+)\.([A-Za-z0-9_-]+)")
_CRC_BYTES = 4

_Uuid = Annotated[bytes, Meta(min_length=16, max_length=16)]
_Number = Annotated[int, Meta(ge=1, le=MAX_GNO)]
_Unsigned = Annotated[int, Meta(ge=0)]
_Name = Annotated[str, Meta(min_length=1)]
_Tag = Annotated[str, Meta(pattern=r"\A([a-z_][a-z0-9_]{0,31})?\Z")]
_Micros = Annotated[int, Meta(ge=0, lt=253_402_300_800_000_000)]
"""Up to the year 9999, where Python's times end."""


class _OfServer(Struct, array_like=True, forbid_unknown_fields=True):
    uuid: _Uuid
    tag: _Tag
    bounds: Annotated[list[_Number], Meta(min_length=2)]


class _Gtids(Struct, array_like=True, forbid_unknown_fields=True, tag=0):
    servers: list[_OfServer]


class _File(Struct, array_like=True, forbid_unknown_fields=True, tag=1):
    uuid: _Uuid
    file: _Name
    offset: _Unsigned


class _Place(Struct, array_like=True, forbid_unknown_fields=True):
    source: _Name
    lineage: str
    committed_at: _Micros
    position: _Gtids | _File


_PLACES = msgspec.msgpack.Decoder(list[_Place])


def to_text(token: Token) -> str:
    """The text of a token: about 75 characters for one server's GTIDs, 25 to 35 more for each further server."""
    body = msgspec.msgpack.encode([_packed(place) for place in token.places])
    crc = zlib.crc32(body).to_bytes(_CRC_BYTES, "big")
    return f"{_VERSION}.{base64.urlsafe_b64encode(crc + body).decode().rstrip('=')}"


def from_text(text: str) -> Token:
    """Reads what `to_text` gave; blanks around it, as copying leaves them, are no matter.

    Raises:
        InvalidTokenError: The text is no token, is damaged, or comes from a newer version of Strata.
    """
    text = text.strip()
    form = _FORM.fullmatch(text)
    if form is None:
        raise _refused(text, "is not an event token", "A token begins with `v1.`; `strata token show TOKEN` reads one.")
    if form[1] != _VERSION:
        raise _refused(text, f"is an event token of version {form[1]}", "Read it with a newer version of Strata.")
    try:
        raw = base64.b64decode(form[2] + "=" * (-len(form[2]) % 4), b"-_", validate=True)
    except ValueError:
        raise _refused(text, "is cut or damaged") from None
    crc, body = raw[:_CRC_BYTES], raw[_CRC_BYTES:]
    if zlib.crc32(body).to_bytes(_CRC_BYTES, "big") != crc:
        raise _refused(text, "is cut or damaged")
    try:
        token = Token(tuple(map(_unpacked, _PLACES.decode(body))))
    except (msgspec.DecodeError, Usage) as error:
        raise _refused(text, f"is no token that Strata has written: {error}") from None
    sources = [place.source for place in token.places]
    # Sources or spans in another order, twice, or adjacent; spare bits of base64.
    if sources != sorted(set(sources)) or to_text(token) != text:
        raise _refused(text, "is no token that Strata has written: it has another form")
    return token


def _refused(text: str, what: str, remedy: str = "Copy the whole of it again.") -> InvalidTokenError:
    shown = text if len(text) <= 60 else f"{text[:40]}...{text[-10:]}"
    return InvalidTokenError(f"{shown!r} {what}", remedy=remedy)


def _packed(place: Place) -> _Place:
    found = place.position
    position = (
        _File(UUID(found.server_uuid).bytes, found.at.file, found.at.offset)
        if isinstance(found, FilePosition)
        else _Gtids(
            [
                _OfServer(UUID(sid.uuid).bytes, sid.tag, [bound for span in spans for bound in span])
                for sid, spans in found.items()
            ]
        )
    )
    return _Place(place.source, place.lineage, place.committed_at, position)


def _unpacked(place: _Place) -> Place:
    found = place.position
    if isinstance(found, _Gtids) and any(one.bounds != sorted(one.bounds) for one in found.servers):
        raise msgspec.DecodeError("a span runs backwards")
    position = (
        FilePosition(str(UUID(bytes=found.uuid)), BinlogPosition.of(found.file, found.offset))
        if isinstance(found, _File)
        else GtidSet.of(
            {
                Sid(str(UUID(bytes=one.uuid)), one.tag): list(zip(one.bounds[::2], one.bounds[1::2], strict=False))
                for one in found.servers
            }
        )
    )
    return Place(place.source, position, place.lineage, place.committed_at)
