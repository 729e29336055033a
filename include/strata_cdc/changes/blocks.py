"""From events to blocks of rows: a walk over windows of events, which gives the rows of each table as its row buffer
fills up, and why other rows are missing.
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
from strata_cdc.binlog.kernels.layout import Tables, WalkState
from strata_cdc.binlog.kernels.records import records
from strata_cdc.binlog.kernels.stream import walk_events
from strata_cdc.binlog.kernels.words import Request, State, Word
from strata_cdc.changes.maps_in_force import MapsInForce
from strata_cdc.changes.row_buffers import RowBuffers
from strata_cdc.changes.windows import FlushPoint, PayloadEnd, RangeStart, Window
from strata_cdc.errors import StatementFormatError, StrataError, StreamHoleError
from strata_cdc.position.sets import Gtid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.changes.decode_plans import DecodePlan, DecodePlans, MapPlan
    from strata_cdc.changes.region import Region
    from strata_cdc.changes.row_buffers import BufferedRows
    from strata_cdc.changes.windows import Source
    from strata_cdc.position.sets import Sid


class RowBlock(Struct, frozen=True, eq=False):
    """Rows of one table in stream order, as places of their cells."""

    plan: DecodePlan
    rows: BufferedRows
    region: Region
    """What the cells point into."""
    servers: tuple[Sid, ...]
    """Who numbered the transactions."""

    def in_front_of(self, seq: int, row: int) -> RowBlock:
        """The part that stands in the stream before row number `row` of transaction `seq`."""
        return replace(self, rows=self.rows.in_front_of(seq, row))


class Hole(Struct, frozen=True):
    """Rows that changed and are not in the log."""

    error: StrataError
    """What is missing, with its place; a table only if one can be told."""


class Watermark(Struct, frozen=True):
    """All rows in front of this point of the stream have been given."""

    unended_seq: int
    """Ordinal of the first transaction that has not ended in front of it."""
    is_last: bool = False
    """Whether no more is read, or can be."""
    missing_from: tuple[int, int] | None = None
    """Transaction and row in front of which all rows have been given, where that one cannot be had; of other tables
    some may have been given from behind it."""


Step = RowBlock | Hole | Watermark


class RowReader:
    """Where a walk over one file stands.

    Args:
        binlog: The file; what is read of it comes from `read_windows`.
        plans: Which rows are wanted, and how they are decoded.
    """

    def __init__(self, binlog: BinlogFile, plans: DecodePlans) -> None:
        self._path, self._name, self._form = binlog.path, binlog.name, binlog.format
        self._is_piece = binlog.segment is not None
        self._plans = plans
        self._states = records(WalkState, 1)
        self._state = self._states[0]
        self._key = np.zeros(GTID_BYTES, np.uint8)
        self._post_headers = post_headers(binlog.format)
        self._servers = ServerRegistry()
        self._maps = MapsInForce()
        self._buffers = RowBuffers()
        self._planned: dict[MapPlan, int] = {}
        """The row buffer of each plan; `_by_buffer` is the other way round."""
        self._by_buffer: list[MapPlan] = []
        self._region: Region | None = None
        """Of the rows in all buffers."""
        self._prepared_seq: int | None = None
        self._changed_seq = 0
        """Ordinal of the last transaction with a statement."""
        self._end = 0

    def read(self, source: Iterable[Source]) -> Iterator[Step]:
        """Blocks in the order in which buffers fill up; then the fault that ended the walk, if there was one.

        Raises:
            StrataError: Bad data, with file, offset and, where it is known, GTID. All rows before it were given.
        """
        fault: StrataError | None = None
        try:
            for item in source:
                yield from self._take(item)
        except StrataError as error:
            fault = error
        yield from self._flush(is_last=True)
        if fault is not None:
            raise fault.located(file=self._path, gtid=self.gtid())

    @property
    def seq(self) -> int:
        """Ordinal of the last transaction that began."""
        return int(self._state.seq)

    @property
    def clock(self) -> int:
        """The commit clock at that transaction, microseconds UTC."""
        return int(self._state.clock)

    def gtid(self) -> str | None:
        """GTID of the transaction that the walk is in."""
        sid = int(self._state.sid)
        if sid < 0 or self._state.place == State.BETWEEN:
            return None
        return str(Gtid(self._servers.sids[sid], int(self._state.gno)))

    def check_end(self) -> None:
        """Says that the file ends with the last range, all of which has been walked.

        Raises:
            TruncatedEventError: A transaction has begun and not ended.
        """
        try:
            check_end(self._state.place, self._end, Word.FILE_END)
        except StrataError as error:
            raise error.located(file=self._path, gtid=self.gtid()) from None

    def _take(self, item: Source) -> Iterator[Step]:
        match item:
            case Window():
                yield from self._walk(item)
            case RangeStart():
                self._begin(item)
            case PayloadEnd():
                self._state.place = check_end(self._state.place, item.position, Word.PAYLOAD_END)
            case FlushPoint():
                yield from self._flush()

    def _begin(self, start: RangeStart) -> None:
        """Goes to the beginning of a range."""
        piece, state = start.range, self._state
        self._end = piece.end
        self._forget_changed(piece.prepared_seq)
        state.seq = piece.first_seq - 1 if piece.inside is None else piece.first_seq
        state.row = piece.first_row
        state.clock = piece.clock
        state.sid = -1
        state.statement += 1
        state.position = piece.binlog_pos
        state.delta = piece.binlog_pos - piece.begin
        state.is_piece = self._is_piece
        state.place = start.state
        if piece.inside:
            gtid = Gtid.parse(piece.inside)
            state.sid, state.gno = self._servers.number_of(gtid.sid), gtid.gno
            state.keys = self._servers.count
        for body in start.table_maps:
            self._take_table_map(body)

    def _forget_changed(self, prepared_seq: int | None) -> None:
        """Lets no TABLE_MAP be known by its bytes on the other side of a DDL, which may have changed what they mean."""
        before, self._prepared_seq = self._prepared_seq, prepared_seq
        if any(seq is not None and seq < self._changed_seq for seq in (before, prepared_seq)):
            self._maps.forget()

    # Events -----------------------------------------------------------------------------------------

    def _walk(self, window: Window) -> Iterator[Step]:
        state, region = self._state, window.region
        state.event = state.at = 0
        state.foreign = region is not self._region
        while state.event < len(window):
            status = int(walk_events(region.buffer, region.base, window.trailer, window.events, self._tables()))
            if status == codes.FULL:
                yield from self._give(region)
            elif status != codes.DONE:
                yield from self._located(status, window)
        if window.fault is not None:
            raise window.fault

    def _tables(self) -> Tables:
        buffers = self._buffers
        return Tables(
            self._states,
            self._servers.keys,
            self._key,
            self._maps.entries,
            self._maps.bodies,
            buffers.entries,
            buffers.columns,
            buffers.scratch,
            buffers.cells,
            buffers.facts,
            self._post_headers,
        )

    def _give(self, region: Region) -> Iterator[RowBlock]:
        """The rows of the buffer that is full; of all, where the next row's cells lie in another region."""
        buffer = int(self._state.buffer)
        if buffer >= 0:
            yield from self._block(buffer)
            return
        yield from self._all_blocks()
        self._region = region
        self._state.foreign = 0

    def _all_blocks(self) -> Iterator[RowBlock]:
        for buffer in self._buffers.waiting():
            yield from self._block(buffer)

    def _flush(self, *, is_last: bool = False) -> Iterator[Step]:
        yield from self._all_blocks()
        yield Watermark(self.seq + 1 if self._state.place == State.BETWEEN else self.seq, is_last)

    def _block(self, buffer: int) -> Iterator[RowBlock]:
        plan = self._by_buffer[buffer].decode
        if plan is not None and self._region is not None:
            yield RowBlock(plan, self._buffers.take(buffer), self._region, tuple(self._servers.sids))

    # Rare events ------------------------------------------------------------------------------------

    def _located(self, status: int, window: Window) -> Iterator[Step]:
        """As `_answer`, with the event's offset in what is wrong with it."""
        at = int(self._state.event)
        try:
            yield from self._answer(status, window, at)
        except StrataError as error:
            # An inner event has no offset of its own in the file.
            error.offset = window.place(at)[0] if window.payload is None else window.payload
            raise

    def _answer(self, status: int, window: Window, at: int) -> Iterator[Step]:
        """Does what the walk asks for at event number `at`, and goes on behind it, or with it once more."""
        state = self._state
        if status == Request.NEW_SERVER:
            self._servers.add(self._key)
            state.keys = self._servers.count
        elif status == Request.NEW_TABLE_MAP:
            refused = self._take_table_map(window.body(at))
            if refused is not None:
                yield self._hole(refused)
        else:
            yield from self._pass(status, window, at)
            state.place = state.following
            state.event = at + 1

    def _pass(self, status: int, window: Window, at: int) -> Iterator[Hole]:
        """Does what an event asks for that is not met again. The inner events of a payload are the next windows."""
        if status == Request.READ_STATEMENT:
            yield from self._take_statement(window, at)
        elif status == Request.REPORT_LOSS:
            yield self._lost(parse_incident(window.body(at)).message)
        elif status == Request.COMPARE_FORMAT:
            compare_format(window.region.buffer, *window.place(at), self._form)
        elif status != Request.INFLATE:
            packed = window.payload is not None
            raise fault_of(status, window.region.buffer, *window.place(at), self._form, packed=packed)

    def _lost(self, message: str) -> Hole:
        return self._hole(
            StreamHoleError(
                f"the server reports that it lost events here: {message}",
                remedy="What was changed is not in the binlog: take a new baseline behind this point.",
            )
        )

    def _hole(self, error: StrataError) -> Hole:
        position = int(self._state.position)
        return Hole(error.located(gtid=self.gtid(), file=self._name, offset=position))

    def _take_table_map(self, body: bytes) -> StrataError | None:
        """Puts a TABLE_MAP in force; gives the reason why its rows cannot be decoded as they are, the first time."""
        table_map = parse_table_map(body, self._form.header_length(EventType.TABLE_MAP))
        plan, refused = self._plans.find(table_map, self.seq if self._prepared_seq is None else self._prepared_seq)
        if plan not in self._planned:
            self._planned[plan] = self._buffers.add(plan.cells, plan.targets, counted_only=plan.decode is None)
            self._by_buffer.append(plan)
        statement = int(self._state.statement)
        self._maps.add(table_map.table_id, table_map.body, self._planned[plan], statement)
        return refused

    def _take_statement(self, window: Window, at: int) -> Iterator[Hole]:
        # Imported here: the grammar takes its time to load, and most slices have no statement.
        from strata_cdc.schema.ddl.context import context_of, statement_text  # noqa: PLC0415  see above
        from strata_cdc.schema.ddl.dml import tables_changed_by  # noqa: PLC0415  see above

        query = parse_query(window.body(at), self._form, int(window.events.types[at]))
        # A DDL may have changed what any TABLE_MAP means.
        self._maps.forget()
        self._changed_seq = max(self._changed_seq, self.seq)
        for table in tables_changed_by(statement_text(query), context_of(query, self._form)) or ():
            if self._plans.is_decoded(table):
                yield self._hole(
                    StatementFormatError(
                        f"rows of {table} were changed by a statement, so the binlog does not hold them",
                        table=str(table),
                        remedy="Set `binlog_format=ROW` on the server; take a new baseline behind this point.",
                    )
                )
