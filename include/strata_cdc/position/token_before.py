"""Texts of tokens of the versions 1 to 3, which are read and no longer written.

`v1.` and, in base64url without padding, a CRC32 (4 bytes, big-endian) and MessagePack (array of positions of sources):

    [[source, lineage, committed_at, position], ...]
    position = [0, [[uuid, tag, [first, last, first, last, ...]], ...]]     a GTID set
             | [1, uuid, file name, offset]                                 a position in a server's files

A token inside a transaction begins with `v2.`: its positions have a fifth field,

    [[uuid, tag, number], ...]      the transactions that were received in part; [0] in a server's files

and after the base64 each of them has `.` and a number, steps * 65536 + check. A token of rows that were copied begins
with `v3.`: its positions have the fifth field, and a sixth,

    [[source, lineage, position], ...]      what was copied; the position is nil if it is the source's own position
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import MAX_GNO, Gtid, Sid
from strata_cdc.position.source_position import Origin, PartialTransaction, SourcePosition
from strata_cdc.position.token_packed import (
    MOST_MICROS,
    MOST_STEPS,
    UUID_BYTES,
    Name,
    Tag,
    file_position,
    gtid_set,
    with_origins,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.position.port import Position

_CRC_BYTES: Final = 4
_CHECKS: Final = 1 << 16
_MULTIPLIER: Final = 40503
_Uuid = Annotated[bytes, Meta(min_length=UUID_BYTES, max_length=UUID_BYTES)]
_Number = Annotated[int, Meta(ge=1, le=MAX_GNO)]


class _OfServer(Struct, array_like=True, forbid_unknown_fields=True):
    uuid: _Uuid
    tag: Tag
    bounds: Annotated[list[_Number], Meta(min_length=2)]


class _Gtids(Struct, array_like=True, forbid_unknown_fields=True, tag=0):
    servers: list[_OfServer]


class _FormerFilePosition(Struct, array_like=True, forbid_unknown_fields=True, tag=1):
    uuid: _Uuid
    file: Name
    offset: Annotated[int, Meta(ge=0)]


class _FormerPosition(Struct, array_like=True, forbid_unknown_fields=True):
    source: Name
    lineage: str
    committed_at: Annotated[int, Meta(ge=0, lt=MOST_MICROS)]
    position: _Gtids | _FormerFilePosition


class _FormerGtid(Struct, array_like=True, forbid_unknown_fields=True):
    uuid: _Uuid
    tag: Tag
    gno: _Number


class _StoredPartialPosition(_FormerPosition):
    inside: list[_FormerGtid | Literal[0]]


class _FormerOrigin(Struct, array_like=True, forbid_unknown_fields=True):
    source: Name
    lineage: str
    position: _Gtids | _FormerFilePosition | None


class _StoredCopiedPosition(_StoredPartialPosition):
    origins: list[_FormerOrigin]


_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[list[_FormerPosition]]]] = {
    "v1": msgspec.msgpack.Decoder(list[_FormerPosition]),
    "v2": msgspec.msgpack.Decoder(list[_StoredPartialPosition]),
    "v3": msgspec.msgpack.Decoder(list[_StoredCopiedPosition]),
}
VERSIONS: Final = frozenset(_DECODERS)


def opened(text: str) -> tuple[SourcePosition, ...] | None:
    """Reads a text of one of these versions. None if a check is wrong.

    Args:
        text: The version, a dot, letters, and numbers, each with a dot before it.

    Raises:
        msgspec.DecodeError: The text is sealed, and is no token.
        Usage: Likewise, with a wrong name of a file.
    """
    version, packed, *numbers = text.split(".")
    try:
        raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    except ValueError:
        return None
    body, crc = raw[_CRC_BYTES:], zlib.crc32(raw[_CRC_BYTES:])
    if raw[:_CRC_BYTES] != crc.to_bytes(_CRC_BYTES, "big"):
        return None
    steps = [int(number) // _CHECKS for number in numbers]
    if list(map(str, (_numbered(crc, count) for count in steps))) != numbers:
        return None
    stored = _DECODERS[version].decode(body)
    # Spare bits, and numbers or sizes in more bytes than they need.
    if msgspec.msgpack.encode(stored) != body or base64.urlsafe_b64encode(raw).decode().rstrip("=") != packed:
        raise msgspec.DecodeError("it has another form")
    left = iter(steps)
    positions = tuple(_unpacked(source_position, left) for source_position in stored)
    if next(left, None) is not None or version != _version(positions):
        raise msgspec.DecodeError("it has another form")
    return positions


def _version(positions: Sequence[SourcePosition]) -> str:
    if any(source_position.origins for source_position in positions):
        return "v3"
    return "v2" if any(source_position.parts for source_position in positions) else "v1"


def _numbered(crc: int, steps: int) -> int:
    seed = (crc >> 16 ^ crc) % _CHECKS
    return steps * _CHECKS + (seed ^ steps ^ steps >> 16) * _MULTIPLIER % _CHECKS


def _unpacked(packed: _FormerPosition, steps: Iterator[int]) -> SourcePosition:
    position = _unpacked_position(packed.position)
    source_position = SourcePosition(packed.source, position, packed.lineage, packed.committed_at)
    if isinstance(packed, _StoredPartialPosition):
        source_position = replace(
            source_position, parts=tuple(_unpacked_part(part, position, steps) for part in packed.inside)
        )
    if isinstance(packed, _StoredCopiedPosition):
        origins = [
            Origin(
                origin.source,
                position if origin.position is None else _unpacked_position(origin.position),
                origin.lineage,
            )
            for origin in packed.origins
        ]
        source_position = with_origins(source_position, origins)
    return source_position


def _unpacked_part(packed: _FormerGtid | Literal[0], position: Position, steps: Iterator[int]) -> PartialTransaction:
    count = next(steps, None)
    if count is None or count > MOST_STEPS:
        raise msgspec.DecodeError("a number is missing or too large")
    if isinstance(position, FilePosition) and packed == 0:
        return PartialTransaction(position.at, count)
    if isinstance(position, FilePosition) or packed == 0:
        raise msgspec.DecodeError("a transaction of another kind than the position")
    return PartialTransaction(Gtid(Sid(str(UUID(bytes=packed.uuid)), packed.tag), packed.gno), count)


def _unpacked_position(packed: _Gtids | _FormerFilePosition) -> Position:
    if isinstance(packed, _FormerFilePosition):
        return file_position(str(UUID(bytes=packed.uuid)), packed.file, packed.offset)
    return gtid_set([(Sid(str(UUID(bytes=server.uuid)), server.tag), server.bounds) for server in packed.servers])
