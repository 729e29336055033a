"""The last transaction that was read from a server, and whether a server still has it: GTIDs are used again after
RESET BINARY LOGS AND GTIDS, or after a backup was restored, so that a GTID set proves nothing.
Not here: where a stream continues (`landing/resume_landing.py`, `streams/live_handover.py`)."""

from __future__ import annotations

import zlib
from contextlib import closing
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, GTID_EVENTS, HEADER_BYTES, MAGIC, EventType
from strata_cdc.binlog.events.domain_gtid import parse_domain_gtid
from strata_cdc.binlog.events.gtid import parse_gtid, stream_request
from strata_cdc.binlog.protocol.engine_file import is_in_engine_file
from strata_cdc.binlog.protocol.replication import BinlogStream, Control, EventBytes, Gaps
from strata_cdc.binlog.sources.live import LiveSource
from strata_cdc.binlog.sources.port import Transactions
from strata_cdc.errors import (
    BinlogPurgedError,
    BinlogUnreadableError,
    CorruptEventError,
    SourceDivergedError,
    SourceSettingsError,
)
from strata_cdc.files.storage import lake_errors
from strata_cdc.flavour import Vendor
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.domains import DomainRange, DomainSet
from strata_cdc.position.executed import ExecutedBuilder
from strata_cdc.position.sets import DomainWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.replication import ServerState
    from strata_cdc.landing.landed import LandedSegment
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Gtid

_PROOF_BYTES = 1 << 16
"""How much to compare with the server's bytes: a whole transaction may have gigabytes."""
_LIVE_PROOF_BYTES = 1 << 10
"""The same for a transaction from a live server, kept in memory: its GTID event has time, length and checksum."""
NEW_NAME = (
    "Land it under another source name: what has landed stays as it is, and the new source begins where its binlog "
    "begins."
)
_OTHER_HISTORY = (
    "Its binlog was reset, or it was restored from a backup, and it has used the GTIDs again. Point the connection "
    f"at a server that has what was landed. {NEW_NAME}"
)


class NumberedCommit(Struct, frozen=True):
    """What a GTID event says of its transaction, on whichever server."""

    gtid: Gtid | None
    committed_at: int
    """When it was first committed, microseconds since 1970 UTC; 0 if the event does not say it (before MySQL 8.0.1).
    MariaDB says the second."""

    @classmethod
    def from_event(cls, event: bytes) -> Self:
        """Reads a GTID event, with or without a checksum."""
        has_checksum = zlib.crc32(event[:-CHECKSUM_BYTES]) == int.from_bytes(event[-CHECKSUM_BYTES:], "little")
        body = event[HEADER_BYTES : -CHECKSUM_BYTES if has_checksum else None]
        if event[4] == EventType.DOMAIN_GTID:
            seconds, server_id = int.from_bytes(event[:4], "little"), int.from_bytes(event[5:9], "little")
            return cls(parse_domain_gtid(body, server_id).gtid, seconds * 1_000_000)
        parsed = parse_gtid(body, event[4])
        return cls(parsed.gtid, parsed.original_commit_timestamp)


class LastTransaction(Struct, frozen=True):
    """The position of the last transaction on its server, and its first bytes."""

    server_uuid: str
    """Empty if it is not known."""
    gtid: Gtid | None
    begin: BinlogPosition
    end: BinlogPosition
    head: bytes
    """Its first bytes, as the server sent them."""
    format_event: bytes = b""
    """The FORMAT_DESCRIPTION of its file; empty if it is not known."""

    @classmethod
    def landed(cls, segment: LandedSegment, record: TransactionRecord | None = None) -> Self:
        """A transaction of a segment, by default its last; for a segment without transactions, its position."""
        summary = segment.summary
        if record is None and summary.transactions:
            record = segment.index.record(summary.last_seq)
        with lake_errors(segment.url), _opened(segment) as file:
            file.seek(len(MAGIC))
            format_event = _read_event(file)
            if record is None:
                begin = BinlogPosition.from_offset(summary.binlog_file, segment.name.offset)
                return cls(summary.server_uuid, None, begin, begin, b"", format_event)
            file.seek(record.begin)
            head = file.read(min(record.end - record.begin, _PROOF_BYTES))
        begin = BinlogPosition.from_offset(summary.binlog_file, record.binlog_pos)
        end = BinlogPosition.from_offset(summary.binlog_file, record.server_end)
        return cls(summary.server_uuid, record.gtid, begin, end, head, format_event)

    @classmethod
    def live(cls, item: Transactions, server_uuid: str) -> Self:
        """The last transaction that a live server has sent."""
        record = item.batch.record(len(item.batch) - 1)
        size = min(record.end - record.begin, _LIVE_PROOF_BYTES)
        head = item.bytes().buffer[record.begin : record.begin + size].tobytes()
        begin = BinlogPosition.from_offset(record.binlog_file, record.binlog_pos)
        end = BinlogPosition.from_offset(record.binlog_file, record.server_end)
        return cls(server_uuid, record.gtid, begin, end, head)

    def is_of(self, server: ServerState) -> bool:
        """Whether it was read from this server, as far as servers name themselves."""
        wrote = self.format_event[5:9]
        return self.server_uuid == server.uuid and (
            not wrote or not server.server_id or int.from_bytes(wrote, "little") == server.server_id
        )

    @property
    def begins_with_gtid(self) -> bool:
        """Whether its first event has its GTID."""
        return bool(self.head) and self.head[4] in GTID_EVENTS

    def difference(self, address: ServerAddress, *, with_gtid: bool) -> str | None:
        """What a server has at the position of this transaction; None if it has the same bytes there.

        Args:
            address: The server.
            with_gtid: Whether the GTID event is compared too: a server does not send it in every gtid_mode.

        Raises:
            StrataError: As `BinlogStream.read_events`.
        """
        skipped = 0 if with_gtid or not self.begins_with_gtid else _length(self.head)
        begin = BinlogPosition.from_offset(self.begin.file, self.begin.offset + skipped)
        wanted, sent, is_open = self.head[skipped:], b"", False
        stream = BinlogStream.open(address)
        try:
            for item in stream.read_events(begin):
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
        """Checks that a server without GTIDs has this transaction at its position.

        Raises:
            SourceDivergedError: The server has something else there.
            StrataError: As `BinlogStream.read_events`.
        """
        difference = self.difference(address, with_gtid=False)
        if difference is not None:
            raise self.diverged(difference)

    def diverged(self, difference: str) -> SourceDivergedError:
        """The error if a server's binlog is not the binlog of this transaction."""
        return SourceDivergedError(
            f"the server's binlog is not the binlog that was landed up to {self.end}: {difference}",
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


def prove_landed(address: ServerAddress, server: ServerState, executed: Executed, segment: LandedSegment) -> str | None:
    """Whether a server has the landed history: as `prove_history`, by the last landed segment."""
    return prove_history(
        address, server, executed, LastTransaction.landed(segment), lambda: tuple(_last_of_each(segment))
    )


def prove_history(
    address: ServerAddress,
    server: ServerState,
    executed: Executed,
    last: LastTransaction,
    numbered: Callable[[], Sequence[NumberedCommit]],
) -> str | None:
    """Whether a server with GTIDs has the history of which `executed` was read.

    The server that it was read from has the last transaction at its position, with the same bytes; if its binlog is in
    its storage engine, under the same GTID. Another server has written the transaction again, at other positions, with
    its own times and other events; what stays the same is the time of the first commit (`original_commit_timestamp`,
    since 8.0.1; on MariaDB the second in the header). Of a second, equal times prove little: a MariaDB server with
    other bytes at the position has another history.

    Args:
        address: The server.
        server: The server's state.
        executed: GTID set of what was read so far; the server has executed all of it.
        last: The last transaction that was read.
        numbered: The transactions that were read last, to compare with another server.

    Returns:
        What could not be proved, if the server has nothing to compare any more; None if the history is proved.

    Raises:
        SourceDivergedError: It has executed other transactions with the same GTIDs.
        StrataError: As `BinlogStream.read_events`.
    """
    if not last.head:
        _prove_begin(address, server, last)
        return None
    is_same = last.is_of(server) and is_in_engine_file(last.begin) == bool(server.binlog_engine)
    difference = _difference(address, server, executed, last) if is_same else None
    if is_same and difference is None:
        return None
    if difference is not None and server.vendor is Vendor.MARIADB and not difference.is_unreadable:
        raise last.diverged(difference.text)
    mine = {commit.gtid: commit for commit in numbered() if commit.gtid and not server.purged.contains(commit.gtid)}
    if _has_equal_times(address, server, executed, last, mine):
        return None
    if difference is not None and last.gtid in mine and not server.binlog_engine:
        raise last.diverged(difference.text)
    return (
        f"whether the server has the same transactions as were landed up to {last.gtid} ({last.end}) could not be "
        "compared: it has purged them, or has no commit times for them; its GTID sets contain them"
    )


def _has_equal_times(
    address: ServerAddress,
    server: ServerState,
    executed: Executed,
    last: LastTransaction,
    mine: dict[Gtid, NumberedCommit],
) -> bool:
    """Whether the server has some of these commits, all of them with their times.

    Raises:
        SourceDivergedError: It has one at another time.
    """
    known = {gtid: commit for gtid, commit in mine.items() if commit.committed_at}
    theirs = _commits_there(address, server, executed, known) if known else {}
    for gtid, there in theirs.items():
        if there.committed_at != known[gtid].committed_at:
            raise _other_transaction(last, known[gtid], there)
    return bool(theirs)


def _prove_begin(address: ServerAddress, server: ServerState, last: LastTransaction) -> None:
    """As `prove_history`, if only the head of a file was read so far; many idle servers have purged that file by
    then."""
    if not last.is_of(server) or server.binlog_engine or is_in_engine_file(last.begin):
        return
    with closing(BinlogStream.open(address)) as stream:
        if stream.files().size(last.begin.file) is None:
            return
    difference = last.difference(address, with_gtid=True)
    if difference is not None:
        raise last.diverged(difference)


class _CommitDifference(Struct, frozen=True):
    """What a server has instead of some bytes."""

    text: str
    is_unreadable: bool = False
    """Whether it cannot show what it has: purged, or after the first 4 GiB of a file."""


def _difference(
    address: ServerAddress, server: ServerState, executed: Executed, last: LastTransaction
) -> _CommitDifference | None:
    if server.binlog_engine:
        return _difference_by_gtid(address, server, executed, last)
    try:
        text = last.difference(address, with_gtid=True)
    except (BinlogPurgedError, SourceSettingsError) as error:
        return _CommitDifference(error.message, is_unreadable=True)
    if text is None:
        return None
    with closing(BinlogStream.open(address)) as stream:
        # MariaDB does not say that it has purged a file; after RESET MASTER, its first file has the number 1 again.
        is_purged = last.begin.file_number < stream.files().begin.file_number
    return _CommitDifference(text, is_unreadable=is_purged)


def _difference_by_gtid(
    address: ServerAddress, server: ServerState, executed: Executed, last: LastTransaction
) -> _CommitDifference | None:
    """As `_difference`, for a server without positions: the bytes of the transaction with the same GTID, apart from the
    end positions, which each connection counts anew."""
    before = _position_before(executed, [last.gtid] if last.gtid else [])
    try:
        with closing(BinlogStream.open(address)) as stream:
            items = stream.read_events(stream_request(before, server.vendor), gaps=Gaps.ALLOWED)
            sent = _first_bytes(LiveSource(items, before, server.uuid), last)
    except BinlogPurgedError as error:
        return _CommitDifference(error.message, is_unreadable=True)
    if sent is None:
        return _CommitDifference("it does not have this transaction")
    is_equal = _without_positions(sent) == _without_positions(last.head)
    return None if is_equal else _CommitDifference("another transaction has its GTID")


def _first_bytes(source: LiveSource, last: LastTransaction) -> bytes | None:
    """As many bytes as are known of a transaction, of the transaction with its GTID; None if there is none."""
    for item in source.read_items():
        if isinstance(item, Transactions):
            for record in item.records():
                if record.gtid == last.gtid:
                    return item.bytes().buffer[record.begin : record.begin + len(last.head)].tobytes()
    return None


def _without_positions(events: bytes) -> bytes:
    """Events, of which the last may be cut off, with 0 as their end positions."""
    plain, at = bytearray(events), 0
    while at + HEADER_BYTES <= len(plain):
        plain[at + 13 : at + 17] = bytes(4)
        at += max(_length(plain[at : at + HEADER_BYTES]), HEADER_BYTES)
    return bytes(plain[: max(0, min(at, len(plain)))])


def _other_transaction(last: LastTransaction, mine: NumberedCommit, theirs: NumberedCommit) -> SourceDivergedError:
    return SourceDivergedError(
        "the server has another transaction with this GTID than the landed one: it was committed at "
        f"{_shown(theirs)}, and the landed one at {_shown(mine)}",
        gtid=str(mine.gtid),
        file=last.begin.file,
        offset=last.begin.offset,
        remedy=_OTHER_HISTORY,
    )


def _commits_there(
    address: ServerAddress, server: ServerState, executed: Executed, wanted: dict[Gtid, NumberedCommit]
) -> dict[Gtid, NumberedCommit]:
    """A server's commits for some GTIDs of a position; nothing else is requested. Only those with a time."""
    commits: dict[Gtid, NumberedCommit] = {}
    request = stream_request(_position_before(executed, wanted), server.vendor)
    try:
        with closing(BinlogStream.open(address)) as stream:
            for raw in _events_sent(stream.read_events(request, gaps=Gaps.ALLOWED)):
                commit = NumberedCommit.from_event(raw)
                if commit.gtid in wanted and commit.committed_at:
                    commits[commit.gtid] = commit
                if len(commits) == len(wanted):
                    break
    except BinlogPurgedError:
        # Such a server does not say before what it has purged.
        if not server.binlog_engine:
            raise
    return commits


def _position_before(executed: Executed, wanted: Iterable[Gtid]) -> Executed:
    """A position after which a server sends these transactions.

    MariaDB sends a domain from a number that it does not have, if it is below one of the same writer
    (sql/sql_repl.cc, `send_event_to_slave`, where `slave_gtid_strict_mode` is 0).
    """
    if isinstance(executed, DomainSet):
        ranges = {known.domain: known for known in executed.ranges}
        for gtid in wanted:
            if isinstance(gtid.sid, DomainWriter):
                ranges[gtid.sid.domain] = DomainRange(gtid.sid.domain, 1, gtid.gno - 1, gtid.sid.server)
        return DomainSet(tuple(ranges[domain] for domain in sorted(ranges) if ranges[domain].last))
    several = ExecutedBuilder()
    for gtid in wanted:
        several.add(gtid)
    return executed - several.build()


def _events_sent(items: Iterator[object]) -> Iterator[bytes]:
    """The GTID events of a stream."""
    kept, skip = b"", 0
    for item in items:
        if isinstance(item, EventBytes):
            data = memoryview(kept + bytes(item.data[skip:]))
            events, kept, skip = _split_events(data, max(skip - len(item.data), 0))
            yield from events


def _split_events(data: memoryview, skip: int) -> tuple[list[bytes], bytes, int]:
    """The GTID events of some bytes; the bytes of an incomplete event; and how many bytes to skip next."""
    events: list[bytes] = []
    at = 0
    while at < len(data):
        rest = len(data) - at
        length = int.from_bytes(data[at + 9 : at + 13], "little") if rest >= HEADER_BYTES else rest + 1
        if rest < length and (rest < HEADER_BYTES or data[at + 4] in GTID_EVENTS):
            return events, bytes(data[at:]), 0
        if data[at + 4] in GTID_EVENTS:
            events.append(bytes(data[at : at + length]))
        at += length
        skip = max(at - len(data), 0)
    return events, b"", skip


def _last_of_each(segment: LandedSegment) -> Iterator[NumberedCommit]:
    """The last transaction of each server that assigned GTIDs, or of each domain, as far as a segment has them."""
    last: dict[object, TransactionRecord] = {}
    for batch in segment.index.batches():
        last |= {sid: batch.record(row) for sid, row in _last_rows(batch)}
    with lake_errors(segment.url), _opened(segment) as file:
        for record in last.values():
            file.seek(record.begin)
            event, kind = _read_event(file), file.read(HEADER_BYTES)[4]
            # Each member of a group writes its own (8.0).
            if kind != EventType.VIEW_CHANGE and event[4] in GTID_EVENTS:
                yield NumberedCommit.from_event(event)


def _last_rows(batch: TransactionBatch) -> Iterator[tuple[object, int]]:
    rows = {sid: (batch.sid_numbers == number).nonzero()[0] for number, sid in enumerate(batch.sids)}
    # By row, so that the newest of a domain's writers comes last.
    newest = ((sid, int(ordinals[-1])) for sid, ordinals in rows.items() if len(ordinals))
    for sid, last in sorted(newest, key=itemgetter(1)):
        yield (sid.domain if isinstance(sid, DomainWriter) else sid), last


def _opened(segment: LandedSegment) -> BinaryIO:
    file: BinaryIO = segment.folder.filesystem.open_input_file(f"{segment.folder.path}/{segment.name}")
    return file


def _read_event(file: BinaryIO) -> bytes:
    header = file.read(HEADER_BYTES)
    return header + file.read(_length(header) - HEADER_BYTES)


def first_commit(last: LastTransaction) -> tuple[NumberedCommit, ...]:
    """The commit of a transaction, if it begins with a GTID event."""
    return (NumberedCommit.from_event(last.head[: _length(last.head)]),) if last.begins_with_gtid else ()


def _length(header: bytes | bytearray) -> int:
    return int.from_bytes(header[9:13], "little")


def _lasting(format_event: bytes) -> bytes:
    """The part of a FORMAT_DESCRIPTION that is the same wherever in its file a stream begins: the server blanks out its
    end, its flags and the time of its start, and corrects the checksum if the other events have one
    (sql/rpl_binlog_sender.cc, `send_format_description_event`)."""
    created = HEADER_BYTES + 2 + 50
    return format_event[:13] + format_event[HEADER_BYTES:created] + format_event[created + 4 : -4]


def _shown(commit: NumberedCommit) -> str:
    return datetime.fromtimestamp(commit.committed_at / 1e6, UTC).isoformat(sep=" ")
