"""Drives the walk over a slice: windows of events, checksums, rare events, full slots.
Not here: the walk (`kernels/stream.py`), making batches of full slots (`batch.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata.errors import ChecksumError, StatementFormatError, StrataError, StreamHoleError
from strata.events.faults import check_end, compare_format, fault_of
from strata.events.parse import parse_incident
from strata.events.places import chain_of
from strata.events.query import parse_query
from strata.events.table_map import parse_table_map
from strata.gtid.sets import Gtid
from strata.kernels import grammar, layout
from strata.kernels import status as codes
from strata.kernels.crc import CRC_TABLES, verify_events
from strata.kernels.stream import walk_events
from strata.rows.gather import Region
from strata.wire.codes import HEADER_BYTES, EventType
from strata.wire.frames import EventIndex, index_events, index_payload
from strata.wire.pages import forget_pages
from strata.wire.payload import read_payload

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from strata.kernels.arrays import Bytes
    from strata.rows.book import SlotPlan, TableBook
    from strata.rows.plan import Range
    from strata.rows.slots import SlotRows, Slots
    from strata.wire.chain import EventChain
    from strata.wire.files import BinlogFile

SETTLE_BYTES = 16 << 20
"""Bytes after which all slots are emptied, whatever they hold."""
WINDOW_BYTES = 1 << 20
"""Bytes whose checksums are verified before they are walked, so that they are still in the cache."""
WINDOW_EVENTS = 32768
_ARENA_BYTES = 16 << 20
"""Inflated events that are kept together until their rows are gathered."""
_FARTHEST_CELL = (1 << 32) - 1
_MARGIN = 2
"""Cells 0 and 1 mean NULL and absent, so a region's base lies that far in front of it."""

_HEADS = frozenset({EventType.GTID, EventType.TAGGED_GTID, EventType.ANONYMOUS_GTID})


class FullSlot(Struct, frozen=True):
    """Rows that are ready for their second pass; to be used before the next one is asked for."""

    plan: SlotPlan
    region: Region
    rows: SlotRows


class Hole(Struct, frozen=True):
    """Rows that changed and are not in the log."""

    error: StrataError
    """What is missing, with its place; a table only if one can be told."""


class Settled(Struct, frozen=True):
    """All rows in front of this point of the slice have been given."""


class _Window(Struct):
    """Events that are being walked."""

    buffer: Bytes
    index: EventIndex
    sound: int
    """How many of them are as they were written."""
    trailer: int
    """Bytes behind each event that are not part of it."""

    def place(self, at: int) -> tuple[int, int]:
        """Offset and length of event number `at`."""
        return int(self.index.positions[at]), int(self.index.lengths[at])

    def body(self, at: int) -> bytes:
        """The body of event number `at`."""
        begin, length = self.place(at)
        return self.buffer[begin + HEADER_BYTES : begin + length - self.trailer].tobytes()


Step = FullSlot | Hole | Settled


class RowStream:
    """One walk over ranges of one file."""

    def __init__(
        self,
        binlog: BinlogFile,
        ranges: Iterable[Range],
        slots: Slots,
        book: TableBook,
        chain: EventChain | None = None,
    ) -> None:
        """Starts in front of the first range.

        Args:
            binlog: The open file.
            ranges: What to walk over, in the order of the stream; asked for one at a time.
            slots: Where rows go.
            book: Which rows are wanted, and how they are decoded.
            chain: Where the events of whole transactions must lie, over all of them; by default each range lies where
                it says, whatever is between them.
        """
        self._binlog = binlog
        self._chains = chain
        self._chain = chain or chain_of(binlog, binlog.first_event)
        self._ranges = ranges
        self._prepared_seq: int | None = None
        self._changed_seq = 0
        """Ordinal of the last transaction with a statement."""
        self._slots = slots
        self._book = book
        self._state = slots.state
        self._arena = np.empty(0, np.uint8)
        self._arena_used = 0
        self._region = Region(binlog.buffer, 0)
        self._settled = 0
        self._end = 0
        self._is_arena = False

    def __iter__(self) -> Iterator[Step]:
        """Rows in the order in which slots fill up; then the fault that ended the walk, if there was one.

        Raises:
            StrataError: Bad data, with file, offset and, where it is known, GTID. All rows before it were given.
        """
        fault: StrataError | None = None
        try:
            for piece in self._ranges:
                yield from self._begin(piece)
                yield from self._walk_range(piece)
        except StrataError as error:
            fault = error
        yield from self._settle()
        if fault is not None:
            raise fault.located(file=self._binlog.path, gtid=self.gtid())

    def waiting(self) -> list[FullSlot]:
        """The slots that hold rows, one that was just given and not emptied yet among them."""
        return [self._full(slot) for slot in self._slots.waiting()]

    @property
    def seq(self) -> int:
        """Ordinal of the last transaction that began."""
        return int(self._state[layout.SEQ])

    @property
    def clock(self) -> int:
        """The commit clock at that transaction, microseconds UTC."""
        return int(self._state[layout.CLOCK])

    def gtid(self) -> str | None:
        """GTID of the transaction that the walk is in."""
        sid = int(self._state[layout.SID])
        if sid < 0 or self._state[layout.OPEN] == grammar.BETWEEN:
            return None
        return str(Gtid(self._slots.servers.sids[sid], int(self._state[layout.GNO])))

    def check_end(self) -> None:
        """Says that the file ends with the last range, all of which has been walked.

        Raises:
            TruncatedEventError: A transaction has begun and not ended.
        """
        try:
            check_end(int(self._state[layout.OPEN]), self._end, grammar.FILE_END)
        except StrataError as error:
            raise error.located(file=self._binlog.path, gtid=self.gtid()) from None

    # The file ---------------------------------------------------------------------------------------

    def _begin(self, piece: Range) -> Iterator[Step]:
        """Goes to the beginning of a range."""
        state = self._state
        if not self._is_arena and not 0 <= piece.begin - _MARGIN - self._region.base <= _FARTHEST_CELL:
            yield from self._flush_all()
            self._region = Region(self._binlog.buffer, piece.begin - _MARGIN)
        self._forget_changed(piece.prepared_seq)
        state[layout.SEQ] = piece.first_seq - 1
        state[layout.CLOCK] = piece.clock
        state[layout.SID] = -1
        state[layout.STATEMENT_NUMBER] += 1
        state[layout.POSITION] = piece.binlog_pos
        state[layout.DELTA] = piece.binlog_pos - piece.begin
        state[layout.IS_PIECE] = self._binlog.segment is not None
        state[layout.OPEN] = grammar.BETWEEN
        if piece.inside is None:
            return
        state[layout.SEQ] = piece.first_seq
        state[layout.ROW] = piece.first_row
        state[layout.OPEN] = grammar.INSIDE
        if piece.inside:
            gtid = Gtid.parse(piece.inside)
            state[layout.SID], state[layout.GNO] = self._slots.know_server(gtid.sid), gtid.gno
        for offset in piece.table_maps:
            index = index_events(self._binlog.buffer, offset, len(self._binlog.buffer), self._binlog.format, 1)
            for _ in self._take_table_map(self._window(index), 0):
                pass

    def _chain_of(self, piece: Range, at: int) -> EventChain:
        """Where a range's events must lie, from offset `at` on."""
        if self._chains is None:
            return chain_of(self._binlog, at, piece.binlog_pos + at - piece.begin)
        return self._chains if piece.inside is None else chain_of(self._binlog, at)

    def _forget_changed(self, prepared_seq: int | None) -> None:
        """Lets no TABLE_MAP be known by its bytes on the other side of a DDL, which may have changed what they mean."""
        before, self._prepared_seq = self._prepared_seq, prepared_seq
        if any(seq is not None and seq < self._changed_seq for seq in (before, prepared_seq)):
            self._slots.forget_maps()

    def _walk_range(self, piece: Range) -> Iterator[Step]:
        at, end, size = piece.begin, piece.end, WINDOW_BYTES
        self._end = end
        if piece.inside is not None:
            at = self._pass_gtid(at, end)
        self._chain = self._chain_of(piece, at)
        settled = at
        while at < end:
            if self._settled + at - settled >= SETTLE_BYTES:
                yield from self._settle()
                # Not earlier: gathering the cells of a slot reads its rows once more.
                forget_pages(self._binlog.buffer, settled, at)
                settled, self._settled = at, 0
            limit = min(at + size, end)
            index = index_events(self._binlog.buffer, at, limit, self._binlog.format, WINDOW_EVENTS)
            if len(index) == 0 and index.status == codes.TRUNCATED and limit < end:
                # An event that is longer than the window.
                size *= 2
                continue
            if index.next - self._region.base > _FARTHEST_CELL and not self._is_arena:
                yield from self._flush_all()
                self._region = Region(self._binlog.buffer, at - _MARGIN)
            linked, misplaced = self._chain.take(self._binlog.buffer, index)
            yield from self._walk_window(self._window(index), linked, misplaced)
            if index.status != codes.TRUNCATED or limit == end:
                index.raise_fault()
            at, size = index.next, WINDOW_BYTES
        self._settled += end - settled

    def _pass_gtid(self, begin: int, end: int) -> int:
        """Goes behind the GTID of a prepared transaction, whose rows belong to that of its XA COMMIT."""
        index = index_events(self._binlog.buffer, begin, end, self._binlog.format, 1)
        head = int(index.types[0]) if len(index) else -1
        if head in _HEADS or head == EventType.QUERY:
            # XA START, or the payload that it is in, follows; a split point is at neither.
            self._state[layout.OPEN] = grammar.HEADED
        return index.next if head in _HEADS else begin

    def _window(self, index: EventIndex) -> _Window:
        form, buffer = self._binlog.format, self._binlog.buffer
        sound = len(index)
        if form.has_checksum:
            sound = int(verify_events(CRC_TABLES, buffer, index.positions, index.lengths)[1])
        return _Window(buffer, index, sound, form.checksum_bytes)

    def _walk_window(self, window: _Window, linked: int, misplaced: StrataError | None) -> Iterator[Step]:
        """Walks the events of a window in front of the first that was altered, or is not where it was written."""
        is_first = misplaced is not None and linked < window.sound
        window.sound = min(window.sound, linked)
        yield from self._walk(window)
        if misplaced is not None and is_first:
            raise misplaced
        if window.sound < len(window.index):
            at = int(window.index.positions[window.sound])
            raise ChecksumError("the CRC32 of an event does not match its bytes", offset=at)

    def _walk(self, window: _Window) -> Iterator[Step]:
        """Walks the sound events of a window; the caller has set the region that its cells are in."""
        state, events = self._state, window.index.events(0, window.sound)
        in_file = window.buffer is self._binlog.buffer
        state[layout.EVENT] = state[layout.AT] = 0
        state[layout.FOREIGN] = in_file and self._is_arena
        while True:
            base = self._region.base
            status = int(walk_events(window.buffer, base, window.trailer, events, self._slots.tables()))
            at = int(state[layout.EVENT])
            if status == codes.DONE:
                return
            if status == codes.FULL:
                yield from self._make_room(int(state[layout.SLOT]), window, at)
                continue
            try:
                yield from self._answer(status, window, at)
            except StrataError as error:
                # An inner event has no offset of its own in the file.
                error.offset = int(window.index.positions[at]) if in_file else None
                raise

    def _make_room(self, slot: int, window: _Window, at: int) -> Iterator[Step]:
        if slot >= 0:
            yield self._full(slot)
            self._slots.empty(slot)
            return
        # Rows of the file follow rows of inflated events, whose cells are relative to another buffer.
        yield from self._flush_all()
        self._is_arena = False
        self._arena_used = 0
        self._region = Region(self._binlog.buffer, int(window.index.positions[at]) - _MARGIN)
        self._state[layout.FOREIGN] = 0

    def _flush_all(self) -> Iterator[Step]:
        for slot in self._slots.waiting():
            yield self._full(slot)
            self._slots.empty(slot)

    def _settle(self) -> Iterator[Step]:
        yield from self._flush_all()
        yield Settled()

    def _full(self, slot: int) -> FullSlot:
        return FullSlot(self._book.plans[slot], self._region, self._slots.rows(slot))

    # Rare events ------------------------------------------------------------------------------------

    def _answer(self, status: int, window: _Window, at: int) -> Iterator[Step]:
        """Does what the walk asks for at event number `at`, and goes on behind it, or with it once more."""
        state = self._state
        if status == grammar.NEW_SERVER:
            self._slots.add_server()
            return
        if status == grammar.NEW_TABLE_MAP:
            yield from self._take_table_map(window, at)
            return
        following = int(state[layout.FOLLOWING])
        if status == grammar.READ_STATEMENT:
            yield from self._take_statement(window, at)
        elif status == grammar.REPORT_LOSS:
            yield self._lost(parse_incident(window.body(at)).message)
        elif status == grammar.COMPARE_FORMAT:
            compare_format(window.buffer, *window.place(at), self._binlog.format)
        elif status == grammar.INFLATE:
            state[layout.OPEN] = following
            following = yield from self._take_payload(window, at)
        else:
            packed = window.buffer is not self._binlog.buffer
            raise fault_of(status, window.buffer, *window.place(at), self._binlog.format, packed=packed)
        state[layout.OPEN] = following
        state[layout.EVENT] = at + 1

    def _lost(self, message: str) -> Hole:
        return self._hole(
            StreamHoleError(
                f"the server reports that it lost events here: {message}",
                remedy="What was changed is not in the binlog: take a new baseline behind this point.",
            )
        )

    def _hole(self, error: StrataError) -> Hole:
        position = int(self._state[layout.POSITION])
        return Hole(error.located(gtid=self.gtid(), file=self._binlog.name, offset=position))

    def _take_table_map(self, window: _Window, at: int) -> Iterator[Step]:
        post_header = self._binlog.format.header_length(EventType.TABLE_MAP)
        seq = self.seq if self._prepared_seq is None else self._prepared_seq
        refused = self._book.take(parse_table_map(window.body(at), post_header), seq)
        if refused is not None:
            yield self._hole(refused)

    def _take_statement(self, window: _Window, at: int) -> Iterator[Step]:
        # Imported here: the grammar takes its time to load, and most slices have no statement.
        from strata.schema.ddl.context import context_of, statement_text  # noqa: PLC0415  see above
        from strata.schema.ddl.dml import tables_changed_by  # noqa: PLC0415  see above

        query = parse_query(window.body(at), self._binlog.format, int(window.index.types[at]))
        # A DDL may have changed what any TABLE_MAP means.
        self._slots.forget_maps()
        self._changed_seq = max(self._changed_seq, self.seq)
        for table in tables_changed_by(statement_text(query), context_of(query, self._binlog.format)) or ():
            if self._book.is_decoded(table):
                yield self._hole(
                    StatementFormatError(
                        f"rows of {table} were changed by a statement, so the binlog does not hold them",
                        table=str(table),
                        remedy="Set `binlog_format=ROW` on the server; take a new baseline behind this point.",
                    )
                )

    # Compressed transactions ------------------------------------------------------------------------

    def _take_payload(self, window: _Window, at: int) -> Generator[Step, None, int]:
        """Walks a payload; gives the state behind it."""
        position, length = window.place(at)
        for chunk in read_payload(self._binlog.buffer, position, length, self._binlog.format):
            yield from self._walk_inner(chunk.buffer)
        return check_end(int(self._state[layout.OPEN]), position, grammar.PAYLOAD_END)

    def _walk_inner(self, events: Bytes) -> Iterator[Step]:
        """Walks inflated events from a place in the arena, where they stay until their rows are gathered."""
        if not self._is_arena or self._arena_used + len(events) > len(self._arena):
            yield from self._flush_all()
            if len(events) > _ARENA_BYTES:
                # A very long event is there once, and only until its rows are gathered.
                self._arena = events
            elif len(self._arena) != _ARENA_BYTES:
                self._arena = np.empty(_ARENA_BYTES, np.uint8)
            self._is_arena, self._arena_used = True, 0
            self._region = Region(self._arena, -_MARGIN)
        begin, end = self._arena_used, self._arena_used + len(events)
        if self._arena is not events:
            self._arena[begin:end] = events
        self._arena_used = end
        outer_event = int(self._state[layout.EVENT])
        at = begin
        while at < end:
            index = index_payload(self._arena, at, end, WINDOW_EVENTS)
            yield from self._walk(_Window(self._arena, index, len(index), 0))
            index.raise_fault()
            at = index.next
        self._state[layout.EVENT] = outer_event
        self._state[layout.FOREIGN] = 1
