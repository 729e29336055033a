"""Tokens in two parts: their form, which consecutive tokens of a stream have in common, and their numbers.
Not here: the text of both parts (`token_seal.py`, `token_text.py`), what tokens mean (`token.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.commit_ts import MOST_TS, CommitStep, CommitTs
from strata_cdc.position.domains import MAX_DOMAIN, DomainRange, DomainSet
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import MAX_GNO, DomainWriter, Gtid, GtidSet, Sid
from strata_cdc.position.source_position import Origin, PartialTransaction, SourcePosition, lineages_of
from strata_cdc.position.token_digits import digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.position.port import Position

UUID_BYTES: Final = 16
_encode: Final = msgspec.msgpack.Encoder().encode

MOST_MICROS: Final = 253_402_300_800_000_000
"""The year 10000, after the end of Python's times."""
MOST_STEPS: Final = 1 << 44
Name = Annotated[str, Meta(min_length=1)]
Tag = Annotated[str, Meta(pattern=r"\A([a-z_][a-z0-9_]{0,31})?\Z")]
_Count = Annotated[int, Meta(ge=1)]
_Unsigned = Annotated[int, Meta(ge=0)]


class _TaggedServer(Struct, array_like=True, forbid_unknown_fields=True):
    # Not a tuple: msgspec 0.22 crashes in Python's search for cycles, if a union has one.
    tag: Tag
    spans: _Count


_Servers = list[_Count | _TaggedServer]
"""For each server of a GTID set how many spans it has; with the tag, if there is one."""
_Half = Annotated[int, Meta(ge=0, le=MAX_DOMAIN)]
_Domains = dict[_Half, _Half]
"""The domains of a position of MariaDB, in order, each with the server that wrote its newest transaction."""
_AfterDdl = Annotated[int, Meta(ge=0, le=1)]
"""Of a position at a commit timestamp: whether the DDL with this timestamp is included."""


_PackedPosition = _Servers | _Domains | str | int
"""A position, as it is written."""


class PackedPart(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """A transaction that was received in part; in files it begins at the position, and the last three fields are 0. In
    domains the last three are its domain, its server and its number. At commit timestamps they are 1 for a DDL, 0, and
    how much later its timestamp is."""

    source_position: _Unsigned
    """Which of the token's sources it is of."""
    server: _Unsigned | Tag = 0
    """Which server of the position it is of; or the tag of another server."""
    spans: _Unsigned = 0
    """How many of the server's spans are before it."""
    distance: Annotated[int, Meta(ge=0, le=MAX_GNO)] = 0
    """Its number, counted from the last number of these spans: 1 for the next transaction."""


class _PackedOrigin(Struct, array_like=True, forbid_unknown_fields=True):
    source: Name
    lineage: str
    position: _Servers | _Domains | Name | _AfterDdl | None
    """None: the position of the source itself."""


class _StoredPosition(Struct, array_like=True, forbid_unknown_fields=True):
    """What differs between the sources of a group comes last, so that the beginning needs to be written once."""

    position: _Servers | _Domains | Name | _AfterDdl
    """The servers of a GTID set, the domains of MariaDB, the name of a file, or what a commit timestamp includes."""
    origins: list[_PackedOrigin]
    lineage: str
    source: Name


_FORM: Final = msgspec.msgpack.Decoder(_StoredPosition)


class PackedSourcePosition(NamedTuple):
    """A source's position as it is packed into tokens; each token of a group has the positions of all of its
    sources."""

    form: bytes
    uuids: tuple[str, ...]
    """Of the servers, in the order in which the form names them."""
    numbers: tuple[int, ...]
    """The bounds of all spans, the newest number of each domain, the offset in the file, or the commit timestamp and
    its ordinal; the same of the origins; then the commit time."""
    text: str
    """The numbers as digits."""
    parts: tuple[tuple[PackedPart, str], ...]
    """The transactions that were received in part, as of the first source of a token; with the UUID of a server that
    the position does not have, or an empty text."""
    steps: tuple[int, ...]
    """How many steps of each part were received."""


def packed_source_position(source_position: SourcePosition) -> PackedSourcePosition:
    """Packs the position of a source."""
    # Each token pays for this: `list[str]()` takes four times as long as `[]`, and mostly there are no parts.
    uuids: list[str] = []
    numbers: list[int] = []
    position = _packed_position(source_position.position, uuids, numbers)
    origins = [_packed_origin(origin, source_position, uuids, numbers) for origin in source_position.origins]
    form = _encode(_StoredPosition(position, origins, source_position.lineage, source_position.source))
    numbers.append(source_position.committed_at)
    text = "".join(map(digits, numbers))
    if not source_position.parts:
        return PackedSourcePosition(form, tuple(uuids), tuple(numbers), text, (), ())
    parts = tuple(_packed_part(part.transaction, source_position.position) for part in source_position.parts)
    return PackedSourcePosition(
        form, tuple(uuids), tuple(numbers), text, parts, tuple(part.steps for part in source_position.parts)
    )


def growing(source_position: SourcePosition, gtid: Gtid) -> tuple[int, int] | None:
    """Which number of a packed position grows with the consecutive transactions of one server. Besides it, only the
    last number changes, the commit time; the form stays the same, inside each of the transactions, too.

    Args:
        source_position: The position before the first of these transactions, between two transactions.
        gtid: The first of them.

    Returns:
        The index of the number, and the transaction's number before which this is so. None if no span grows.
    """
    position = source_position.position
    if not isinstance(position, GtidSet) or any(origin.position != position for origin in source_position.origins):
        return None
    index = 0
    for sid, spans in position.items():
        grows = next((at for at, span in enumerate(spans) if sid == gtid.sid and span[1] == gtid.gno - 1), None)
        if grows is not None:
            return index + 2 * grows + 1, spans[grows + 1][0] - 1 if grows + 1 < len(spans) else MAX_GNO
        index += 2 * len(spans)
    return None


def _packed_position(position: Position, uuids: list[str], numbers: list[int]) -> _PackedPosition:
    match position:
        case GtidSet():
            servers: _Servers = []
            for sid, spans in position.items():
                uuids.append(sid.uuid)
                for span in spans:
                    numbers += span
                servers.append(_TaggedServer(sid.tag, len(spans)) if sid.tag else len(spans))
            return servers
        case FilePosition():
            uuids.append(position.server_uuid)
            numbers.append(position.at.offset)
            return position.at.file
        case DomainSet():
            numbers += [known.last for known in position.ranges]
            return {known.domain: known.server for known in position.ranges}
        case CommitTs():
            numbers += [position.at.ts, position.seq]
            return int(position.at.is_ddl)
        case _:
            raise TypeError(f"tokens have no form for {type(position).__name__}")


def _packed_origin(
    origin: Origin, source_position: SourcePosition, uuids: list[str], numbers: list[int]
) -> _PackedOrigin:
    is_same = origin.position == source_position.position
    position = None if is_same else _packed_position(origin.position, uuids, numbers)
    return _PackedOrigin(origin.source, origin.lineage, position)


def _packed_part(transaction: Gtid | BinlogPosition | CommitStep, position: Position) -> tuple[PackedPart, str]:
    if isinstance(transaction, BinlogPosition):
        return PackedPart(0), ""
    if isinstance(transaction, CommitStep):
        later = transaction.ts - position.at.ts if isinstance(position, CommitTs) else transaction.ts
        return PackedPart(0, int(transaction.is_ddl), 0, later), ""
    if isinstance(transaction.sid, DomainWriter):
        return PackedPart(0, transaction.sid.domain, transaction.sid.server, transaction.gno), ""
    if not isinstance(position, GtidSet):
        return PackedPart(0), ""
    for number, (sid, spans) in enumerate(position.items()):
        if sid == transaction.sid:
            ends = [last for _, last in spans if last < transaction.gno]
            return PackedPart(0, number, len(ends), transaction.gno - max(ends, default=0)), ""
    return PackedPart(0, transaction.sid.tag, 0, transaction.gno), transaction.sid.uuid


# Reading ----------------------------------------------------------------------------------------


@lru_cache(1 << 10)
def uuid_bytes(text: str) -> bytes:
    """Returns the bytes of a UUID; cached, because the transactions of a stream are of few servers."""
    return UUID(text).bytes


def unpacked(
    forms: Sequence[bytes], parts: Sequence[PackedPart], uuids: Iterator[str], numbers: Iterator[int]
) -> tuple[SourcePosition, ...]:
    """Returns the positions of the sources of a token. What they do not use of the UUIDs and the numbers is left.

    Raises:
        msgspec.DecodeError: They are none that `packed_source_position` returns.
        Usage: Likewise, of the name of a file.
    """
    reader = _TokenReader(uuids, numbers)
    positions = [reader.source_position(_FORM.decode(form)) for form in forms]
    for part in parts:
        if part.source_position >= len(positions):
            raise msgspec.DecodeError("a transaction of a source that the token does not have")
        source_position = positions[part.source_position]
        positions[part.source_position] = replace(
            source_position, parts=(*source_position.parts, reader.part(part, source_position.position))
        )
    return tuple(positions)


class _TokenReader:
    """Takes UUIDs and numbers in the order in which they were packed."""

    def __init__(self, uuids: Iterator[str], numbers: Iterator[int]) -> None:
        self._uuids, self._numbers = uuids, numbers

    def source_position(self, packed: _StoredPosition) -> SourcePosition:
        """The position of a source, without parts."""
        position = self._position(packed.position)
        origins = [
            Origin(
                origin.source, position if origin.position is None else self._position(origin.position), origin.lineage
            )
            for origin in packed.origins
        ]
        committed_at = self._number(MOST_MICROS - 1)
        return with_origins(SourcePosition(packed.source, position, packed.lineage, committed_at), origins)

    def part(self, packed: PackedPart, position: Position) -> PartialTransaction:
        """A transaction that was received in part."""
        return PartialTransaction(self._transaction(packed, position), self._number(MOST_STEPS))

    def _uuid(self) -> str:
        uuid = next(self._uuids, None)
        if uuid is None:
            raise msgspec.DecodeError("a UUID is missing")
        return uuid

    def _number(self, most: int) -> int:
        number = next(self._numbers, None)
        if number is None:
            raise msgspec.DecodeError("a number is missing")
        if number > most:
            raise msgspec.DecodeError(f"{number} is more than {most}")
        return number

    def _position(self, packed: _PackedPosition) -> Position:
        if isinstance(packed, int):
            return CommitTs(CommitStep(self._number(MOST_TS), bool(packed)), self._number(MAX_GNO))
        if isinstance(packed, str):
            return file_position(self._uuid(), packed, self._number(MAX_GNO))
        if isinstance(packed, dict):
            return domain_set(packed, [self._number(MAX_GNO) for _ in packed])
        servers: list[tuple[Sid, list[int]]] = []
        for server in packed:
            tag, count = (server.tag, server.spans) if isinstance(server, _TaggedServer) else ("", server)
            bounds = [self._number(MAX_GNO) for _ in range(2 * count)]
            servers.append((Sid(self._uuid(), tag), bounds))
        return gtid_set(servers)

    def _transaction(self, packed: PackedPart, position: Position) -> Gtid | BinlogPosition | CommitStep:
        if isinstance(position, FilePosition):
            return position.at
        if isinstance(position, CommitTs):
            return _step_after(position, packed)
        # Before the first transaction of a MariaDB server, former versions wrote the empty GTID set of MySQL.
        is_domains = isinstance(position, DomainSet) or position == GtidSet()
        if packed.distance and is_domains and not isinstance(packed.server, str):
            return Gtid(DomainWriter(packed.server, packed.spans), packed.distance)
        if packed.distance == 0 or not isinstance(position, GtidSet):
            raise msgspec.DecodeError("a transaction of another kind than the position")
        if isinstance(packed.server, str):
            return Gtid(Sid(self._uuid(), packed.server), packed.distance)
        servers = list(position.items())
        if packed.server >= len(servers) or packed.spans > len(servers[packed.server][1]):
            raise msgspec.DecodeError("a transaction of a server that the position does not have")
        sid, spans = servers[packed.server]
        return Gtid(sid, packed.distance + (spans[packed.spans - 1][1] if packed.spans else 0))


def _step_after(position: CommitTs, packed: PackedPart) -> CommitStep:
    step = CommitStep(position.at.ts + packed.distance, packed.server == 1)
    if packed.server not in (0, 1) or packed.spans or step <= position.at:
        raise msgspec.DecodeError("a transaction that the position has")
    return step


def file_position(uuid: str, file: str, offset: int) -> FilePosition:
    """Returns a position in files. Raises `msgspec.DecodeError` or `Usage` if the name is not that of a file."""
    at = BinlogPosition.from_offset(file, offset)
    if at.file != file:
        raise msgspec.DecodeError("the name of a file has a folder")
    return FilePosition(uuid, at)


def gtid_set(servers: Sequence[tuple[Sid, Sequence[int]]]) -> GtidSet:
    """Returns a GTID set from the bounds of the spans of each server. Raises `msgspec.DecodeError` if they are not in
    order: then the set would have another text."""
    spans = {}
    for sid, bounds in servers:
        if len(bounds) % 2 or not all(bounds) or list(bounds) != sorted(bounds):
            raise msgspec.DecodeError("a span has no end, or runs backwards")
        spans[sid] = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    gtids = GtidSet.from_spans(spans)
    if list(gtids.items()) != list(spans.items()) or len(spans) < len(servers):
        raise msgspec.DecodeError("a GTID set is not in order")
    return gtids


def domain_set(writers: dict[int, int], numbers: Sequence[int]) -> DomainSet:
    """Returns a position of MariaDB from the newest number of each domain. Raises `msgspec.DecodeError` if the domains
    are not in order."""
    if list(writers) != sorted(writers) or not all(numbers):
        raise msgspec.DecodeError("the domains of a position are not in order")
    pairs = zip(writers.items(), numbers, strict=True)
    return DomainSet(tuple(DomainRange(domain, 1, number, server) for (domain, server), number in pairs))


def with_origins(source_position: SourcePosition, origins: Sequence[Origin]) -> SourcePosition:
    """Returns a position with its origins. Raises `msgspec.DecodeError` if they are not in order."""
    if tuple(origins) != lineages_of(origins):
        raise msgspec.DecodeError("what was copied is not in order")
    return replace(source_position, origins=tuple(origins))
