"""Tokens as MessagePack: the bytes in their texts.
Not here: the texts (`token_text.py`), what tokens mean (`token.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import MAX_GNO, Gtid, GtidSet, Sid
from strata_cdc.position.source_position import Origin, PartialTransaction, SourcePosition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.position.port import Position
    from strata_cdc.position.sets import Span

WHOLE, PARTIAL, COPIED = "v1", "v2", "v3"
"""The versions of the text."""
_NOTHING: Final = b"\x90"
"""An empty array."""
_encode: Final = msgspec.msgpack.encode

_Uuid = Annotated[bytes, Meta(min_length=16, max_length=16)]
_Number = Annotated[int, Meta(ge=1, le=MAX_GNO)]
_Unsigned = Annotated[int, Meta(ge=0)]
_Name = Annotated[str, Meta(min_length=1)]
_Tag = Annotated[str, Meta(pattern=r"\A([a-z_][a-z0-9_]{0,31})?\Z")]
_Micros = Annotated[int, Meta(ge=0, lt=253_402_300_800_000_000)]
"""Up to the year 9999, the end of Python's times."""


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


class _PartialPlace(_Place):
    inside: list[_Gtid | Literal[0]]


class _Origin(Struct, array_like=True, forbid_unknown_fields=True):
    source: _Name
    lineage: str
    position: _Gtids | _File | None


class _CopiedPlace(_PartialPlace):
    origins: list[_Origin]


_PLACES = msgspec.msgpack.Decoder(list[_Place])
_PARTIAL_PLACES = msgspec.msgpack.Decoder(list[_PartialPlace])
_COPIED_PLACES = msgspec.msgpack.Decoder(list[_CopiedPlace])


class PackedPlace(NamedTuple):
    """A source's position as it is packed into tokens; each token of a group has the positions of all of its
    sources."""

    name: bytes
    """Its source and lineage."""
    position: bytes
    whole: bytes
    """In a text in which no position is inside a transaction: an array of four."""
    partial: bytes
    """In a text in which some positions are inside a transaction: an array of five."""
    copied: bytes
    """In a text with copied sources: an array of six."""
    steps: tuple[int, ...]
    is_copied: bool


def packed_place(place: SourcePosition, known: PackedPlace | None = None, *, stands: bool = False) -> PackedPlace:
    """Packs a source's position for `text_of` and `StepTexts`.

    Args:
        place: The position.
        known: An earlier packed position of the same source and lineage.
        stands: Whether `known` has the same position.
    """
    name = known.name if known else _encode(place.source) + _encode(place.lineage)
    position = known.position if known and stands else _encode(_packed_position(place.position))
    inside, steps = _NOTHING, tuple(part.steps for part in place.parts)
    if steps:
        inside = _encode(_packed_parts(place))
    # Joined here: from one text to the next, most positions of a group do not change.
    fields = name + _encode(place.committed_at) + position
    origins = _encode(_packed_origins(place)) if place.origins else _NOTHING
    copied = b"\x96" + fields + inside + origins
    return PackedPlace(name, position, b"\x94" + fields, b"\x95" + fields + inside, copied, steps, bool(place.origins))


class Growing(NamedTuple):
    """The packed parts that are the same in the tokens of consecutive transactions of one server; between the parts are
    the commit time, then the last executed number, and in `inside` the next number."""

    name: bytes
    """The source's name, after the heads of the arrays; the commit time follows."""
    before: bytes
    """The position up to its last number, which follows."""
    behind: bytes
    inside: bytes
    """The transaction that was received in part; its number follows."""
    origins: bytes
    """What was copied up to the source's own position; empty if nothing was."""


def growing(place: SourcePosition, gtid: Gtid) -> tuple[Growing, int] | None:
    """What the tokens after a position have in common while it grows by transactions of one server.

    Args:
        place: The position before the first of these transactions, between two transactions.
        gtid: The first of them.

    Returns:
        The common parts, and the number before which they are valid. None if no span grows.
    """
    position = place.position
    if not isinstance(position, GtidSet) or any(origin.position != position for origin in place.origins):
        return None
    packed = list(position.items())
    at = next((at for at, (sid, _) in enumerate(packed) if sid == gtid.sid), None)
    if at is None:
        return None
    sid, spans = packed[at]
    grows = next((number for number, span in enumerate(spans) if span[1] == gtid.gno - 1), None)
    if grows is None:
        return None
    bounds = [_encode(bound) for span in spans for bound in span]
    servers = [_encode(_packed_server(sid, spans)) for sid, spans in packed]
    mine = _encode(_uuid_bytes(sid.uuid)) + _encode(sid.tag)
    last = 2 * grows + 1
    before = b"\x92\x00" + array_head(len(servers)) + b"".join(servers[:at]) + b"\x93" + mine + array_head(len(bounds))
    limit = spans[grows + 1][0] - 1 if grows + 1 < len(spans) else MAX_GNO
    return Growing(
        _encode(place.source) + _encode(place.lineage),
        before + b"".join(bounds[:last]),
        b"".join(bounds[last + 1 :]) + b"".join(servers[at + 1 :]),
        b"\x91\x93" + mine,
        _encode(_packed_origins(place)) if place.origins else b"",
    ), limit


def array_head(size: int) -> bytes:
    """The head of an array of this many items."""
    if size < 1 << 4:
        return bytes([0x90 | size])
    return b"\xdc" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xdd" + size.to_bytes(4, "big")


# Reading ----------------------------------------------------------------------------------------


def _read_whole(body: bytes, steps: Sequence[int]) -> tuple[SourcePosition, ...]:
    del steps
    return tuple(map(_unpacked, _PLACES.decode(body)))


def _read_partial(body: bytes, steps: Sequence[int]) -> tuple[SourcePosition, ...]:
    return tuple(_with_steps(_PARTIAL_PLACES.decode(body), steps))


def _read_copied(body: bytes, steps: Sequence[int]) -> tuple[SourcePosition, ...]:
    found = _COPIED_PLACES.decode(body)
    return tuple(_with_origins(*each) for each in zip(_with_steps(found, steps), found, strict=True))


READERS: Final = {WHOLE: _read_whole, PARTIAL: _read_partial, COPIED: _read_copied}
"""The readers of the bytes and the steps, for each version of the text. Raises `msgspec.DecodeError` or `Usage`."""


def _with_steps(places: Sequence[_PartialPlace], steps: Sequence[int]) -> Iterator[SourcePosition]:
    """If the steps do not match the positions, the token has another text than the text that was read."""
    left = list(steps)
    for packed in places:
        mine, left = left[: len(packed.inside)], left[len(packed.inside) :]
        if len(mine) < len(packed.inside):
            raise msgspec.DecodeError("a number is missing")
        yield _unpacked_partial(packed, mine)


def _with_origins(place: SourcePosition, packed: _CopiedPlace) -> SourcePosition:
    """A source's position with its origins."""
    origins = tuple(
        Origin(one.source, place.position if one.position is None else _unpacked_position(one.position), one.lineage)
        for one in packed.origins
    )
    # In another order, or with an origin twice, they would have another text.
    return replace(place, origins=origins).union(replace(place, origins=()))


@lru_cache(1 << 10)
def _uuid_bytes(text: str) -> bytes:
    """The bytes of a UUID; cached, because the transactions of a stream are of few servers."""
    return UUID(text).bytes


def _packed_position(found: Position) -> _File | _Gtids:
    match found:
        case FilePosition():
            return _File(_uuid_bytes(found.server_uuid), found.at.file, found.at.offset)
        case GtidSet():
            return _Gtids([_packed_server(sid, spans) for sid, spans in found.items()])
        case _:
            raise TypeError(f"tokens have no form for {type(found).__name__}")


def _packed_server(sid: Sid, spans: Sequence[Span]) -> _OfServer:
    return _OfServer(_uuid_bytes(sid.uuid), sid.tag, [bound for span in spans for bound in span])


def _packed_origins(place: SourcePosition) -> list[_Origin]:
    return [
        _Origin(one.source, one.lineage, None if one.position == place.position else _packed_position(one.position))
        for one in place.origins
    ]


def _packed_parts(place: SourcePosition) -> list[_Gtid | Literal[0]]:
    return [_packed_transaction(part.transaction) for part in place.parts]


def _packed_transaction(found: Gtid | BinlogPosition) -> _Gtid | Literal[0]:
    """Packs a transaction; in a file, it begins at the position."""
    if isinstance(found, BinlogPosition):
        return 0
    return _Gtid(_uuid_bytes(found.sid.uuid), found.sid.tag, found.gno)


def _unpacked_partial(packed: _PartialPlace, steps: list[int]) -> SourcePosition:
    place = _unpacked(packed)
    parts = (
        PartialTransaction(_unpacked_transaction(one, place.position), count)
        for one, count in zip(packed.inside, steps, strict=True)
    )
    return replace(place, parts=tuple(parts))


def _unpacked_transaction(packed: _Gtid | Literal[0], position: Position) -> Gtid | BinlogPosition:
    if isinstance(position, FilePosition) and packed == 0:
        return position.at
    if isinstance(position, FilePosition) or packed == 0:
        raise msgspec.DecodeError("a transaction of another kind than the position")
    return Gtid(Sid(str(UUID(bytes=packed.uuid)), packed.tag), packed.gno)


def _unpacked(place: _Place) -> SourcePosition:
    return SourcePosition(place.source, _unpacked_position(place.position), place.lineage, place.committed_at)


def _unpacked_position(found: _Gtids | _File) -> Position:
    if isinstance(found, _File):
        return FilePosition(str(UUID(bytes=found.uuid)), BinlogPosition.of(found.file, found.offset))
    if any(one.bounds != sorted(one.bounds) for one in found.servers):
        raise msgspec.DecodeError("a span runs backwards")
    return GtidSet.of(
        {
            Sid(str(UUID(bytes=one.uuid)), one.tag): list(zip(one.bounds[::2], one.bounds[1::2], strict=False))
            for one in found.servers
        }
    )
