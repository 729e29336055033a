"""The text form of event tokens: short, with characters that every URL and header takes, refused when damaged.
Not here: what tokens mean (`token.py`).

`v1.` and, in base64url without padding (RFC 4648), a CRC32 (4 bytes, big-endian) and MessagePack (array of places):

    [[source, lineage, committed_at, position], ...]
    position = [0, [[uuid, tag, [first, last, first, last, ...]], ...]]     a GTID set
             | [1, uuid, file name, offset]                                 a place in a server's files

`uuid` has 16 bytes, all numbers are integers. There is one text for each token; others that would say the same are
refused. The CRC finds a token that was cut or mistyped; it does not find one that was forged.

A token that stands inside of a transaction begins with `v2.`: its places have a fifth field,

    [[uuid, tag, number], ...]      the transactions of which a part has been given; [0] in a server's files

and behind the base64 each of them has `.` and a number, steps * 65536 + check. So the tokens of the rows of one
transaction differ in the last number only (`StepTexts`).
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strata.errors import InvalidTokenError, Usage
from strata.gtid.position import BinlogPosition
from strata.gtid.sets import MAX_GNO, Gtid, GtidSet, Sid
from strata.gtid.token import FilePosition, Part, Place, Token

_WHOLE, _PARTIAL = "v1", "v2"
_FORM = re.compile(r"(v[0-9]+)\.([A-Za-z0-9_-]+)((?:\.[0-9]+)*)")
_CRC_BYTES = 4
_CHECKS = 1 << 16
_MULTIPLIER = 40503
"""Odd, and near 2^16 by the golden ratio: neighbouring numbers get checks that lie far apart."""
_MOST_STEPS = 1 << 44

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


class _Gtid(Struct, array_like=True, forbid_unknown_fields=True):
    uuid: _Uuid
    tag: _Tag
    gno: _Number


class _PartialPlace(Struct, array_like=True, forbid_unknown_fields=True):
    source: _Name
    lineage: str
    committed_at: _Micros
    position: _Gtids | _File
    inside: list[_Gtid | Literal[0]]


_PLACES = msgspec.msgpack.Decoder(list[_Place])
_PARTIAL_PLACES = msgspec.msgpack.Decoder(list[_PartialPlace])


def to_text(token: Token) -> str:
    """The text of a token: about 75 characters for one server's GTIDs, 25 to 35 more for each further server, and 40
    more for one that stands inside of a transaction."""
    steps = [number for place in token.places for number in _steps_of(place)]
    if not steps:
        return f"{_WHOLE}.{_sealed([_packed(place) for place in token.places])[1]}"
    crc, text = _sealed([_packed_partial(place) for place in token.places])
    return ".".join((_PARTIAL, text, *(str(number * _CHECKS + _check(crc, number)) for number in steps)))


class StepTexts:
    """The texts of one place inside a transaction, by its steps: what many rows of one transaction need."""

    def __init__(self, place: Place) -> None:
        """Takes a place with one part, or with steps behind a position in a file; how many is no matter."""
        self._crc, text = _sealed([_packed_partial(place)])
        self.head = f"{_PARTIAL}.{text}."
        """All texts begin with it; the number follows."""

    def text(self, steps: int) -> str:
        """As `to_text` of a token of that place alone, with so many steps."""
        return f"{self.head}{steps * _CHECKS + _check(self._crc, steps)}"


def _seed(crc: int) -> int:
    return (crc >> 16 ^ crc) & (_CHECKS - 1)


def _check(crc: int, steps: int) -> int:
    return (_seed(crc) ^ steps ^ steps >> 16) * _MULTIPLIER & (_CHECKS - 1)


def _sealed(places: list[Any]) -> tuple[int, str]:
    body = msgspec.msgpack.encode(places)
    crc = zlib.crc32(body)
    return crc, base64.urlsafe_b64encode(crc.to_bytes(_CRC_BYTES, "big") + body).decode().rstrip("=")


def from_text(text: str) -> Token:
    """Reads what `to_text` gave; blanks around it, as copying leaves them, are no matter.

    Raises:
        InvalidTokenError: The text is no token, is damaged, or comes from a newer version of Strata.
    """
    text = text.strip()
    form = _FORM.fullmatch(text)
    if form is None:
        raise _refused(text, "is not an event token", "A token begins with `v1.`; `strata token show TOKEN` reads one.")
    if form[1] not in (_WHOLE, _PARTIAL):
        raise _refused(text, f"is an event token of version {form[1]}", "Read it with a newer version of Strata.")
    try:
        raw = base64.b64decode(form[2] + "=" * (-len(form[2]) % 4), b"-_", validate=True)
    except ValueError:
        raise _refused(text, "is cut or damaged") from None
    crc, body = raw[:_CRC_BYTES], raw[_CRC_BYTES:]
    if zlib.crc32(body).to_bytes(_CRC_BYTES, "big") != crc:
        raise _refused(text, "is cut or damaged")
    try:
        places = _read_partial(body, form[3]) if form[1] == _PARTIAL else _read_whole(body)
        token = Token(places)
    except (msgspec.DecodeError, Usage) as error:
        raise _refused(text, f"is no token that Strata has written: {error}") from None
    sources = [place.source for place in token.places]
    # Sources or spans in another order, twice, or adjacent; spare bits of base64.
    if sources != sorted(set(sources)) or to_text(token) != text:
        raise _refused(text, "is no token that Strata has written: it has another form")
    return token


def _read_whole(body: bytes) -> tuple[Place, ...]:
    return tuple(map(_unpacked, _PLACES.decode(body)))


def _read_partial(body: bytes, numbers: str) -> tuple[Place, ...]:
    """Where the numbers do not fit to the places, the token has another text than the one that was read."""
    left = [min(int(number) // _CHECKS, _MOST_STEPS) for number in numbers.split(".")[1:]]
    found = []
    for packed in _PARTIAL_PLACES.decode(body):
        mine, left = left[: len(packed.inside)], left[len(packed.inside) :]
        if len(mine) < len(packed.inside):
            raise msgspec.DecodeError("a number is missing")
        found.append(_unpacked_partial(packed, mine))
    return tuple(found)


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


def _steps_of(place: Place) -> list[int]:
    if isinstance(place.position, FilePosition):
        return [place.position.steps] if place.position.steps else []
    return [part.steps for part in place.parts]


def _packed_partial(place: Place) -> _PartialPlace:
    found = _packed(place)
    inside: list[_Gtid | Literal[0]] = [
        _Gtid(UUID(part.gtid.sid.uuid).bytes, part.gtid.sid.tag, part.gtid.gno) for part in place.parts
    ]
    if isinstance(place.position, FilePosition) and place.position.steps:
        inside = [0]
    return _PartialPlace(found.source, found.lineage, found.committed_at, found.position, inside)


def _unpacked_partial(packed: _PartialPlace, steps: list[int]) -> Place:
    place = _unpacked(_Place(packed.source, packed.lineage, packed.committed_at, packed.position))
    if isinstance(place.position, FilePosition):
        return replace(place, position=replace(place.position, steps=sum(steps)))
    parts = tuple(
        Part(Gtid(Sid(str(UUID(bytes=one.uuid)), one.tag), one.gno), count)
        for one, count in zip(packed.inside, steps, strict=True)
        if one != 0
    )
    return replace(place, parts=parts)


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
