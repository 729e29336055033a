"""The transactions of a binlog file, in order, and the statements in them that change schemas.
Not here: the walk (`scanner.py`), the index on disk (`index.py`), what a statement does (`schema/ddl/`)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import HEADER_BYTES, EventType
from strata_cdc.binlog.bytes.frames import index_events, index_payload
from strata_cdc.binlog.bytes.pages import forget_pages
from strata_cdc.binlog.bytes.payload import read_payload
from strata_cdc.binlog.events.model import Query, TableMap
from strata_cdc.binlog.events.parse import parse_event, with_header
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.query import parse_query
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.binlog.events.table_map import parse_table_map
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.kernels.statements import classify
from strata_cdc.binlog.kernels.words import Word
from strata_cdc.errors import CorruptEventError, StrataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.position.clock import CommitClock


_FIRST_BYTES: Final = 64 << 10
_FIRST_EVENTS: Final = 256

BATCH_EVENTS: Final = 4096
"""Of the 8 KB that the server gives a row event by default, 32 MB."""


class Statement(NamedTuple):
    """A statement in a transaction that does not begin or end it: DDL, or rows changed in statement format."""

    offset: int
    """Start of the QUERY event (bytes); of the compressed transaction that it is in, if it is in one."""
    query: Query
    end: int
    """Offset after that event."""


def scan_transactions(
    binlog: BinlogFile,
    *,
    first_seq: int = 1,
    clock: CommitClock | None = None,
    begin: int | None = None,
    end: int | None = None,
    chain: EventChain | None = None,
    batch_events: int = BATCH_EVENTS,
) -> Iterator[TransactionBatch]:
    """The transactions of a file in batches of columns, checksums verified.

    Args:
        binlog: The open file.
        first_seq: Ordinal of its first transaction in the stream.
        clock: The commit clock before the file; each transaction advances it.
        begin: Offset of the first transaction; by default of the file's first event.
        end: Offset after the last one; by default the file's end.
        chain: Where its events must lie; by default as the file itself says.
        batch_events: How many events are walked over at a time.

    Raises:
        CorruptEventError: After the transactions before the fault; with file, offset and, if it is known, GTID.
        UnsupportedEventError: Likewise.
    """
    at = binlog.first_event if begin is None else begin
    end = len(binlog.buffer) if end is None else end
    scanner = TransactionScanner(
        binlog.format,
        chain=chain or chain_of(binlog, at),
        binlog_file=binlog.name,
        first_seq=first_seq,
        clock=clock,
        server_offset=binlog.segment.offset + at - binlog.first_event if binlog.segment else None,
    )
    try:
        while at < end:
            index = index_events(binlog.buffer, at, end, binlog.format, batch_events)
            yield from scanner.scan(binlog.buffer, index)
            forget_pages(binlog.buffer, at, index.next)
            at = index.next
        scanner.finish(end)
    except StrataError as error:
        raise error.located(file=binlog.path) from None


def read_transactions(
    binlog: BinlogFile,
    *,
    first_seq: int = 1,
    clock: CommitClock | None = None,
    begin: int | None = None,
    end: int | None = None,
) -> Iterator[TransactionRecord]:
    """The transactions of a file one by one; as `scan_transactions`, which is faster if columns are enough."""
    for batch in scan_transactions(binlog, first_seq=first_seq, clock=clock, begin=begin, end=end):
        yield from batch.records()


def ddl_events(binlog: BinlogFile, record: TransactionRecord) -> Iterator[Statement]:
    """The statements that a record's `ddl_offsets` name, those inside of compressed transactions included.

    Raises:
        CorruptEventError: An offset is not that of such an event.
    """
    buffer = binlog.buffer
    for offset in record.ddl_offsets:
        binlog.load_event(offset)
        index = index_events(buffer, offset, min(record.end, len(buffer)), binlog.format, 1)
        try:
            index.raise_fault()
            if not len(index):
                raise CorruptEventError("there is no event", offset=offset)
            for statement in statements_at(binlog, offset, int(index.lengths[0])):
                query = replace(statement.query, ends_transaction=statement.end == record.end)
                yield statement._replace(query=query)
        except StrataError as error:
            raise error.located(file=binlog.path, gtid=str(record.gtid) if record.gtid else None) from None


def table_maps(binlog: BinlogFile, record: TransactionRecord) -> Iterator[TableMap]:
    """The TABLE_MAPs among the first events of a transaction.

    Raises:
        CorruptEventError: One of them is damaged.
    """
    end, length = min(record.end, len(binlog.buffer)), _FIRST_BYTES
    while True:
        loaded = min(record.begin + length, end)
        binlog.load(record.begin, loaded)
        index = index_events(binlog.buffer, record.begin, loaded, binlog.format, _FIRST_EVENTS)
        if loaded == end or len(index) == _FIRST_EVENTS or index.status != codes.TRUNCATED:
            break
        length *= 4
    for kind, position, length in zip(index.types, index.positions, index.lengths, strict=True):
        if kind == EventType.TABLE_MAP:
            event = parse_event(binlog.buffer, int(position), int(length), binlog.format)
            if isinstance(event, TableMap):
                yield event
        elif kind == EventType.TRANSACTION_PAYLOAD:
            yield from _inner_table_maps(binlog, int(position), int(length))


def _inner_table_maps(binlog: BinlogFile, offset: int, length: int) -> Iterator[TableMap]:
    post_header = binlog.format.header_length(EventType.TABLE_MAP)
    for chunk in islice(read_payload(binlog.buffer, offset, length, binlog.format), 1):
        index = index_payload(chunk.buffer, 0, len(chunk.buffer), _FIRST_EVENTS)
        for at in (index.types == EventType.TABLE_MAP).nonzero()[0]:
            first, end = int(index.positions[at]) + HEADER_BYTES, int(index.positions[at] + index.lengths[at])
            yield parse_table_map(chunk.buffer[first:end].tobytes(), post_header, binlog.format.flavour.vendor)


def statements_at(binlog: BinlogFile, offset: int, length: int) -> Iterator[Statement]:
    """The statements of one event (bytes): itself if it is a QUERY, or those inside a compressed transaction.

    Raises:
        CorruptEventError: It is neither.
    """
    kind = int(binlog.buffer[offset + 4])
    if kind == EventType.TRANSACTION_PAYLOAD:
        for query in _inner_statements(binlog, offset, length):
            yield Statement(offset, query, offset + length)
        return
    event = parse_event(binlog.buffer, offset, length, binlog.format)
    if not isinstance(event, Query):
        raise CorruptEventError(f"the event is of type {kind} and not a statement", offset=offset)
    yield Statement(offset, event, offset + length)


def _inner_statements(binlog: BinlogFile, offset: int, length: int) -> Iterator[Query]:
    post_header = binlog.format.header_length(EventType.QUERY)
    for chunk in read_payload(binlog.buffer, offset, length, binlog.format):
        begin = 0
        while begin < len(chunk.buffer):
            index = index_payload(chunk.buffer, begin, len(chunk.buffer))
            index.raise_fault()
            for at in (index.types == EventType.QUERY).nonzero()[0]:
                first = int(index.positions[at]) + HEADER_BYTES
                end = int(index.positions[at] + index.lengths[at])
                if classify(chunk.buffer, first, end, post_header) == Word.STATEMENT:
                    query = parse_query(chunk.buffer[first:end].tobytes(), binlog.format)
                    yield with_header(query, chunk.buffer, first - HEADER_BYTES)
            begin = index.next
