"""Reads the rows of a SELECT as record batches: raw packets, a walk over them, the decoder's gathers.
Not here: the session and the statement (`statement.py`), which keys are wanted (`keys.py`), transactions around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.binlog.kernels import result_rows
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.packets import PACKET_HEADER_BYTES, Packet
from strata_cdc.binlog.kernels.result_rows import FORM_FIELDS, IN_PIECES, LONGEST_PIECE, ROWS, STATE_FIELDS, USED
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from strata_cdc.binlog.protocol.result_sets import ResultSet
from strata_cdc.changes.arrow import arrow_type
from strata_cdc.changes.faults import CellFault, CorruptCell, Faults
from strata_cdc.changes.region import MARGIN, Region
from strata_cdc.changes.select.forms import SelectColumn, plan_column
from strata_cdc.changes.select.keys import literal
from strata_cdc.changes.select.statement import select_statement
from strata_cdc.errors import (
    BadData,
    CorruptEventError,
    SchemaMismatchError,
    SourceUnavailableError,
    UndecodableTextError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Bytes, Cells
    from strata_cdc.binlog.protocol.client import Client
    from strata_cdc.schema.model.definition import TableDefinition, TableName

BATCH_ROWS: Final = 1 << 16
BATCH_BYTES: Final = 8 << 20
"""Bytes of a batch's cells; a longer row gets what it needs."""
_READ_BYTES: Final = 1 << 20
"""Bytes of one read: the server sends the next bytes while these are parsed."""
_LONGEST_ROW: Final = 4 << 30
"""More than any server's `max_allowed_packet` allows for all columns together."""


class ServerSelect(Struct, frozen=True):
    """What to read."""

    name: TableName
    definition: TableDefinition
    """The expected definition; its columns are requested by name, invisible columns included."""
    tail: str = ""
    """What comes after the table's name: index hint, WHERE, ORDER BY, LIMIT."""
    border: tuple[str, ...] = ()
    """Columns whose last values are wanted as literals."""
    field_names: tuple[str, ...] = ()
    """Names of the columns in the batches; if empty, those of the table."""
    verbatim: Mapping[str, str] = {}
    """From columns with values that may fit no Arrow type to the name of a column with the texts of such values."""


class SelectedRows:
    """Rows of one SELECT, read once."""

    def __init__(self, connection: Client, selection: ServerSelect) -> None:
        """Nothing is sent before the first batch is requested."""
        self.selection = selection
        self.rows = 0
        self.bytes = 0
        """Bytes of packets so far."""
        self.invalid: dict[str, int] = {}
        """How many values of a column its Arrow type cannot distinguish from others, for example zero dates, which are
        NULL."""
        self.border: tuple[str, ...] | None = None
        """After the last batch: the last row's values of the requested columns, as literals; None without rows."""
        self._connection = connection
        self._plans = tuple(map(plan_column, selection.definition.columns))
        names = selection.field_names or tuple(plan.name for plan in self._plans)
        own = [
            pa.field(name, arrow_type(column)) for name, column in zip(names, selection.definition.columns, strict=True)
        ]
        self.schema = pa.schema([*own, *(pa.field(name, pa.string()) for name in selection.verbatim.values())])
        self._forms = np.array([(plan.form, plan.size) for plan in self._plans], np.int64).reshape(-1, FORM_FIELDS)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches. A reader that stops early closes the iterator, which closes the connection."""
        statement = select_statement(self.selection.name, self._plans, self.selection.tail)
        result = ResultSet(self._connection, statement)
        try:
            self._check_columns(result)
            yield from self._batches(result)
            result.finish()
        finally:
            result.abandon()

    def _check_columns(self, result: ResultSet) -> None:
        for plan, column in zip(self._plans, result.columns, strict=True):
            sign = plan.is_unsigned
            if column.type_code not in plan.type_codes or (sign is not None and sign != column.is_unsigned):
                raise SchemaMismatchError(
                    f"column {plan.name} arrives with type {column.type_code}, which its definition does not have",
                    table=str(self.selection.name),
                    remedy="The table was altered meanwhile: read its definition again.",
                )

    def _batches(self, result: ResultSet) -> Iterator[pa.RecordBatch]:
        packets = _Packets(result)
        cells = _Cells(self._forms)
        while True:
            status = packets.walk(cells)
            self.bytes = packets.consumed
            if status == FULL and not cells.count:
                cells.grow(packets.next_row_bytes())
            elif status in (FULL, Packet.END_OF_STREAM) and cells.count:
                yield self._batch(cells)
                cells.clear()
            if status == Packet.END_OF_STREAM:
                return

    def _batch(self, cells: _Cells) -> pa.RecordBatch:
        region = Region(cells.out, 0)
        arrays, texts = [], []
        for at, plan in enumerate(self._plans):
            array, faults = self._gathered(plan, region, cells.column(at))
            arrays.append(array)
            if plan.name in self.selection.verbatim:
                texts.append(_texts_of(faults, cells.count))
        self.rows += cells.count
        if self.selection.border:
            self.border = self._last(region, cells)
        return pa.RecordBatch.from_arrays([*arrays, *texts], schema=self.schema)

    def _gathered(self, plan: SelectColumn, region: Region, places: Cells) -> tuple[pa.Array, list[CellFault]]:
        faults = Faults()
        try:
            array = plan.gather(region, places, faults)
        except CorruptCell as error:
            raise CorruptEventError(f"column {plan.name}: {error.reason}", table=str(self.selection.name)) from None
        fault = next((cell_fault for cell_fault in faults.found if cell_fault.kind.quarantines), None)
        if fault is not None:
            raise UndecodableTextError(
                f"column {plan.name} has a value that is {fault.reason}: {fault.verbatim[:100]}",
                table=str(self.selection.name),
                remedy="Correct the row on the server; a change log keeps such rows in quarantine.",
            )
        if faults.found:
            self.invalid[plan.name] = self.invalid.get(plan.name, 0) + len(faults.found)
        return array, faults.found

    def _last(self, region: Region, cells: _Cells) -> tuple[str, ...]:
        literals = []
        for name in self.selection.border:
            at = next(k for k, plan in enumerate(self._plans) if plan.name == name)
            cell_at = int(cells.column(at)[-1])
            if cell_at <= ABSENT_CELL:
                raise BadData(f"column {name} of a key is NULL", table=str(self.selection.name))
            literals.append(literal(self.selection.definition.columns[at], self._plans[at], region, cell_at))
        return tuple(literals)


def _texts_of(faults: list[CellFault], count: int) -> pa.Array:
    if not faults:
        return pa.nulls(count, pa.string())
    rows = np.array([fault.row for fault in faults])
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(faults))
    texts = pa.array([fault.verbatim for fault in faults], pa.string())
    return texts.take(pa.array(places, mask=places < 0))


class _Cells:
    """The cells of a batch."""

    def __init__(self, forms: Any) -> None:
        self.forms = forms
        self._places = np.zeros(BATCH_ROWS * len(forms), np.uint32)
        self.state = np.zeros(STATE_FIELDS, np.int64)
        self.out: Bytes = np.empty(0, np.uint8)
        self.grow(BATCH_BYTES)

    @property
    def places(self) -> Cells:
        return self._places

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.state[ROWS])

    def column(self, at: int) -> Cells:
        """The cells of one column."""
        stride = len(self._places) // len(self.forms)
        return self._places[at * stride : at * stride + self.count]

    def clear(self) -> None:
        """Begins the next batch. The arrays of the last batch are copies."""
        self.state[ROWS], self.state[USED] = 0, MARGIN

    def grow(self, size: int) -> None:
        """Makes space for cells of `size` bytes; there must be no cells."""
        self.out = np.empty(max(BATCH_BYTES, size + 32 * len(self.forms)), np.uint8)
        self.clear()


class _Packets:
    """The bytes that have arrived and were not parsed yet."""

    def __init__(self, result: ResultSet) -> None:
        self._result = result
        self._data: Bytes = np.empty(2 * _READ_BYTES, np.uint8)
        self._begin = self._end = 0
        self.consumed = 0
        """Bytes that were parsed."""

    def walk(self, cells: _Cells) -> int:
        """Takes rows until the batch is full or no rows are left; returns FULL or END_OF_STREAM.

        Raises:
            pymysql.err.MySQLError: The server ends the rows with an error, or goes away.
        """
        while True:
            status, at = result_rows.walk_rows(
                self._data, self._begin, self._end, cells.forms, cells.places, cells.out, cells.state
            )
            self._advance(int(at) - self._begin)
            if status == Packet.MORE:
                self._read(PACKET_HEADER_BYTES + self._length(self._begin))
            elif status == IN_PIECES:
                if not self._walk_pieces(cells):
                    return FULL
            elif status == Packet.ERROR_PACKET:
                self._result.fail(self._packet())
            elif status == CORRUPT:
                raise SourceUnavailableError("rows arrive that do not follow the protocol")
            else:
                return int(status)

    def next_row_bytes(self) -> int:
        """Bytes of the next row, with all its packets."""
        total, at = 0, self._begin
        while True:
            self._require(at - self._begin + PACKET_HEADER_BYTES)
            length = self._length(at)
            total += length
            if length < LONGEST_PIECE:
                return total
            at += PACKET_HEADER_BYTES + length

    def _walk_pieces(self, cells: _Cells) -> bool:
        """Takes a row of several packets; False if the batch has no space for it."""
        total = self.next_row_bytes()
        if total > _LONGEST_ROW:
            raise SourceUnavailableError(f"a row says that it has {total:,} bytes")
        if cells.count or total + 32 * len(cells.forms) > len(cells.out):
            if cells.count:
                return False
            cells.grow(total)
        size = total + PACKET_HEADER_BYTES * (total // LONGEST_PIECE + 1)
        self._require(size)
        row = np.empty(total, np.uint8)
        at, to = self._begin, 0
        while to < total or at < self._begin + size:
            length = self._length(at)
            begin = at + PACKET_HEADER_BYTES
            row[to : to + length] = self._data[begin : begin + length]
            at, to = begin + length, to + length
        self._advance(size)
        if result_rows.walk_row(row, 0, total, cells.forms, cells.places, cells.out, cells.state) != DONE:
            raise SourceUnavailableError("a row arrives that does not follow the protocol")
        return True

    def _packet(self) -> bytes:
        begin = self._begin + PACKET_HEADER_BYTES
        return self._data[begin : begin + self._length(self._begin)].tobytes()

    def _length(self, at: int) -> int:
        if at + PACKET_HEADER_BYTES > self._end:
            return 0
        return int.from_bytes(self._data[at : at + 3].tobytes(), "little")

    def _advance(self, size: int) -> None:
        self._begin += size
        self.consumed += size

    def _require(self, size: int) -> None:
        """Reads until there are `size` bytes from `_begin` on."""
        while self._end - self._begin < size:
            self._read(size)

    def _read(self, size: int) -> None:
        """Reads some more bytes; makes space for `size` bytes from `_begin` on."""
        left = self._end - self._begin
        if self._begin + max(size, left + _READ_BYTES) > len(self._data):
            data = self._data
            if max(size, left + _READ_BYTES) > len(data):
                self._data = np.empty(max(size, left) + 2 * _READ_BYTES, np.uint8)
            self._data[:left] = data[self._begin : self._end].copy()
            self._begin, self._end = 0, left
        self._end += self._result.read_into(self._data[self._end : self._end + max(_READ_BYTES, size - left)])
