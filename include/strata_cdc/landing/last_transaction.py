"""The last transaction that was taken from a server, and whether a server still has it: numbers are used again after
RESET BINARY LOGS AND GTIDS, or where a backup was restored, so that a GTID set proves nothing.
Not here: where a stream goes on (`landing/resume_landing.py`, `streams/live_handover.py`)."""

from __future__ import annotations

import zlib
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, HEADER_BYTES, MAGIC, EventType
from strata_cdc.binlog.events.gtid import encode_gtid_set, parse_gtid
from strata_cdc.binlog.protocol.replication import BinlogStream, Control, EventBytes
from strata_cdc.errors import (
    BinlogPurgedError,
    BinlogUnreadableError,
    CorruptEventError,
    SourceDivergedError,
    SourceSettingsError,
)
from strata_cdc.files.storage import lake_errors
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.sets import GtidSetBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import GtidEvent, TransactionRecord
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.replication import ServerState
    from strata_cdc.binlog.sources.port import Transactions
    from strata_cdc.landing.landed import LandedSegment
    from strata_cdc.position.sets import Gtid, GtidSet

_PROOF_BYTES = 1 << 16
"""To compare with the server's: a whole transaction may have gigabytes."""
_LIVE_PROOF_BYTES = 1 << 10
"""Of one that a live server sent, which is kept in memory: its GTID event has time, length and checksum."""
_GTID_EVENTS = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.TAGGED_GTID)
NEW_NAME = (
    "Land it under another source name: what has landed stays as it is, and the new one begins where its binlog does."
)
_OTHER_HISTORY = (
    "Its binlog was reset, or it was restored from a backup, and it has used the numbers again. Point the connection "
    f"at a server that has what was landed. {NEW_NAME}"
)


class LastTransaction(Struct, frozen=True):
    """Where a server had it, and its first bytes."""

    server_uuid: str
    """Empty if it is not known."""
    gtid: Gtid | None
    begin: BinlogPosition
    end: BinlogPosition
    head: bytes
    """Its first bytes, as they were sent."""
    format_event: bytes = b""
    """Of its file; empty if it is not known."""

    @classmethod
    def landed(cls, segment: LandedSegment, record: TransactionRecord | None = None) -> Self:
        """A transaction of a segment, by default its last; where the stream only begins, the place there.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """
        summary = segment.summary
        if record is None and summary.transactions:
            record = segment.index.record(summary.last_seq)
        with lake_errors(segment.url), _opened(segment) as file:
            file.seek(len(MAGIC))
            format_event = _read_event(file)
            if record is None:
                begin = BinlogPosition.of(summary.binlog_file, segment.name.offset)
                return cls(summary.server_uuid, None, begin, begin, b"", format_event)
            file.seek(record.begin)
            head = file.read(min(record.end - record.begin, _PROOF_BYTES))
        begin = BinlogPosition.of(summary.binlog_file, record.binlog_pos)
        end = BinlogPosition.of(summary.binlog_file, record.binlog_pos + record.end - record.begin)
        return cls(summary.server_uuid, record.gtid, begin, end, head, format_event)

    @classmethod
    def live(cls, item: Transactions, server_uuid: str) -> Self:
        """The last one that a live server has sent."""
        record = item.batch.record(len(item.batch) - 1)
        size = min(record.end - record.begin, _LIVE_PROOF_BYTES)
        head = item.bytes().buffer[record.begin : record.begin + size].tobytes()
        begin = BinlogPosition.of(record.binlog_file, record.binlog_pos)
        end = BinlogPosition.of(record.binlog_file, record.binlog_pos + record.end - record.begin)
        return cls(server_uuid, record.gtid, begin, end, head)

    @property
    def begins_with_gtid(self) -> bool:
        """Whether its first event says its GTID."""
        return bool(self.head) and self.head[4] in _GTID_EVENTS

    def difference(self, address: ServerAddress, *, with_gtid: bool) -> str | None:
        """What a server has in the place where this one was; None if it has the same bytes there.

        Args:
            address: The server.
            with_gtid: Whether the GTID event counts, too: a server does not send it in every gtid_mode.

        Raises:
            StrataError: As `BinlogStream.read`.
        """
        skipped = 0 if with_gtid or not self.begins_with_gtid else _length(self.head)
        begin = BinlogPosition.of(self.begin.file, self.begin.offset + skipped)
        wanted, sent, is_open = self.head[skipped:], b"", False
        stream = BinlogStream.open(address)
        try:
            for item in stream.read(begin):
                if isinstance(item, Control):
                    if not self._is_of_file(item.event):
                        return f"{begin.file} was made at another time or by another version"
                    is_open |= item.event[4] == EventType.FORMAT_DESCRIPTION
                elif isinstance(item, EventBytes):
                    sent += bytes(item.data[: len(wanted) - len(sent)])
                if is_open and len(sent) == len(wanted):
                    break
        except (BinlogUnreadableError, CorruptEventError):
            return f"no event begins at {begin}"
        finally:
            stream.close()
        return None if sent == wanted else "another transaction is there"

    def refuse_other_bytes(self, address: ServerAddress) -> None:
        """Whether a server that does not number its transactions has this one in its place.

        Raises:
            SourceDivergedError: It has something else there.
            StrataError: As `BinlogStream.read`.
        """
        difference = self.difference(address, with_gtid=False)
        if difference is not None:
            raise self.diverged(difference)

    def diverged(self, what: str) -> SourceDivergedError:
        """The error where a server's binlog is not the one that this is of."""
        return SourceDivergedError(
            f"the server's binlog is not the one that was landed up to {self.end}: {what}",
            gtid=str(self.gtid) if self.gtid else None,
            file=self.end.file,
            offset=self.end.offset,
            remedy=f"It was reset, or the server was restored or lost the end of its binlog in a crash. {NEW_NAME}",
        )

    def _is_of_file(self, event: bytes) -> bool:
        return (
            not self.format_event
            or event[4] != EventType.FORMAT_DESCRIPTION
            or _lasting(event) == _lasting(self.format_event)
        )


def prove_landed(address: ServerAddress, server: ServerState, executed: GtidSet, segment: LandedSegment) -> str | None:
    """Whether a server has the history that has landed: as `prove_history`, by the last landed segment."""
    return prove_history(
        address, server, executed, LastTransaction.landed(segment), lambda: tuple(_last_of_each(segment))
    )


def prove_history(
    address: ServerAddress,
    server: ServerState,
    executed: GtidSet,
    last: LastTransaction,
    numbered: Callable[[], Sequence[GtidEvent]],
) -> str | None:
    """Whether a server that numbers its transactions has the history of which `executed` was read.

    The server that it was read from has the last transaction in its place, with the same bytes. Another one has written
    it once more, with other places, times of its own and other events; what stays is the time of its first commit
    (`original_commit_timestamp`, since 8.0.1).

    Args:
        address: The server.
        server: What it says of itself.
        executed: What was read so far; it has executed all of that.
        last: The last transaction that was read.
        numbered: GTID events of transactions that were read last, for another server.

    Returns:
        What could not be proved, if the server has nothing left to compare; None if it has proved to have it.

    Raises:
        SourceDivergedError: It has executed other transactions under the same numbers.
        StrataError: As `BinlogStream.read`.
    """
    if not last.head:
        _prove_begin(address, server, last)
        return None
    difference = _difference(address, last) if last.server_uuid == server.uuid else None
    if last.server_uuid == server.uuid and difference is None:
        return None
    mine = {event.gtid: event for event in numbered() if event.gtid and not server.purged.contains(event.gtid)}
    known = {gtid: event for gtid, event in mine.items() if event.original_commit_timestamp}
    theirs = _gtid_events(address, executed, known) if known else {}
    for gtid, found in theirs.items():
        if found.original_commit_timestamp != known[gtid].original_commit_timestamp:
            raise _other_transaction(last, known[gtid], found)
    if theirs:
        return None
    if difference is not None and last.gtid in mine:
        raise last.diverged(difference)
    return (
        f"whether the server has the same transactions as were landed up to {last.gtid} ({last.end}) could not be "
        "compared: it has purged them, or does not say when they were committed; its GTID sets contain them"
    )


def _prove_begin(address: ServerAddress, server: ServerState, last: LastTransaction) -> None:
    """As `prove_history`, where nothing was read yet but the head of a file, which is gone on many a quiet server."""
    if last.server_uuid != server.uuid:
        return
    with closing(BinlogStream.open(address)) as stream:
        if stream.files().size(last.begin.file) is None:
            return
    difference = last.difference(address, with_gtid=True)
    if difference is not None:
        raise last.diverged(difference)


def _difference(address: ServerAddress, last: LastTransaction) -> str | None:
    try:
        return last.difference(address, with_gtid=True)
    except (BinlogPurgedError, SourceSettingsError) as error:
        # Gone, or behind 4 GiB in a file.
        return error.message


def _other_transaction(last: LastTransaction, mine: GtidEvent, theirs: GtidEvent) -> SourceDivergedError:
    return SourceDivergedError(
        "the server has another transaction of this number than the one that was landed: it was committed at "
        f"{_shown(theirs)}, and what was landed at {_shown(mine)}",
        gtid=str(mine.gtid),
        file=last.begin.file,
        offset=last.begin.offset,
        remedy=_OTHER_HISTORY,
    )


def _gtid_events(address: ServerAddress, executed: GtidSet, wanted: dict[Gtid, GtidEvent]) -> dict[Gtid, GtidEvent]:
    """What a server has under some numbers of a set of which it is asked for nothing else; those with a time."""
    several = GtidSetBuilder()
    for gtid in wanted:
        several.add(gtid)
    found: dict[Gtid, GtidEvent] = {}
    with closing(BinlogStream.open(address)) as stream:
        for raw in _events_sent(stream.read(encode_gtid_set(executed - several.build()))):
            event = _parsed(raw)
            if event.gtid in wanted and event.original_commit_timestamp:
                found[event.gtid] = event
            if len(found) == len(wanted):
                break
    return found


def _events_sent(items: Iterator[object]) -> Iterator[bytes]:
    """The GTID events of a stream."""
    kept, skip = b"", 0
    for item in items:
        if isinstance(item, EventBytes):
            data = memoryview(kept + bytes(item.data[skip:]))
            found, kept, skip = _split_events(data, max(skip - len(item.data), 0))
            yield from found


def _split_events(data: memoryview, skip: int) -> tuple[list[bytes], bytes, int]:
    """The GTID events of some bytes, of what is not whole the beginning, and how much of the last event is to come."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        left = len(data) - at
        length = int.from_bytes(data[at + 9 : at + 13], "little") if left >= HEADER_BYTES else left + 1
        if left < length and (left < HEADER_BYTES or data[at + 4] in _GTID_EVENTS):
            return found, bytes(data[at:]), 0
        if data[at + 4] in _GTID_EVENTS:
            found.append(bytes(data[at : at + length]))
        at += length
        skip = max(at - len(data), 0)
    return found, b"", skip


def _last_of_each(segment: LandedSegment) -> Iterator[GtidEvent]:
    """The GTID event of the last transaction that each server has numbered, as far as a segment has them."""
    last: dict[object, TransactionRecord] = {}
    for batch in segment.index.batches():
        last |= {sid: batch.record(row) for sid, row in _last_rows(batch)}
    with lake_errors(segment.url), _opened(segment) as file:
        for record in last.values():
            file.seek(record.begin)
            event, kind = _read_event(file), file.read(HEADER_BYTES)[4]
            # Each member of a group writes one of its own (8.0).
            if kind != EventType.VIEW_CHANGE and event[4] in _GTID_EVENTS:
                yield _parsed(event)


def _last_rows(batch: TransactionBatch) -> Iterator[tuple[object, int]]:
    for number, sid in enumerate(batch.sids):
        rows = (batch.sid_numbers == number).nonzero()[0]
        if len(rows):
            yield sid, int(rows[-1])


def _opened(segment: LandedSegment) -> BinaryIO:
    file: BinaryIO = segment.folder.filesystem.open_input_file(f"{segment.folder.path}/{segment.name}")
    return file


def _read_event(file: BinaryIO) -> bytes:
    header = file.read(HEADER_BYTES)
    return header + file.read(_length(header) - HEADER_BYTES)


def _parsed(event: bytes) -> GtidEvent:
    has_checksum = zlib.crc32(event[:-CHECKSUM_BYTES]) == int.from_bytes(event[-CHECKSUM_BYTES:], "little")
    return parse_gtid(event[HEADER_BYTES : -CHECKSUM_BYTES if has_checksum else None], event[4])


def first_gtid_event(last: LastTransaction) -> tuple[GtidEvent, ...]:
    """That of a transaction, if it has one."""
    return (_parsed(last.head[: _length(last.head)]),) if last.begins_with_gtid else ()


def _length(header: bytes) -> int:
    return int.from_bytes(header[9:13], "little")


def _lasting(format_event: bytes) -> bytes:
    """What a FORMAT_DESCRIPTION says wherever in its file a stream begins: the server blanks out its end, its flags and
    the time of its start, and mends the checksum (sql/rpl_binlog_sender.cc, `send_format_description_event`)."""
    created = HEADER_BYTES + 2 + 50
    return format_event[:13] + format_event[HEADER_BYTES:created] + format_event[created + 4 : -4]


def _shown(event: GtidEvent) -> str:
    return datetime.fromtimestamp(event.original_commit_timestamp / 1e6, UTC).isoformat(sep=" ")
