"""Writes the texts of tokens of the versions 1 to 3, as Strata wrote them: the reader of today has to open each."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition

if TYPE_CHECKING:
    from strata_cdc.position.sets import Gtid, GtidSet
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.position.token import Token


def former_text(token: Token) -> str:
    """The text that the last version which wrote one of these gave to a token."""
    fields, version = 4, "v1"
    if any(place.parts for place in token.positions):
        fields, version = 5, "v2"
    if any(place.origins for place in token.positions):
        fields, version = 6, "v3"
    packed = [_packed(place)[:fields] for place in token.positions]
    crc, letters = sealed(packed)
    numbers = [_numbered(crc, part.steps) for place in token.positions for part in place.parts]
    return ".".join([version, letters, *map(str, numbers)])


def sealed(packed: Any) -> tuple[int, str]:
    """The CRC32 of packed values, and both as base64url."""
    body = msgspec.msgpack.encode(packed)
    crc = zlib.crc32(body)
    return crc, base64.urlsafe_b64encode(crc.to_bytes(4, "big") + body).decode().rstrip("=")


def _numbered(crc: int, steps: int) -> int:
    seed = (crc >> 16 ^ crc) % 65536
    return steps * 65536 + (seed ^ steps ^ steps >> 16) * 40503 % 65536


def _packed(place: SourcePosition) -> list[Any]:
    inside = [_transaction(part.transaction) for part in place.parts]
    copied = [
        [one.source, one.lineage, None if one.position == place.position else _position(one.position)]
        for one in place.origins
    ]
    return [place.source, place.lineage, place.committed_at, _position(place.position), inside, copied]


def _position(found: FilePosition | GtidSet) -> list[Any]:
    if isinstance(found, FilePosition):
        return [1, UUID(found.server_uuid).bytes, found.at.file, found.at.offset]
    return [
        0,
        [[UUID(sid.uuid).bytes, sid.tag, [bound for span in spans for bound in span]] for sid, spans in found.items()],
    ]


def _transaction(found: Gtid | BinlogPosition) -> Any:
    return 0 if isinstance(found, BinlogPosition) else [UUID(found.sid.uuid).bytes, found.sid.tag, found.gno]
