"""Records a segment as it arrives: bytes to a file, transactions to its index, both published together.
Not here: where the bytes come from (`binlog/protocol/replication.py`), when a segment ends
(`landing/land_binlog.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import HEADER_BYTES, MAGIC, EventFlag, EventType
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.bytes.segment import SegmentFile, SegmentName, make_event, publish_file, storage_errors
from strata_cdc.binlog.events.domain_gtid import encode_gtid_list, parse_gtid_list
from strata_cdc.binlog.events.gtid import encode_gtid_set, parse_previous_gtids
from strata_cdc.binlog.events.index import SUFFIX, IndexWriter, Resume, SegmentSummary
from strata_cdc.binlog.events.places import arriving_chain, gapless_chain
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.binlog.events.xa import PreparedTransaction, UndecidedTransactions
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.errors import (
    CorruptEventError,
    LakeUnavailableError,
    SourceDivergedError,
    SourceSettingsError,
    StrataError,
)
from strata_cdc.files.storage import TEMPORARY_SUFFIX, Folder
from strata_cdc.flavour import Vendor
from strata_cdc.landing.recent import note_segment
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.clock import CommitClock
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import NOTHING, ExecutedBuilder, parse_executed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.bytes.frames import EventIndex
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.position.port import Executed


class StreamEnd(Struct, frozen=True):
    """The present end of a source's stream, where its next segment begins."""

    ordinal: int = 0
    """Of the last segment; 0 if there is none."""
    seq: int = 0
    """Ordinal of the last transaction."""
    clock: int = 0
    """The commit clock, microseconds UTC."""
    executed: Executed = NOTHING
    resume: Resume = Resume.GTID
    prepared: tuple[PreparedTransaction, ...] | None = ()
    """XA transactions that are neither committed nor rolled back; None if that is not known yet."""

    @classmethod
    def from_summary(cls, summary: SegmentSummary, ordinal: int) -> StreamEnd:
        """The end after a segment."""
        executed = parse_executed(summary.executed)
        resume = Resume(summary.resume)
        return cls(ordinal, summary.last_seq, summary.clock_after, executed, resume, summary.prepared)


class Sender(Struct, frozen=True):
    """Where a part of the stream comes from."""

    server_uuid: str = ""
    """Empty for files, which do not name their server."""
    numbered_from: int | None = 0
    """Number of the file from whose beginning every transaction has a GTID; None if no such file is known."""
    url: str = ""
    """Of the file that is landed; empty for a server's stream."""
    is_gapless: bool = False
    """Whether all of the file comes from the first event on, so that a missing event is damage."""

    def resume(self, binlog_file: str) -> Resume:
        """How a landing continues after a part of a file."""
        if self.numbered_from is None:
            return Resume.FILE
        is_numbered = (
            not self.numbered_from or BinlogPosition.from_offset(binlog_file, 0).file_number >= self.numbered_from
        )
        return Resume.GTID if is_numbered else Resume.FILE

    def chain(self, form: FormatDescription, offset: int) -> EventChain:
        """Where its events must lie, from byte `offset` of the server's file on."""
        return (gapless_chain if self.is_gapless else arriving_chain)(form, offset)


class FileHead(Struct, frozen=True):
    """The first events of a server's file, as they were sent."""

    binlog_file: str
    form: FormatDescription
    format_event: bytes
    previous_event: bytes = b""

    def before(self, offset: int, executed: Executed) -> bytes:
        """The first bytes of a segment whose events begin at byte `offset` of the server's file.

        A segment from the very start of the file keeps the server's own PREVIOUS_GTIDS or GTID_LIST.
        """
        head = MAGIC + self.format_event
        if self.previous_event and len(head) + len(self.previous_event) == offset:
            return head + self.previous_event
        is_mysql = self.form.flavour.vendor is Vendor.MYSQL
        return head + make_event(
            EventType.PREVIOUS_GTIDS if is_mysql else EventType.GTID_LIST,
            encode_gtid_set(executed) if is_mysql else encode_gtid_list(executed),
            begin=len(head),
            flags=EventFlag.IGNORABLE,
            has_checksum=self.form.has_checksum,
        )

    def previous(self) -> Executed:
        """What had been executed before the file, by the file itself, which has `previous_event`."""
        body = self.previous_event[HEADER_BYTES : len(self.previous_event) - self.form.checksum_bytes]
        is_list = self.previous_event[4] == EventType.GTID_LIST
        return (parse_gtid_list(body) if is_list else parse_previous_gtids(body)).gtid_set


class SegmentRecorder:
    """One segment from its first byte to its publication; if the process dies before, nothing is left."""

    def __init__(self, folder: Folder, after: StreamEnd, head: FileHead, *, offset: int, sender: Sender) -> None:
        """Starts a segment.

        Args:
            folder: The landing folder of the source.
            after: The end of the stream before it.
            head: The server's file that it is a part of.
            offset: Offset in that file of the first event that will be appended.
            sender: Where it comes from.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
        """
        self.name = SegmentName(after.ordinal + 1, head.binlog_file, offset)
        self.transactions = 0
        self._folder, self._after, self._head, self._sender = folder, after, head, sender
        self._numbered = 0
        self._clock = CommitClock(after.clock)
        self._executed = ExecutedBuilder(after.executed)
        self._undecided = UndecidedTransactions(after.prepared or ())
        self._uncounted: frozenset[tuple[str, str]] = frozenset()
        self._scanner = TransactionScanner(
            head.form,
            chain=sender.chain(head.form, offset),
            binlog_file=head.binlog_file,
            first_seq=after.seq + 1,
            clock=self._clock,
            server_offset=offset,
        )
        self._file = SegmentFile(folder, head.before(offset, after.executed))
        self._head_bytes = self._scanned = self._whole = self._file.size
        self._shift = offset - self._head_bytes
        """How much larger than its offset in the segment that of the last event in the server's file is."""
        self._index_path = f"{self._file.path.removesuffix(TEMPORARY_SUFFIX)}{SUFFIX}{TEMPORARY_SUFFIX}"
        try:
            with storage_errors(folder):
                self._index = IndexWriter(self._index_path)
        except LakeUnavailableError:
            self._remove()
            raise

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.size

    @property
    def unscanned(self) -> int:
        """Bytes that `scan` has not seen."""
        return self._file.size - self._scanned

    @property
    def tail(self) -> int:
        """Bytes after the last complete transaction, as far as `scan` has seen."""
        return self._file.size - self._whole

    @property
    def clock(self) -> int:
        """The commit clock after the last complete transaction."""
        return self._clock.now

    @property
    def server_end(self) -> int:
        """Offset in the server's file after the last complete transaction."""
        return self._shift + self._whole

    def executed(self) -> Executed:
        """The GTID set after the last complete transaction."""
        return self._executed.build()

    def append(self, data: bytes | memoryview) -> None:
        """Adds bytes of events; an event may come in several chunks."""
        self._file.append(data)

    def scan(self) -> None:
        """Indexes the transactions that are complete by now, and verifies their checksums.

        Raises:
            CorruptEventError: What arrived is damaged; the offset is that in the server's file. Only the transactions
                before that are kept: afterwards, `finish` publishes them, and `discard` drops them.
            SourceSettingsError: It is a file, and a transaction in it has no GTID.
        """
        if self.unscanned <= 0:
            return
        try:
            at = self._scan()
        except CorruptEventError:
            self._file.cut(self._whole)
            self._scanned = self._whole
            raise
        self._scanned = at
        opened = self._scanner.open_transaction
        self._whole = at if opened is None else opened

    def require_end(self) -> None:
        """Checks that nothing is half there after the last complete transaction, once `scan` has seen all.

        Raises:
            TruncatedEventError: An event or a transaction is.
        """
        if self.unscanned:
            buffer = self._file.view()
            rest = index_events(buffer, self._scanned, len(buffer), self._head.form)
            for batch in self._batches(buffer, rest):
                self._add(batch)
        try:
            self._scanner.finish(self._scanned)
        except StrataError as error:
            raise self._located(error) from None

    def _scan(self) -> int:
        """Returns the offset in the segment up to which it has seen the events."""
        buffer = self._file.view()
        at = self._scanned
        while at < len(buffer):
            index = index_events(buffer, at, len(buffer), self._head.form)
            ends_early = index.status == codes.TRUNCATED
            if ends_early:
                # The rest of the event is still to come.
                index = replace(index, status=codes.DONE)
            for batch in self._batches(buffer, index):
                self._add(batch)
            at = index.next
            if ends_early:
                break
        return at

    def _batches(self, buffer: npt.NDArray[np.uint8], index: EventIndex) -> Iterator[TransactionBatch]:
        try:
            yield from self._scanner.scan(buffer, index)
        except StrataError as error:
            raise self._located(error) from None

    def _add(self, batch: TransactionBatch) -> None:
        self._refuse_unnumbered(batch)
        self._refuse_steps_back(batch)
        with storage_errors(self._folder):
            self._index.write(batch)
        self._shift = int(batch.positions[-1] - batch.begins[-1])
        self._whole = int(batch.ends[-1])
        batch.add_to(self._executed)
        batch.decide(self._undecided)
        self._uncounted |= batch.uncounted
        self.transactions += len(batch)
        self._numbered += int((batch.sid_numbers >= 0).sum())

    def take_tail(self) -> bytes:
        """Cuts off what is after the last complete transaction, and returns it."""
        tail = self._file.read_from(self._whole)
        self._file.cut(self._whole)
        return tail

    def finish(self, *, keep_empty: bool = False) -> StreamEnd:
        """Ends the segment after its last complete transaction and publishes it with its index.

        The index gets its name first: a segment that can be seen has its index. A segment without transactions is
        dropped.

        Args:
            keep_empty: Whether the segment is also published without transactions, to record where the stream begins.

        Raises:
            AlreadyRunningError: Another landing has published this segment; nothing was published.
            LakeUnavailableError: The storage refuses or is full; nothing was published.
            SourceDivergedError: A transaction that had landed before was sent again.
        """
        self.scan()
        if not self.transactions and not keep_empty:
            self.discard()
            return self._after
        self._file.cut(self._whole)
        executed = self._executed.build()
        # Numbers of MariaDB may jump: `_refuse_steps_back` has seen each of them.
        is_counted = not isinstance(executed, DomainSet)
        if is_counted and executed.count() != self._after.executed.count() + self._numbered:
            self.discard()
            raise SourceDivergedError(
                "the server sent transactions that had landed already", gtid=str(executed), file=self._head.binlog_file
            )
        summary = SegmentSummary(
            segment=str(self.name),
            binlog_file=self._head.binlog_file,
            server_uuid=self._sender.server_uuid,
            bytes=self._file.size,
            first_seq=self._after.seq + 1,
            transactions=self.transactions,
            clock_before=self._after.clock,
            clock_after=self._clock.now,
            server_end=self.server_end,
            executed_before=str(self._after.executed),
            executed=str(executed),
            resume=self._sender.resume(self._head.binlog_file),
            prepared=self._undecided.prepared(),
            uncounted=tuple(sorted(self._uncounted)),
        )
        with storage_errors(self._folder):
            self._index.close(summary)
        note_segment(self._folder, self.name)
        publish_file(self._folder, self._index_path, f"{self.name}{SUFFIX}")
        self._file.publish(str(self.name), once=True)
        return StreamEnd.from_summary(summary, self.name.ordinal)

    def _refuse_unnumbered(self, batch: TransactionBatch) -> None:
        """Refuses a transaction without a GTID where that cannot be: of MariaDB, and of a file, which another landing
        could not continue."""
        if self._sender.url and (batch.sid_numbers < 0).any():
            row = int((batch.sid_numbers < 0).argmax())
            raise SourceSettingsError(
                "a transaction has no GTID, so it cannot be known whether it has landed",
                file=self._sender.url,
                offset=int(batch.positions[row]),
                remedy="Decode such files with `strata decode FILES --out FILE`.",
            )
        batch.refuse_unnumbered(self._head.form.flavour.vendor)

    def _refuse_steps_back(self, batch: TransactionBatch) -> None:
        """Refuses a transaction of MariaDB whose number is not above those before it in its domain: it was sent again,
        or the number was set back, and then no position says what comes after it."""
        row = batch.first_step_back(self._executed)
        if row is not None:
            gtid = str(batch.record(row).gtid)
            raise SourceDivergedError(
                "the sequence number of a transaction is not above those before it in its domain; landed are "
                f"{self._executed.build()}",
                gtid=gtid,
                file=self._head.binlog_file,
                offset=int(batch.positions[row]),
                remedy="Set `gtid_strict_mode=ON` on the server, so that numbers only grow, purge the files with such "
                "numbers, and land it under another source name from here on.",
            )

    def discard(self) -> None:
        """Drops what was written; what is published stays."""
        self._index.abandon()
        self._remove()

    def _remove(self) -> None:
        self._file.discard()
        Path(self._index_path).unlink(missing_ok=True)

    def _located(self, error: StrataError) -> StrataError:
        if error.offset is not None:
            error.offset += self._shift
        return error.located(file=self._sender.url or self._head.binlog_file)
