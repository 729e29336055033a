"""The transaction index on disk: one Parquet file beside each segment, one row per transaction.
Not here: finding a segment (`landing/landed.py`), making transactions from events (`scanner.py`)."""

from __future__ import annotations

import json
from contextlib import contextmanager
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from strata_cdc.arrow_columns import from_lists, from_numbers, to_numbers, to_texts
from strata_cdc.binlog.events.batch import TransactionBatch, add_gtids
from strata_cdc.binlog.events.model import XaMark
from strata_cdc.binlog.events.seal import BLANK, FIELD, footer_bytes, read_seal, seal_file
from strata_cdc.binlog.events.xa import PreparedTransaction  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.errors import DamagedFileError, DamagedIndexError
from strata_cdc.files.storage import lake_errors
from strata_cdc.files.stored import decode_stored
from strata_cdc.position.executed import ExecutedBuilder, parse_executed
from strata_cdc.position.sets import DomainWriter, Sid
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.files.storage import Folder
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Writer

FORMAT = 4
"""Number of the stored form. Every older form can still be opened: in form 1 every landing was by GTID, forms 1 and 2
have no checksums (`seal.py`). Those before 4 have nothing about XA, and are made again from their segments before their
transactions are read (`landing/repair.py`)."""
SUFFIX = ".index.parquet"
_METADATA = b"strata.segment"
_TAIL_BYTES = 1 << 16
_REMEDY = "`strata land` makes it again from its segment."

_TEXT = pa.dictionary(pa.int32(), pa.string())
_ENTRY = pa.struct([("database", _TEXT), ("table", _TEXT), ("row_events", pa.int64()), ("rows", pa.int64())])
_SPLIT = pa.struct([("offset", pa.int64()), ("row", pa.int64()), ("table_maps", pa.list_(pa.int64()))])
SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("sid", _TEXT),
        ("gno", pa.int64()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
        ("binlog_pos", pa.int64()),
        ("committed_at", pa.int64()),
        ("commit_timestamp", pa.int64()),
        ("tables", pa.list_(_ENTRY)),
        ("ddl_offsets", pa.list_(pa.int64())),
        ("splits", pa.list_(_SPLIT)),
        ("incident", pa.string()),
        ("xa", pa.string()),
    ]
)
_SCHEMA_3 = SCHEMA.remove(len(SCHEMA) - 1)


class Resume(StrEnum):
    """How a landing requests the stream."""

    GTID = "gtid"
    """Everything that follows has a GTID, and the set has everything that came before."""
    FILE = "file"
    """Transactions without a GTID may follow: only the same server's file and offset identify them."""


class SegmentSummary(Struct, frozen=True):
    """An index's summary of its segment."""

    segment: str
    """File name of the segment."""
    binlog_file: str
    """The server's name for the file that it is a part of."""
    server_uuid: str
    """Of the server that it was landed from."""
    bytes: int
    """Of the segment's file."""
    first_seq: int
    """Ordinal of its first transaction in the stream."""
    transactions: int
    clock_before: int
    """The commit clock before it, microseconds UTC."""
    clock_after: int
    """The commit clock after it."""
    server_end: int
    """Offset in the server's file after its last event."""
    executed_before: str
    """GTID set of all that the stream had executed before it."""
    executed: str
    """GTID set of all that the stream had executed after it."""
    resume: str = Resume.GTID
    """How a landing continues after it."""
    prepared: tuple[PreparedTransaction, ...] | None = None
    """XA transactions that are prepared and undecided after it; None if that is not known yet (forms before 4)."""
    uncounted: tuple[tuple[str, str], ...] = ()
    """Tables of which the index has the number of row events instead of that of rows, as `TransactionBatch.uncounted`.
    Indexes that were made before this field have a number of rows that fits the events, which may be wrong."""

    @property
    def last_seq(self) -> int:
        """Ordinal of its last transaction; `first_seq - 1` if it has none."""
        return self.first_seq + self.transactions - 1


def encode_summary(summary: SegmentSummary) -> bytes:
    """The form that the footer of an index has."""
    content = to_plain(summary)
    if not summary.uncounted:
        del content["uncounted"]  # hardly any index has them, and all others stay as they were
    return json.dumps({"format": FORMAT, **content}).encode()


def decode_summary(content: bytes, url: str) -> SegmentSummary:
    """Reads that form, in any number so far.

    Raises:
        DamagedFileError: It is not one.
        StoreFormatError: A newer Strata wrote it.
    """
    return decode_stored(content, SegmentSummary, newest=FORMAT, file=url, remedy=_REMEDY)


class IndexWriter:
    """Writes an index batch by batch; it is complete once `close` has returned.

    Errors of the storage are OSError; after one, only `abandon` may be called.
    """

    def __init__(self, path: str) -> None:
        """Starts the local file `path`, replacing what is there."""
        self._path = path
        self._file = pa.OSFile(path, "wb")
        try:
            self._writer = pq.ParquetWriter(
                self._file, SCHEMA, compression="zstd", store_schema=True, write_page_checksum=True
            )
        except OSError:
            self._file.close()
            raise

    def write(self, batch: TransactionBatch) -> None:
        """Adds the next transactions."""
        self._writer.write_batch(to_arrow(batch))

    def close(self, summary: SegmentSummary) -> None:
        """Adds the summary, and ends the file."""
        self._writer.add_key_value_metadata({_METADATA: encode_summary(summary), FIELD: BLANK})
        self._writer.close()
        self._file.close()
        seal_file(self._path)

    def abandon(self) -> None:
        """Closes a file that is not needed without writing to it; also a complete file."""
        # Else the writer would write its footer when it is collected, to a disk that may be full.
        self._writer.is_open = False
        self._file.close()


class RowCounts(Struct, frozen=True):
    """Consecutive transactions and their tables."""

    first_seq: int
    entries_end: npt.NDArray[np.int64]
    """Where the entries of each transaction end."""
    tables: tuple[tuple[str, str], ...]
    """Databases and tables; `entry_tables` points in here."""
    entry_tables: npt.NDArray[np.int64]
    entry_rows: npt.NDArray[np.int64]


class SegmentIndex:
    """The index of one landed segment, as it is stored; several threads may read it."""

    def __init__(self, summary: SegmentSummary, file: pq.ParquetFile, url: str) -> None:
        self.summary = summary
        self._file = file
        self._reading = Lock()  # Arrow (26.0) reads ahead into one cache, in which two reads at once fail at times.
        self._url = url

    @classmethod
    def open(cls, folder: Folder, name: str) -> Self:
        """Opens the index `name` in a folder.

        Raises:
            LakeUnavailableError: It cannot be read.
            DamagedIndexError: It is not as it was written, or belongs to another segment.
            StoreFormatError: A newer Strata wrote it.
        """
        url = folder.join(name)
        with lake_errors(url):
            file = folder.filesystem.open_input_file(f"{folder.path}/{name}")
            size = file.size()
            tail = file.read_at(min(size, _TAIL_BYTES), max(size - _TAIL_BYTES, 0))
            if size <= _TAIL_BYTES and not folder.is_local:
                # That is all of it: nothing more is requested from the store.
                file = pa.BufferReader(tail)
        with _damage(url):
            length = footer_bytes(size, tail)
            end = tail[-length:] if length <= len(tail) else file.read_at(length, size - length)
            seal = read_seal(size, end)
            if seal is not None and not seal.is_whole():
                raise ValueError("its end is not as it was written")
            opened = pq.ParquetFile(file, page_checksum_verification=True)
            summary = decode_summary((opened.metadata.metadata or {})[_METADATA], url)
            if summary.segment != name.removesuffix(SUFFIX):
                raise ValueError(f"it is that of {summary.segment}")
            if opened.metadata.num_rows != summary.transactions or opened.schema_arrow not in (SCHEMA, _SCHEMA_3):
                raise ValueError("it has other rows than it says")
        return cls(summary, opened, url)

    def _read(self, group: int, columns: list[str] | None = None) -> pa.Table:
        with self._reading, _damage(self._url):
            return self._file.read_row_group(group, columns=columns).combine_chunks()

    def batches(self, first_seq: int = 0) -> Iterator[TransactionBatch]:
        """The transactions in batches of columns, from those on that hold `first_seq` (a batch may begin earlier)."""
        seq = self.summary.first_seq
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if seq + rows > first_seq:
                for batch in self._read(group).to_batches():
                    yield from_arrow(batch, self.summary.binlog_file)
            seq += rows

    def row_counts(self, first_seq: int = 0) -> Iterator[RowCounts]:
        """What tables have of the transactions, in batches as those of `batches`, of which nothing else is read."""
        seq = self.summary.first_seq
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if seq + rows > first_seq:
                ends, entries = from_lists(self._read(group, ["tables"]).column(0).chunk(0))
                yield RowCounts(seq, ends, *_tables(entries), from_numbers(entries.field("rows")))
            seq += rows

    def record(self, seq: int) -> TransactionRecord:
        """The transaction `seq`, which must be in this segment."""
        first = self.summary.first_seq
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if seq < first + rows:
                row = self._read(group).slice(seq - first, 1).combine_chunks()
                return next(from_arrow(row.to_batches()[0], self.summary.binlog_file).records())
            first += rows
        raise IndexError(seq)

    def records(self, first_seq: int = 0, last_seq: int | None = None) -> Iterator[TransactionRecord]:
        """The transactions with first_seq <= seq <= last_seq, one by one."""
        for batch in self.batches(first_seq):
            if last_seq is not None and batch.first_seq > last_seq:
                return
            for record in batch.records():
                if record.seq >= first_seq and (last_seq is None or record.seq <= last_seq):
                    yield record

    def marks(self) -> Iterator[tuple[int, XaMark]]:
        """The transactions that prepare, commit or roll back an XA transaction: their ordinals and what they do."""
        seq = self.summary.first_seq
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group)
            # It comes last: nested columns before it have several numbers each in the file.
            known = rows.column(rows.num_columns - 1).statistics
            if known is None or not known.has_null_count or known.null_count < rows.num_rows:
                steps = self._read(group, ["xa"]).column(0).to_pylist()
                yield from ((seq + row, XaMark.parse(step)) for row, step in enumerate(steps) if step is not None)
            seq += rows.num_rows

    def executed_after(self, count: int) -> Executed:
        """GTID set after the first `count` transactions."""
        executed = ExecutedBuilder(parse_executed(self.summary.executed_before))
        left = count
        for group in range(self._file.num_row_groups):
            if left <= 0:
                break
            for batch in self._read(group, ["sid", "gno"]).to_batches():
                sids = batch.column("sid")
                sid_numbers, numbers = from_numbers(sids.indices, -1), from_numbers(batch.column("gno"))
                names = tuple(_parse_sid(text) for text in sids.dictionary.to_pylist())
                add_gtids(executed, names, sid_numbers[:left], numbers[:left])
                left -= len(batch)
        return executed.build()

    def count_below(self, name: str, value: int) -> int:
        """How many transactions have less than `value` in a column of ascending numbers.

        Only the row group in which that is decided is read; what the file says of the others is enough.
        """
        before, column = 0, SCHEMA.get_field_index(name)
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group)
            # The plain columns come first, so that their numbers are the same in the file.
            known = rows.column(column).statistics
            if known is None or not known.has_min_max or known.max >= value:
                numbers = from_numbers(self._read(group, [name]).column(0).combine_chunks())
                below = int(np.searchsorted(numbers, value, side="left"))
                if below < len(numbers):
                    return before + below
            before += rows.num_rows
        return before


@contextmanager
def _damage(url: str) -> Iterator[None]:
    """Turns errors of reading damaged bytes into one error with a remedy."""
    try:
        yield
    except DamagedFileError as error:
        what = f"the transaction index is damaged: {error.message}"
        raise DamagedIndexError(what, remedy=_REMEDY, file=url) from None
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
        raise DamagedIndexError(
            f"the transaction index is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            remedy=_REMEDY,
            file=url,
        ) from error


def check_index(folder: Folder, name: str) -> SegmentSummary:
    """Reads all of an index, and returns its summary.

    Raises:
        DamagedIndexError: A single byte of it is not as it was written.
        LakeUnavailableError: It cannot be read.
    """
    content, url = folder.read_file(name), folder.join(name)
    index = SegmentIndex.open(folder, name)
    with _damage(url):
        seal = read_seal(len(content), content[-footer_bytes(len(content), content) :])
        if seal is not None and not seal.holds(content):
            raise ValueError("it is not as it was written")
    if seal is None:
        # An older form has no checksums: it can only be checked that it is readable.
        for _ in index.batches():
            pass
    return index.summary


def to_arrow(batch: TransactionBatch) -> pa.RecordBatch:
    """A batch in the form it is stored in."""
    anonymous = batch.sid_numbers < 0
    sids = to_texts([str(sid) for sid in batch.sids] or [""])
    sid_numbers = to_numbers(np.where(anonymous, 0, batch.sid_numbers).astype(np.int32), anonymous)
    incidents, marks = dict(batch.incidents), dict(batch.marks)
    entries = pa.StructArray.from_arrays(
        [
            _named([database for database, _ in batch.tables], batch.entry_tables),
            _named([table for _, table in batch.tables], batch.entry_tables),
            to_numbers(batch.entry_events),
            to_numbers(batch.entry_rows),
        ],
        fields=list(_ENTRY),
    )
    splits = pa.StructArray.from_arrays(
        [
            to_numbers(batch.split_offsets),
            to_numbers(batch.split_rows),
            _lists(batch.split_maps_end, to_numbers(batch.split_maps)),
        ],
        fields=list(_SPLIT),
    )
    return pa.RecordBatch.from_arrays(
        [
            to_numbers(np.arange(batch.first_seq, batch.first_seq + len(batch))),
            pa.DictionaryArray.from_arrays(sid_numbers, sids),
            to_numbers(batch.numbers, anonymous),
            to_numbers(batch.begins),
            to_numbers(batch.ends),
            to_numbers(batch.positions),
            to_numbers(batch.committed_at),
            to_numbers(batch.commit_timestamps),
            _lists(batch.entries_end, entries),
            _lists(batch.statements_end, to_numbers(batch.statements)),
            _lists(batch.splits_end, splits),
            to_texts([incidents.get(row) for row in range(len(batch))])
            if incidents
            else pa.nulls(len(batch), pa.string()),
            to_texts([str(marks[row]) if row in marks else None for row in range(len(batch))])
            if marks
            else pa.nulls(len(batch), pa.string()),
        ],
        schema=SCHEMA,
    )


def _named(names: list[str], numbers: npt.NDArray[np.int64]) -> pa.DictionaryArray:
    """A name for each number. Each name is once in the dictionary: of a repeated one Parquet's writer leaves the place
    as it finds it in memory (Arrow 26.0, `DictEncoderImpl::WriteDict`), and the file has what was there."""
    distinct = {name: at for at, name in enumerate(dict.fromkeys(names))}
    places = np.array([distinct[name] for name in names], np.int32)
    return pa.DictionaryArray.from_arrays(to_numbers(places[numbers]), to_texts(list(distinct) or [""]))


def _lists(ends: npt.NDArray[np.int64], values: pa.Array) -> pa.ListArray:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.ListArray.from_arrays(to_numbers(offsets), values)


def from_arrow(batch: pa.RecordBatch, binlog_file: str) -> TransactionBatch:
    """The inverse of `to_arrow`."""
    sids = batch.column("sid")
    entries_end, entries = from_lists(batch.column("tables"))
    statements_end, statements = from_lists(batch.column("ddl_offsets"))
    splits_end, splits = from_lists(batch.column("splits"))
    split_maps_end, split_maps = from_lists(splits.field("table_maps"))
    tables, entry_tables = _tables(entries)
    incidents = batch.column("incident")
    lost = [] if incidents.null_count == len(incidents) else incidents.to_pylist()
    # Forms before 4 lack it: they are read to be checked only.
    steps = batch.column("xa") if "xa" in batch.schema.names else None
    marks = [] if steps is None or steps.null_count == len(steps) else steps.to_pylist()
    return TransactionBatch(
        binlog_file=binlog_file,
        first_seq=batch.column("seq")[0].as_py() if len(batch) else 0,
        begins=from_numbers(batch.column("begin")),
        ends=from_numbers(batch.column("end")),
        positions=from_numbers(batch.column("binlog_pos")),
        sids=tuple(_parse_sid(text) for text in sids.dictionary.to_pylist()),
        sid_numbers=from_numbers(sids.indices, -1),
        numbers=from_numbers(batch.column("gno")),
        committed_at=from_numbers(batch.column("committed_at")),
        commit_timestamps=from_numbers(batch.column("commit_timestamp")),
        incidents=tuple((row, text) for row, text in enumerate(lost) if text is not None),
        marks=tuple((row, XaMark.parse(text)) for row, text in enumerate(marks) if text is not None),
        tables=tables,
        entries_end=entries_end,
        entry_tables=entry_tables,
        entry_events=from_numbers(entries.field("row_events")),
        entry_rows=from_numbers(entries.field("rows")),
        statements_end=statements_end,
        statements=from_numbers(statements),
        splits_end=splits_end,
        split_offsets=from_numbers(splits.field("offset")),
        split_rows=from_numbers(splits.field("row")),
        split_maps_end=split_maps_end,
        split_maps=from_numbers(split_maps),
    )


def _tables(entries: pa.StructArray) -> tuple[tuple[tuple[str, str], ...], npt.NDArray[np.int64]]:
    """Parquet keeps the names of databases and tables apart; the pairs that occur are numbered again."""
    databases, tables = entries.field("database"), entries.field("table")
    pairs = from_numbers(databases.indices) << 32 | from_numbers(tables.indices)
    distinct, numbers = np.unique(pairs, return_inverse=True)
    database_names, table_names = databases.dictionary.to_pylist(), tables.dictionary.to_pylist()
    names = tuple((database_names[pair >> 32], table_names[pair & 0xFFFFFFFF]) for pair in distinct.tolist())
    return names, numbers.astype(np.int64)


def _parse_sid(text: str) -> Writer:
    domain, _, server = text.partition("-")
    if domain.isdigit() and server.isdigit():
        return DomainWriter(int(domain), int(server))
    uuid, _, tag = text.partition(":")
    return Sid(uuid, tag)
