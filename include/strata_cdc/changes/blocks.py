"""Turns events into blocks of rows: a walk over windows of events. It yields the rows of each table when its row buffer
is full, and reports why other rows are missing.
Not here: the loop over the events (`binlog/kernels/stream.py`), what is in the rows (`batch.py`), bytes
(`windows.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.bytes.frames import post_headers
from strata_cdc.binlog.events.faults import check_end, compare_format, fault_of
from strata_cdc.binlog.events.parse import parse_incident
from strata_cdc.binlog.events.query import parse_query
from strata_cdc.binlog.events.registry import ServerRegistry
from strata_cdc.binlog.events.table_map import parse_table_map
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.kernels.gtid import GTID_BYTES
from strata_cdc.binlog.kernels.layout import Fact, Tables, WalkState
from strata_cdc.binlog.kernels.records import records
from strata_cdc.binlog.kernels.stream import walk_events
from strata_cdc.binlog.kernels.words import Request, State, Word
from strata_cdc.changes.commit_times import TimesAlong
from strata_cdc.changes.maps_in_force import MapsInForce
from strata_cdc.changes.port import Hole, Watermark
from strata_cdc.changes.row_buffers import RowBuffers
from strata_cdc.changes.unlogged_rows import reported_loss, unlogged_rows
from strata_cdc.changes.windows import FlushPoint, PayloadEnd, RangeStart, Window
from strata_cdc.errors import StrataError
from strata_cdc.position.sets import Gtid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.decode_plans import DecodePlan, DecodePlans, MapPlan
    from strata_cdc.changes.plan import Range
    from strata_cdc.changes.region import Region
    from strata_cdc.changes.row_buffers import BufferedRows
    from strata_cdc.changes.windows import WindowItem
    from strata_cdc.position.sets import Writer


class RowBlock(Struct, frozen=True, eq=False):
    """Rows of one table in stream order, as positions of their cells."""

    plan: DecodePlan
    rows: BufferedRows
    region: Region
    """The bytes that the cells point into."""
    servers: tuple[Writer, ...]
    """The servers that numbered the transactions."""

    def part_before(self, seq: int, row: int) -> RowBlock:
        """The part that is in the stream before row number `row` of transaction `seq`."""
        return replace(self, rows=self.rows.part_before(seq, row))


WalkItem = RowBlock | Hole | Watermark


class _WalkedFile(Struct, frozen=True):
    """What a walk over a file needs to know about it."""

    path: str
    name: str
    form: FormatDescription
    post_headers: Ints
    is_piece: bool
    """Whether it is a landed segment, which may be a part of the server's file."""

    @classmethod
    def from_file(cls, binlog: BinlogFile) -> _WalkedFile:
        """From the open file."""
        return cls(binlog.path, binlog.name, binlog.format, post_headers(binlog.format), binlog.segment is not None)


class _WalkPosition:
    """The position of a walk, as the kernels keep it, and the servers that it has seen."""

    def __init__(self) -> None:
        """Begins before all events."""
        self.states = records(WalkState, 1)
        self.state = self.states[0]
        self.servers = ServerRegistry()
        self.key = np.zeros(GTID_BYTES, np.uint8)
        """Key of a new server, as the kernel found it."""

    def begin(self, start: RangeStart, *, is_piece: bool) -> None:
        """Goes to the beginning of a range."""
        file_range, state = start.range, self.state
        state.seq = file_range.first_seq - 1 if file_range.inside is None else file_range.first_seq
        state.row = file_range.first_row
        state.clock = file_range.clock
        state.sid = -1
        state.statement += 1
        state.position = file_range.binlog_pos
        state.delta = file_range.binlog_pos - file_range.begin
        state.is_piece = is_piece
        state.place = start.state
        if file_range.inside:
            gtid = Gtid.parse(file_range.inside)
            state.sid, state.gno = self.servers.number_of(gtid.sid), gtid.gno
            state.keys = self.servers.count

    def add_server(self) -> None:
        """Adds the new server."""
        self.servers.add(self.key)
        self.state.keys = self.servers.count

    def gtid(self) -> str | None:
        """GTID of the transaction that the walk is in."""
        sid = int(self.state.sid)
        if sid < 0 or self.state.place == State.BETWEEN:
            return None
        return str(Gtid(self.servers.sids[sid], int(self.state.gno)))


class _PlannedBuffers:
    """The row buffers of a walk, each with the plan of its rows."""

    def __init__(self, times: TimesAlong) -> None:
        """Has no buffers yet; `times` are those of the walk."""
        self.arrays = RowBuffers()
        self._times = times
        self._numbers: dict[MapPlan, int] = {}
        """The row buffer of each plan; `_plans` is the inverse."""
        self._plans: list[MapPlan] = []
        self.region: Region | None = None
        """The region of the rows in all buffers."""

    def number_of(self, plan: MapPlan) -> int:
        """The row buffer of a plan."""
        number = self._numbers.get(plan)
        if number is None:
            number = self.arrays.add(plan.cells, plan.targets, counted_only=plan.decode is None)
            self._numbers[plan] = number
            self._plans.append(plan)
        return number

    def blocks(self, servers: Sequence[Writer], number: int | None = None) -> Iterator[RowBlock]:
        """Takes the rows out of one row buffer, or out of all."""
        for buffer_number in self.arrays.waiting() if number is None else (number,):
            plan = self._plans[buffer_number].decode
            if plan is not None and self.region is not None:
                rows = self.arrays.drain(buffer_number)
                self._times.correct(rows.facts[Fact.SEQ], rows.facts[Fact.CLOCK])
                yield RowBlock(plan, rows, self.region, tuple(servers))


class RowReader:
    """A walk over one file.

    Args:
        binlog: The file; its events come from `read_windows`.
        plans: Which rows are wanted, and how they are decoded.
    """

    def __init__(self, binlog: BinlogFile, plans: DecodePlans) -> None:
        self._file, self._plans = _WalkedFile.from_file(binlog), plans
        self._walk_position, self._maps, self._times = _WalkPosition(), MapsInForce(), TimesAlong()
        self._buffers = _PlannedBuffers(self._times)
        self._range: Range | None = None
        """The range that is being read."""
        self._changed_seq = 0
        """Ordinal of the last transaction with a statement."""

    def read_blocks(self, source: Iterable[WindowItem]) -> Iterator[WalkItem]:
        """Yields blocks in the order in which buffers become full, then raises the fault that ended the walk, if any.

        Raises:
            StrataError: Bad data, with file, offset and, if it is known, GTID. All rows before it were yielded.
        """
        fault: StrataError | None = None
        try:
            for item in source:
                yield from self._take(item)
        except StrataError as error:
            fault = error
        yield from self._flush(is_last=True)
        if fault is not None:
            raise fault.located(file=self._file.path, gtid=self._walk_position.gtid())

    @property
    def seq(self) -> int:
        """Ordinal of the last transaction that began."""
        return int(self._walk_position.state.seq)

    @property
    def clock(self) -> int:
        """The commit clock at that transaction, microseconds UTC."""
        clock = np.array([self._walk_position.state.clock], np.int64)
        self._times.correct(np.array([self.seq], np.int64), clock)
        return int(clock[0])

    def check_end(self) -> None:
        """Checks that the file may end after the last range, which has been read completely.

        Raises:
            TruncatedEventError: A transaction has begun and not ended.
        """
        end = 0 if self._range is None else self._range.end
        try:
            check_end(self._walk_position.state.place, end, Word.FILE_END)
        except StrataError as error:
            raise error.located(file=self._file.path, gtid=self._walk_position.gtid()) from None

    def _take(self, item: WindowItem) -> Iterator[WalkItem]:
        match item:
            case Window():
                yield from self._walk(item)
            case RangeStart():
                self._begin(item)
            case PayloadEnd():
                state = self._walk_position.state
                state.place = check_end(state.place, item.position, Word.PAYLOAD_END)
            case FlushPoint():
                yield from self._flush()

    def _begin(self, start: RangeStart) -> None:
        """Goes to the beginning of a range."""
        before, self._range = self._range, start.range
        # After a DDL no TABLE_MAP is identified by its bytes any more: the DDL may have changed what they mean.
        sides = (None if before is None else before.prepared_seq, start.range.prepared_seq)
        if any(seq is not None and seq < self._changed_seq for seq in sides):
            self._maps.forget()
        self._walk_position.begin(start, is_piece=self._file.is_piece)
        self._times.add(start.range.first_seq, start.range.times)
        for body in start.table_maps:
            self._take_table_map(body)

    # Events -----------------------------------------------------------------------------------------

    def _walk(self, window: Window) -> Iterator[WalkItem]:
        state, region = self._walk_position.state, window.region
        state.event = state.at = 0
        state.foreign = region is not self._buffers.region
        while state.event < len(window):
            status = int(walk_events(region.buffer, region.base, window.trailer, window.events, self._tables()))
            if status == codes.FULL:
                yield from self._give(region)
            elif status != codes.DONE:
                yield from self._located(status, window)
        if window.fault is not None:
            raise window.fault

    def _tables(self) -> Tables:
        place, maps, buffers = self._walk_position, self._maps, self._buffers.arrays
        return Tables(
            place.states,
            place.servers.keys,
            place.key,
            maps.entries,
            maps.bodies,
            buffers.entries,
            buffers.columns,
            buffers.scratch,
            buffers.cells,
            buffers.facts,
            self._file.post_headers,
        )

    def _give(self, region: Region) -> Iterator[RowBlock]:
        """Takes the rows of the full buffer, or of all buffers if the next row's cells lie in another region."""
        state, servers = self._walk_position.state, self._walk_position.servers.sids
        buffer = int(state.buffer)
        if buffer >= 0:
            yield from self._buffers.blocks(servers, buffer)
            return
        yield from self._buffers.blocks(servers)
        self._buffers.region = region
        state.foreign = 0

    def _flush(self, *, is_last: bool = False) -> Iterator[WalkItem]:
        yield from self._buffers.blocks(self._walk_position.servers.sids)
        yield Watermark(self.seq + 1 if self._walk_position.state.place == State.BETWEEN else self.seq, is_last)

    # Rare events ------------------------------------------------------------------------------------

    def _located(self, status: int, window: Window) -> Iterator[WalkItem]:
        """As `_answer`, with the event's offset in its errors."""
        at = int(self._walk_position.state.event)
        try:
            yield from self._answer(status, window, at)
        except StrataError as error:
            # An inner event has no offset of its own in the file.
            error.offset = window.place(at)[0] if window.payload is None else window.payload
            raise

    def _answer(self, status: int, window: Window, at: int) -> Iterator[WalkItem]:
        """Does what the walk requests at event number `at`; it continues after this event, or repeats it."""
        if status == Request.NEW_SERVER:
            self._walk_position.add_server()
        elif status == Request.NEW_TABLE_MAP:
            refused = self._take_table_map(window.body(at))
            if refused is not None:
                yield self._hole(refused)
        else:
            yield from self._pass(status, window, at)
            state = self._walk_position.state
            state.place = state.following
            state.event = at + 1

    def _pass(self, status: int, window: Window, at: int) -> Iterator[Hole]:
        """Handles an event that is not repeated. The inner events of a payload are the next windows."""
        form = self._file.form
        if status == Request.READ_STATEMENT:
            # A DDL may have changed what any TABLE_MAP means.
            self._maps.forget()
            self._changed_seq = max(self._changed_seq, self.seq)
            query = parse_query(window.body(at), form, int(window.events.types[at]))
            yield from map(self._hole, unlogged_rows(query, form, self._plans))
        elif status == Request.REPORT_LOSS:
            yield self._hole(reported_loss(parse_incident(window.body(at)).message))
        elif status == Request.COMPARE_FORMAT:
            compare_format(window.region.buffer, *window.place(at), form)
        elif status not in (Request.INFLATE, Request.INFLATE_EVENT):
            packed = window.payload is not None
            raise fault_of(status, window.region.buffer, *window.place(at), form, packed=packed)

    def _hole(self, error: StrataError) -> Hole:
        position = int(self._walk_position.state.position)
        return Hole(error.located(gtid=self._walk_position.gtid(), file=self._file.name, offset=position), self.seq)

    def _take_table_map(self, body: bytes) -> StrataError | None:
        """Puts a TABLE_MAP in force; returns, the first time only, why its rows cannot be decoded as they are."""
        form = self._file.form
        table_map = parse_table_map(body, form.header_length(EventType.TABLE_MAP), form.flavour.vendor)
        prepared_seq = None if self._range is None else self._range.prepared_seq
        plan, refused = self._plans.find(table_map, self.seq if prepared_seq is None else prepared_seq)
        number, statement = self._buffers.number_of(plan), int(self._walk_position.state.statement)
        self._maps.add(table_map.table_id, table_map.body, number, statement)
        return refused
