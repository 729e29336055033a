"""Turns events into batches of transactions, over any number of chunks of a stream.
Not here: walking over the bytes (`binlog/kernels/transactions.py`), opening files (`transactions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import HEADER_BYTES, EventType
from strata_cdc.binlog.bytes.fragments import EventParts
from strata_cdc.binlog.bytes.frames import EventIndex, index_payload, post_headers
from strata_cdc.binlog.bytes.payload import read_payload
from strata_cdc.binlog.events.batch import TransactionBatch
from strata_cdc.binlog.events.faults import check_end, compare_format, fault_of
from strata_cdc.binlog.events.parse import event_body, parse_event, parse_incident, parse_table_map
from strata_cdc.binlog.events.registry import ServerRegistry, TableMapRegistry
from strata_cdc.binlog.events.scan_buffers import OpenMark, ScanBuffers
from strata_cdc.binlog.events.soundness import count_right
from strata_cdc.binlog.events.undone_rows import Savepoints, Undo, has_undone_rows, undo_statements
from strata_cdc.binlog.events.xa import mark_of
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.kernels.layout import Form, IndexMemory
from strata_cdc.binlog.kernels.transactions import close_transaction, group_events
from strata_cdc.binlog.kernels.words import Request, State, Word
from strata_cdc.errors import CorruptEventError, StrataError
from strata_cdc.position.clock import CommitClock
from strata_cdc.position.sets import Gtid

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import XaMark
    from strata_cdc.binlog.events.undone_rows import UndoStatement

SPLIT_BYTES = 32 << 20
"""A transaction that is larger gets points at which it can be decoded from, about this far from each other."""

_NO_PAYLOAD = -1


class TransactionScanner:
    """A walk over one stream of events; call `scan` with each chunk in order, then `finish`."""

    def __init__(
        self,
        form: FormatDescription,
        *,
        chain: EventChain,
        binlog_file: str,
        first_seq: int = 1,
        clock: CommitClock | None = None,
        server_offset: int | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> None:
        """Starts between two transactions.

        Args:
            form: How the events are laid out.
            chain: Where they must lie in the server's file.
            binlog_file: The server's name for the file.
            first_seq: Ordinal of the first transaction.
            clock: The commit clock before it; each transaction advances it.
            server_offset: Bytes into the server's file from which the events of a landed segment come; None for a
                file of the server itself.
            split_bytes: As `SPLIT_BYTES`.
        """
        self.next_seq = first_seq
        self.clock = clock or CommitClock()
        self._format = form
        self._post_headers = post_headers(form)
        self._chain = chain
        self._binlog_file = binlog_file
        self._server_offset = server_offset
        self._split_bytes = split_bytes
        self._servers = ServerRegistry()
        self._table_maps = TableMapRegistry()
        self._buffers = ScanBuffers()
        self._state = self._buffers.state
        self._parts = EventParts(form)
        self._has_undone_rows = has_undone_rows(form)
        self._savepoints: Savepoints[OpenMark] = Savepoints()
        self._savepoints_of: int | None = None
        """Offset of the transaction that has them."""
        self._compressed: dict[int, XaMark | None] = {}
        """Marks of compressed transactions by the offset of their payload, until they are taken."""

    @property
    def open_transaction(self) -> int | None:
        """Offset of the transaction that has begun and not ended; None between two."""
        return None if self._state.place == State.BETWEEN else int(self._state.begin)

    def scan(self, buffer: npt.NDArray[np.uint8], index: EventIndex) -> Iterator[TransactionBatch]:
        """Takes the next events: yields the transactions that ended in them, then raises the fault if there is one.

        Checksums are verified first, so nothing is read from an event whose bytes are not those that were written.

        Raises:
            ChecksumError: An event was altered.
            MisplacedEventError: An event does not begin where the one before it ended.
            TruncatedEventError: The buffer ends in an event.
            CorruptEventError: An event contradicts itself or its position.
            UnsupportedEventError: An event cannot be read and may not be skipped.
        """
        fault: StrataError | None = None
        count, fault = count_right(buffer, index, self._format, self._chain)
        try:
            self._walk_file(buffer, index, count)
        except StrataError as error:
            fault = error
        if self._state.transactions:
            yield self._take_batch(buffer)
        try:
            if fault is not None:
                raise fault
            index.raise_fault()
        except StrataError as error:
            raise error.located(gtid=self._open_gtid()) from None

    def finish(self, end: int) -> None:
        """Ends the stream at byte `end`.

        Raises:
            TruncatedEventError: A transaction has begun and not ended.
        """
        try:
            check_end(self._state.place, end, Word.FILE_END)
        except StrataError as error:
            raise error.located(gtid=self._open_gtid()) from None

    def _walk_file(self, buffer: npt.NDArray[np.uint8], index: EventIndex, count: int) -> None:
        """Walks over the first `count` events; rows that are undone later do not count."""
        first = 0
        for statement in undo_statements(buffer, index, count, self._format) if self._has_undone_rows else ():
            self._walk(buffer, index, first, statement.event)
            first = statement.event
            if self.open_transaction is not None:
                self._undo(statement, int(index.positions[first]))
        self._walk(buffer, index, first, count)

    def _undo(self, statement: UndoStatement, position: int) -> None:
        """Sets a savepoint of the open transaction, or goes back to it or to its begin."""
        if self._savepoints_of != self.open_transaction:
            self._savepoints.clear()
            self._savepoints_of = self.open_transaction
        if statement.undo is Undo.SAVEPOINT:
            self._savepoints.set(statement.name, self._buffers.mark())
        elif statement.undo is Undo.RELEASE:
            self._savepoints.release(statement.name)
        elif statement.undo is Undo.ROLLBACK:
            self._buffers.undo_to(OpenMark.begin(int(self._state.begin)))
        else:
            mark = self._savepoints.rolled_back_to(statement.name)
            if mark is None:
                raise CorruptEventError(f"the transaction has no savepoint {statement.name!r}", offset=position)
            self._buffers.undo_to(mark)

    def _walk(
        self,
        buffer: npt.NDArray[np.uint8],
        index: EventIndex,
        first: int,
        stop: int,
        payload: int = _NO_PAYLOAD,
        payload_end: int = _NO_PAYLOAD,
    ) -> None:
        """Walks over the events from number `first` to before `stop`.

        Args:
            buffer: The bytes that they are in.
            index: Has them.
            first: The first event.
            stop: The event after the last.
            payload: Offset of the compressed transaction, or of the compressed event, that they are in.
            payload_end: The offset after it.
        """
        buffers, servers, table_maps = self._buffers, self._servers, self._table_maps
        checksum_bytes = self._format.checksum_bytes if payload == _NO_PAYLOAD else 0
        form = Form(checksum_bytes, payload, payload_end, self._split_bytes, self._post_headers)
        buffers.reserve(stop - first)
        events, at = index.events(first, stop), 0
        while True:
            known = IndexMemory(
                servers.keys, table_maps.bodies, table_maps.table_maps, table_maps.places, table_maps.widths
            )
            self._state.keys = servers.count
            status, at = group_events(buffer, events, at, form, known, buffers.notes())
            if status == codes.DONE:
                return
            at = self._answer(status, first + at, buffer, index, payload) - first

    def _answer(self, status: int, at: int, buffer: npt.NDArray[np.uint8], index: EventIndex, payload: int) -> int:
        """Does what the walk requests at event number `at`; returns the event with which to continue."""
        position, length = int(index.positions[at]), int(index.lengths[at])
        buffers, packed = self._buffers, payload != _NO_PAYLOAD
        match status:
            case Request.NEW_SERVER:
                self._servers.add(buffers.key)
                return at
            case codes.FULL:
                buffers.reserve_split_maps()
                return at
            case Request.NEW_TABLE_MAP:
                end = position + length - (0 if packed else self._format.checksum_bytes)
                self._add_table_map(buffer[position + HEADER_BYTES : end].tobytes(), position)
                return at
            case Request.INFLATE:
                self._walk_payload(buffer, position, length)
                close_transaction(buffers.transactions, buffers.states, position + length, index.timestamps[at])
                return at + 1
            case Request.INFLATE_EVENT:
                self._walk_compressed(buffer, position, length)
                return at + 1
            case Request.COMPARE_FORMAT:
                compare_format(buffer, position, length, self._format)
                return at + 1
            case _:
                raise fault_of(status, buffer, position, length, self._format, packed=packed)

    def _walk_payload(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> None:
        try:
            for chunk in read_payload(buffer, position, length, self._format):
                begin, end = 0, len(chunk.buffer)
                while begin < end:
                    index = index_payload(chunk.buffer, begin, end)
                    index.raise_fault()
                    self._walk(chunk.buffer, index, 0, len(index), position, position + length)
                    begin = index.next
                self._note_mark(chunk.buffer, position)
        except StrataError as error:
            # An inner event has no offset of its own in the file.
            error.offset = position
            raise
        self._state.place = check_end(self._state.place, position, Word.PAYLOAD_END)

    def _walk_compressed(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> None:
        plain = self._parts.plain(buffer, position, length)
        if plain is None:
            return
        try:
            self._walk(plain, index_payload(plain, 0, len(plain)), 0, 1, position, position + length)
        except StrataError as error:
            error.offset = position
            raise

    def _note_mark(self, inner: npt.NDArray[np.uint8], payload: int) -> None:
        """Reads XA_PREPARE inside a payload, whose bytes no longer exist when the transaction is built."""
        at = int(self._state.xa)
        if at >= 0 and payload not in self._compressed:
            self._compressed[payload] = self._read_mark(inner, at, replace(self._format, has_checksum=False))
            self._state.xa = payload

    @staticmethod
    def _read_mark(buffer: npt.NDArray[np.uint8], position: int, form: FormatDescription) -> XaMark | None:
        length = int.from_bytes(buffer[position + 9 : position + 13].tobytes(), "little")
        return mark_of(parse_event(buffer, position, length, form))

    def _marks(self, buffer: npt.NDArray[np.uint8], events: npt.NDArray[np.int64]) -> Iterator[tuple[int, XaMark]]:
        for row in np.flatnonzero(events >= 0).tolist():
            at = int(events[row])
            mark = self._compressed.pop(at) if at in self._compressed else self._read_mark(buffer, at, self._format)
            if mark is not None:
                yield row, mark

    def _add_table_map(self, body: bytes, position: int) -> None:
        try:
            post_header = self._format.header_length(EventType.TABLE_MAP)
            self._table_maps.add(parse_table_map(body, post_header, self._format.flavour.vendor))
        except StrataError as error:
            raise error.located(offset=position) from None

    def _open_gtid(self) -> str | None:
        sid = int(self._state.sid)
        if self.open_transaction is None or sid < 0:
            return None
        return str(Gtid(self._servers.sids[sid], int(self._state.gno)))

    def _take_batch(self, buffer: npt.NDArray[np.uint8]) -> TransactionBatch:
        drained = self._buffers.drain()
        ended, entries, splits = drained.transactions, drained.entries, drained.splits
        begins, stamps, incidents = ended["begin"], ended["stamp"], ended["incident"]
        committed = np.maximum(np.maximum.accumulate(stamps), self.clock.now)
        self.clock.advance(int(committed[-1]))
        lost = np.flatnonzero(incidents >= 0)
        batch = TransactionBatch(
            binlog_file=self._binlog_file,
            first_seq=self.next_seq,
            begins=begins,
            ends=ended["end"],
            positions=self._server_positions(begins, ended["log_begin"]),
            sids=tuple(self._servers.sids),
            sid_numbers=ended["sid"],
            numbers=ended["gno"],
            committed_at=committed,
            commit_timestamps=stamps,
            incidents=tuple((int(row), self._incident(buffer, int(incidents[row]))) for row in lost),
            marks=tuple(self._marks(buffer, ended["xa"])),
            tables=tuple(self._table_maps.tables),
            entries_end=ended["entries_end"],
            entry_tables=entries["table"],
            entry_events=entries["events"],
            entry_rows=entries["rows"],
            uncounted=frozenset(self._table_maps.uncounted),
            statements_end=ended["statements_end"],
            statements=drained.statements,
            splits_end=ended["splits_end"],
            split_offsets=splits["offset"],
            split_rows=splits["row"],
            split_maps_end=splits["maps_end"],
            split_maps=drained.split_maps,
        )
        self.next_seq += len(batch)
        return batch

    def _server_positions(self, begins: npt.NDArray[np.int64], low: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Offsets in the server's file; the header has 32 bits of them, and they only grow within a file."""
        if self._server_offset is None:
            return begins
        before = np.concatenate(([self._server_offset & 0xFFFFFFFF], low[:-1]))
        positions = (self._server_offset >> 32 << 32) + low + (np.cumsum(low < before) << 32)
        self._server_offset = int(positions[-1])
        return positions

    def _incident(self, buffer: npt.NDArray[np.uint8], position: int) -> str:
        length = int.from_bytes(buffer[position + 9 : position + 13].tobytes(), "little")
        return parse_incident(event_body(buffer, position, length, self._format)).message or "events were lost"
