"""From transactions to what a stream gives of them: batches of rows, DDL, boundaries, in spans of the stream.
Not here: which transactions (`stream.py`), the order within a span as events or lines (`rendering.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.changes.arrow import ROW_FIELDS
from strata_cdc.changes.blocks import Hole, RowReader, Watermark
from strata_cdc.changes.decode import ChangeBatch, QuarantinedRows, decode_blocks
from strata_cdc.changes.decode_plans import DecodePlans, OnMismatch
from strata_cdc.changes.plan import Range
from strata_cdc.changes.windows import FlushPace, read_windows
from strata_cdc.errors import DdlError, StrataError, StreamHoleError
from strata_cdc.schema.ddl.context import context_of, statement_text
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.ddl.named import named_databases, named_tables
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.model.definition import TableName
from strata_cdc.streams.events import Ddl
from strata_cdc.streams.unreadable import UnreadableRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.binlog.sources.port import Transactions
    from strata_cdc.changes.decode import Decoded
    from strata_cdc.changes.limits import DecodeLimits
    from strata_cdc.streams.events import TransactionPlace
    from strata_cdc.streams.places import Places
    from strata_cdc.streams.positions import Mask
    from strata_cdc.streams.prepared import PreparedAlong, PreparedRows
    from strata_cdc.streams.versions import StatementVersions, StreamVersions

_FACTS: Final = [field.name for field in ROW_FIELDS]
_END: Final = 1 << 62
_NOWHERE: Final = (_END, 0)
"""Behind all transactions and rows."""
_NONE: Final = np.zeros(0, np.int64)
Part = TypeVar("Part")


class StreamBatch(Struct):
    """A piece of the stream: everything in it stands behind what the spans before it have."""

    places: Mapping[int, TransactionPlace]
    """By ordinal; those of all that is in it, and maybe others."""
    batches: list[ChangeBatch] = field(default_factory=list)
    """Rows, table by table."""
    ddl: list[Ddl] = field(default_factory=list)
    ended: Ints = _NONE
    """Ordinals of the transactions that end in it, in order."""
    unreadable: list[UnreadableRows] = field(default_factory=list)
    """Rows with a value that cannot be read, table by table; they are in none of the batches."""

    def __bool__(self) -> bool:
        return bool(self.batches or self.unreadable or self.ddl or len(self.ended))

    def joined(self, behind: StreamBatch) -> StreamBatch:
        """This and what stands behind it, of the same item."""
        return StreamBatch(
            self.places,
            self.batches + behind.batches,
            self.ddl + behind.ddl,
            np.concatenate([self.ended, behind.ended]),
            self.unreadable + behind.unreadable,
        )

    @property
    def rows(self) -> list[tuple[TableName, pa.RecordBatch]]:
        """All rows with their tables, whether they can be read or not: where they are in the stream is known."""
        found: list[ChangeBatch | UnreadableRows] = [*self.batches, *self.unreadable]
        return [(some.table, some.batch) for some in found]

    @property
    def commits(self) -> list[TransactionPlace]:
        """The transactions that end in it."""
        return [self.places[seq] for seq in self.ended.tolist()]

    @property
    def last(self) -> TransactionPlace | None:
        """The last of them."""
        return self.places[int(self.ended[-1])] if len(self.ended) else None


class StreamFilter(Struct, frozen=True):
    """What of the stream a reader wants."""

    table: Callable[[TableName], bool]
    database: Callable[[str], bool]
    """Whether a database is users'."""
    columns: frozenset[str] | None = None
    """In lower case; None for all."""
    everything: bool = True
    """Whether the boundaries of transactions are wanted that have nothing else."""


class _SameColumns(Mapping[TableName, frozenset[str]]):
    """The same columns of every table."""

    def __init__(self, columns: frozenset[str] | None) -> None:
        self._columns = columns

    def __getitem__(self, table: TableName) -> frozenset[str]:
        if self._columns is None:
            raise KeyError(table)
        return self._columns

    def __iter__(self) -> Iterator[TableName]:
        return iter(())

    def __len__(self) -> int:
        return 0 if self._columns is None else 1


class _Pieces(Struct):
    """Consecutive bytes that are decoded from one file: of the item, or of a prepared transaction."""

    rows: PreparedRows | None
    ranges: list[Range] = field(default_factory=list)


class _Faults:
    """The fault that stands first in the stream."""

    def __init__(self) -> None:
        self.first: StrataError | None = None
        self.at = _END
        """Ordinal of the first transaction that does not end any more."""
        self.behind = _NOWHERE
        """Transaction and row from which on none is given."""

    def take(self, error: StrataError, at: int, behind: tuple[int, int]) -> None:
        """Keeps it, if none stands in front of it."""
        if self.first is None or behind < self.behind:
            self.first, self.at, self.behind = error, at, behind


class Decoding:
    """Decodes the transactions of one stream, in its order."""

    def __init__(
        self,
        versions: StreamVersions,
        prepared: PreparedAlong,
        wanted: StreamFilter,
        turn: AbstractContextManager[object],
        limits: DecodeLimits,
    ) -> None:
        """Begins with none; what is decoded is decoded in a turn, which several streams may share: threads that have
        little to do between two calls of kernels spend more on handing Python's lock to each other than they win."""
        self._versions, self._prepared, self._wanted, self._turn = versions, prepared, wanted, turn
        self._plans = DecodePlans(
            versions.lookup,
            wanted=wanted.table,
            on_mismatch=OnMismatch.FAIL,
            columns=_SameColumns(wanted.columns),
        )
        self._pace = FlushPace(limits)
        self._unended = 0
        """Ordinal of the first transaction that has not ended in front of the rows that have been given."""
        self._touched: set[int] = set()
        """Ordinals of transactions that have something, and have not ended."""

    def read(self, item: Transactions, places: Places, given: Mapping[int, int]) -> Iterator[StreamBatch]:
        """What some transactions of an item have; then why there is no more, if that is so.

        Args:
            item: The item.
            places: Those of it that are wanted.
            given: How many steps of a transaction a reader has, by ordinal.

        Raises:
            StrataError: Rows are missing, or nobody knows where they are; all in front of them has been given.
        """
        # Others need not wait for a lake.
        item.bytes()
        parts = self._read(item, places, given)
        while True:
            with self._turn:
                part = next(parts, None)
            if part is None:
                return
            yield part

    def _read(self, item: Transactions, places: Places, given: Mapping[int, int]) -> Iterator[StreamBatch]:
        open_, faults = self._open(item, places, given), _Faults()
        last = StreamBatch(places)
        try:
            for at, step in self._steps(item, places):
                _put(step, at, open_, faults)
                if isinstance(step, Watermark):
                    self._unended = step.unended_seq
                    behind = min(faults.behind, step.missing_from or _NOWHERE)
                    found = self._cut(open_, min(self._unended, faults.at), given, behind)
                    # Behind the last rows there is mostly no more than transactions without any.
                    yield last if step.is_last else last.joined(found)
                    last = found if step.is_last else StreamBatch(places)
                    if self._unended >= faults.at:
                        break
        except StrataError as error:
            # Of this transaction the rows in front of the fault have been given.
            faults.take(error, self._unended, (self._unended, _END))
        yield last.joined(self._cut(open_, faults.at, given, faults.behind))
        if faults.first is not None:
            raise faults.first

    def _open(self, item: Transactions, places: Places, given: Mapping[int, int]) -> StreamBatch:
        """All that is known without rows."""
        open_, seqs = StreamBatch(places, ended=places.seqs), places.with_statements()
        if seqs:
            made = self._versions.made_between(seqs[0], seqs[-1])
            found = (one for seq in seqs for one in self._ddl(item, places[seq], made))
            open_.ddl = [one for one in found if one.number > given.get(one.place.record.seq, 0)]
        return open_

    def pass_over(self, item: Transactions, record: TransactionRecord) -> None:
        """Takes a transaction that has to do with XA, and is not wanted itself."""
        with suppress(StreamHoleError):
            self._prepared.take(item, record)

    # Rows -----------------------------------------------------------------------------------------

    def _steps(self, item: Transactions, places: Places) -> Iterator[tuple[int, Decoded]]:
        """Steps of decoding, each with the ordinal of the transaction that the walk is in."""
        self._unended = int(places.seqs[0])
        chain = None if item.is_landed else item.chain()
        for pieces in self._pieces(item, places):
            if pieces.rows is None:
                yield from self._decode(item.bytes(), pieces.ranges, chain)
            else:
                with pieces.rows.open() as binlog:
                    yield from self._decode(binlog, [pieces.rows.range], None)

    def _decode(
        self, binlog: BinlogFile, ranges: Sequence[Range], chain: EventChain | None
    ) -> Iterator[tuple[int, Decoded]]:
        reader = RowReader(binlog, self._plans)
        for step in decode_blocks(reader.read(read_windows(binlog, ranges, chain, self._pace)), binlog.name):
            yield reader.seq, step

    def _pieces(self, item: Transactions, places: Places) -> Iterator[_Pieces]:
        batch, rows, begin = places.batch, places.rows, 0
        marked = np.flatnonzero(np.isin(rows, [row for row, _ in batch.marks])) if batch.marks else _NONE
        for at in marked.tolist():
            if begin < at:
                yield _Pieces(None, _ranges(batch, rows[begin:at]))
            begin = at + 1
            record = batch.record(int(rows[at]))
            self._unended = record.seq
            prepared = self._prepared.take(item, record)
            if prepared is not None:
                yield _Pieces(prepared)
        if begin < len(rows):
            yield _Pieces(None, _ranges(batch, rows[begin:]))

    # Statements -----------------------------------------------------------------------------------

    def _ddl(
        self, item: Transactions, place: TransactionPlace, made: Mapping[tuple[int, int], StatementVersions]
    ) -> Iterator[Ddl]:
        record = place.record
        form = item.bytes().format
        for number, (_, query, _) in enumerate(item.statements(record), start=1):
            try:
                text = statement_text(query)
            except DdlError as fault:
                text = fault.ddl
            changes = read_ddl_or_gap(text, context_of(query, form))
            databases = named_databases(changes) or {query.database}
            if not changes or not any(map(self._wanted.database, databases)):
                continue
            mine = made.get((record.seq, number))
            tables = {one for one in named_tables(changes) | (mine.tables if mine else set()) if one.table}
            if not self._wanted.everything and not any(map(self._wanted.table, tables)):
                continue
            version = mine.version if mine else None
            named = tuple(sorted(map(str, tables)))
            yield Ddl(place, as_one_looks_at(text), number, named, version, frozenset(tables))

    # Spans ----------------------------------------------------------------------------------------

    def _cut(self, open_: StreamBatch, at: int, given: Mapping[int, int], behind: tuple[int, int]) -> StreamBatch:
        """Takes away what stands in front of transaction `at`, and of that one what there is of it but for its end; in
        front of `_END` all. From the transaction and row `behind` on no row is given."""
        span = StreamBatch(open_.places)
        for batch in open_.batches:
            keep = _behind(batch.batch, open_.places, given, behind)
            if keep.any():
                span.batches.append(batch if keep.all() else replace(batch, batch=batch.batch.filter(keep)))
        for some in open_.unreadable:
            keep = _behind(some.batch, open_.places, given, behind)
            if keep.any():
                span.unreadable.append(some.chosen(keep))
        open_.batches, open_.unreadable = [], []
        span.ddl, open_.ddl = _parted(open_.ddl, lambda one: one.place.record.seq <= at)
        count = int(np.searchsorted(open_.ended, at))
        ended, open_.ended = open_.ended[:count], open_.ended[count:]
        span.ended = ended if self._wanted.everything else self._that_have_something(span, ended)
        return span

    def _that_have_something(self, span: StreamBatch, ended: Ints) -> Ints:
        """Of the transactions that end in a span those of which something was given, there or in front of it."""
        for _, rows in span.rows:
            self._touched.update(np.unique(row_seqs(rows)).tolist())
        self._touched.update(one.place.record.seq for one in span.ddl)
        if not self._touched:
            return _NONE
        found = ended[np.isin(ended, list(self._touched))]
        self._touched.difference_update(found.tolist())
        return found


def _put(step: Decoded, at: int, open_: StreamBatch, faults: _Faults) -> None:
    """Puts what was decoded to what is open, or to the faults; `at` is the ordinal of the walk's transaction."""
    if isinstance(step, ChangeBatch):
        open_.batches.append(step)
    elif isinstance(step, QuarantinedRows):
        open_.unreadable.append(UnreadableRows.of(step))
    elif isinstance(step, Hole):
        faults.take(step.error, at, (at, 0))


def _parted(items: list[Part], belongs: Callable[[Part], bool]) -> tuple[list[Part], list[Part]]:
    """The first items for which something holds, and the rest."""
    count = next((at for at, item in enumerate(items) if not belongs(item)), len(items))
    return items[:count], items[count:]


def _ranges(batch: TransactionBatch, rows: Ints) -> list[Range]:
    """Bytes without a break between them, of some transactions of a batch."""
    breaks = np.flatnonzero(batch.begins[rows[1:]] != batch.ends[rows[:-1]]) + 1
    firsts, lasts = rows[np.append(0, breaks)], rows[np.append(breaks - 1, len(rows) - 1)]
    # The clock in front of a range is no later than its own time, and that is all that matters.
    seqs, clocks = firsts + batch.first_seq, batch.committed_at[firsts]
    columns = (batch.begins[firsts], batch.ends[lasts], batch.positions[firsts], seqs, clocks)
    return [Range(*numbers) for numbers in zip(*(column.tolist() for column in columns), strict=True)]


def _numbers(batch: pa.RecordBatch, name: str) -> Ints:
    """A column of numbers among those that every change has; a column of the table may be called the same."""
    column = batch.column(batch.num_columns - len(_FACTS) + _FACTS.index(name))
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def row_seqs(batch: pa.RecordBatch) -> Ints:
    """Ordinals of the rows' transactions."""
    return _numbers(batch, "_seq")


def row_ordinals(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ordinals of the rows in their transactions."""
    return _numbers(batch, "_row")


def _behind(
    batch: pa.RecordBatch, places: Mapping[int, TransactionPlace], given: Mapping[int, int], behind: tuple[int, int]
) -> Mask:
    """Which rows a reader does not have, in front of the transaction and row `behind`."""
    if not given and behind == _NOWHERE:
        return np.ones(batch.num_rows, np.bool_)
    seqs, rows = row_seqs(batch), row_ordinals(batch)
    keep: Mask = (seqs < behind[0]) | ((seqs == behind[0]) & (rows < behind[1]))
    for seq, steps in given.items():
        if seq in places:
            keep &= (seqs != seq) | (rows + 1 + places[seq].statements > steps)
    return keep
