"""Binlog files and landed segments as the transactions that the tracker takes.
Not here: where versions go (`track_schema.py`, `jobs/decode/decode_files.py`), what becomes of them
(`schema/tracker/track.py`)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata.errors import StrataError, Usage
from strata.events.model import GtidEvent, PreviousGtids
from strata.events.parse import parse_event
from strata.events.salvage import describe, find_stretches
from strata.events.transactions import ddl_events, scan_transactions, table_maps
from strata.gtid.position import BinlogPosition
from strata.gtid.sets import GtidSet
from strata.schema.model.definition import TableName
from strata.schema.tracker.stream import FileStart, QuietRun, Statement, TrackReport, Transaction
from strata.wire.codes import HEADER_BYTES, EventType
from strata.wire.files import open_binlog
from strata.wire.frames import index_events
from strata.wire.segment import SegmentName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strata.events.batch import TransactionBatch
    from strata.events.landed import LandedSegment
    from strata.events.model import TableMap, TransactionRecord
    from strata.events.salvage import Damage
    from strata.flavour import Flavour
    from strata.schema.tracker.track import Tracker
    from strata.wire.files import BinlogFile

_FIRST_EVENTS: Final = 4
"""PREVIOUS_GTIDS follows FORMAT_DESCRIPTION; in a landed segment a ROTATE may stand between."""
_CREATED_AT: Final = 4 + HEADER_BYTES + 2 + 50
"""Offset of the time of creation in FORMAT_DESCRIPTION, which is 0 unless the server had just started."""


def feed_files(
    tracker: Tracker,
    paths: Sequence[str],
    *,
    progress: Callable[[str, int, int], None] | None = None,
    skip_corrupt: bool = False,
) -> TrackReport:
    """Reads binlog files to their ends, and stores what is left then; also after a fault, what came before it.

    Args:
        tracker: Of the files' source.
        paths: Put into the order of their numbers where they have one name.
        progress: Called with a file's name, the bytes of it that are done and its size.
        skip_corrupt: Goes on behind damage, which is a gap of all tables where a DDL may be lost with it.

    Raises:
        CorruptEventError: Versions before the fault have been stored.
    """
    try:
        for path in in_stream_order(paths):
            with open_binlog(path) as binlog:
                _feed_file(tracker, binlog, progress, skip_corrupt=skip_corrupt)
    except StrataError:
        tracker.finish()
        raise
    return tracker.finish()


def in_stream_order(paths: Sequence[str]) -> list[str]:
    """Files in the order of their numbers, if all are of one server's naming; else as they were given.

    Shells sort `binlog.1000000` before `binlog.999999`.
    """
    names = [path.rsplit("/", 1)[-1] for path in paths]
    if all(SegmentName.parse(name) for name in names):
        return [path for _, path in sorted(zip(names, paths, strict=True))]
    try:
        positions = [BinlogPosition.of(name, 0) for name in names]
    except Usage:
        return list(paths)
    stems = {name.rpartition(".")[0] for name in names}
    if len(stems) > 1 or len({position.file_number for position in positions}) < len(paths):
        return list(paths)
    return [path for _, path in sorted(zip(positions, paths, strict=True))]


def _feed_file(
    tracker: Tracker,
    binlog: BinlogFile,
    progress: Callable[[str, int, int], None] | None,
    *,
    skip_corrupt: bool,
) -> None:
    size = len(binlog.buffer)
    begin_pos = binlog.segment.offset if binlog.segment else 0
    tracker.begin_file(_file_start(binlog, begin_pos, _previous_gtids(binlog)))
    # Offsets in a landed segment are not those in the server's file.
    shift = begin_pos - binlog.first_event if binlog.segment else 0
    for stretch in find_stretches(binlog) if skip_corrupt else (None,):
        begin, end = (stretch.begin, stretch.end) if stretch else (None, None)
        for batch in scan_transactions(binlog, begin=begin, end=end):
            shift = int(batch.positions[0] - batch.begins[0])
            _feed_batch(tracker, binlog, batch)
            if progress is not None:
                progress(binlog.name, int(batch.ends[-1]), size)
        if stretch and stretch.damage:
            tracker.take(_damaged(tracker, stretch.damage, shift))
    tracker.end_file(size + shift)
    if progress is not None:
        progress(binlog.name, size, size)


def _feed_batch(tracker: Tracker, binlog: BinlogFile, batch: TransactionBatch) -> None:
    if batch.is_quiet() and tracker.take_quiet(_quiet_run(batch)):
        return
    for record in batch.records():
        tracker.take(_transaction(binlog, record))


def feed_segment(tracker: Tracker, segment: LandedSegment) -> None:
    """Reads what is new in a landed segment; it is opened only if it has statements."""
    summary = segment.summary
    with ExitStack() as files:
        opened: list[BinlogFile] = []

        def binlog() -> BinlogFile:
            if not opened:
                opened.append(files.enter_context(open_binlog(segment.url)))
            return opened[0]

        tracker.begin_file(_segment_start(segment, binlog if tracker.position.seq == 0 else None))
        first_seq = tracker.position.seq + 1
        for batch in segment.index.batches(first_seq):
            run = replace(_quiet_run(batch), last_seq=batch.last_seq)
            if batch.is_quiet() and batch.first_seq >= first_seq and tracker.take_quiet(run):
                continue
            for record in (record for record in batch.records() if record.seq >= first_seq):
                taken = _transaction(binlog(), record) if record.ddl_offsets else _quiet(record, binlog)
                tracker.take(replace(taken, seq=record.seq))
        tracker.end_file(summary.server_end)


def _segment_start(segment: LandedSegment, binlog: Callable[[], BinlogFile] | None) -> FileStart:
    """Where a segment begins; from its bytes where there is a reader of them, else from its index alone."""
    summary = segment.summary
    previous = GtidSet.parse(summary.executed_before)
    if binlog is not None:
        start = _file_start(binlog(), segment.name.offset, previous)
        return replace(start, identity=summary.server_uuid, is_landed=True)
    return FileStart(
        binlog_file=summary.binlog_file,
        identity=summary.server_uuid,
        begin_pos=segment.name.offset,
        previous=previous,
        created_at=summary.clock_before,
        is_landed=True,
    )


def _quiet_run(batch: TransactionBatch) -> QuietRun:
    return QuietRun(
        count=len(batch),
        spans=batch.gtid_spans(),
        binlog_pos=int(batch.positions[0]),
        end_pos=int(batch.positions[-1] + batch.ends[-1] - batch.begins[-1]),
        committed_at=int(batch.committed_at[-1]),
        tables=tuple(TableName(database, table) for database, table in batch.tables),
    )


def _quiet(record: TransactionRecord, binlog: Callable[[], BinlogFile]) -> Transaction:
    """A transaction without statements: its bytes are not looked at, but where a table of it is not known."""
    return Transaction(
        gtid=record.gtid,
        binlog_pos=record.binlog_pos,
        end_pos=record.binlog_pos + record.end - record.begin,
        committed_at=record.committed_at,
        incident=record.incident,
        tables=tuple(TableName(table.database, table.table) for table in record.tables),
        table_maps=_table_maps(binlog, record),
    )


def _table_maps(binlog: Callable[[], BinlogFile], record: TransactionRecord) -> Iterator[TableMap]:
    yield from table_maps(binlog(), record)


def _damaged(tracker: Tracker, damage: Damage, shift: int) -> Transaction:
    return Transaction(
        gtid=damage.gtid,
        binlog_pos=damage.begin + shift,
        end_pos=damage.end + shift,
        committed_at=tracker.position.committed_at,
        seq=None,
        incident=describe(damage) if damage.may_hide_ddl else None,
    )


def _transaction(binlog: BinlogFile, record: TransactionRecord) -> Transaction:
    quiet = _quiet(record, lambda: binlog)
    if not record.ddl_offsets:
        return quiet
    return replace(quiet, ran_first_on=_ran_first_on(binlog, record), statements=_statements(binlog, record))


def _statements(binlog: BinlogFile, record: TransactionRecord) -> Iterator[Statement]:
    for statement in ddl_events(binlog, record):
        yield Statement(statement.query, binlog.format, statement.offset + record.binlog_pos - record.begin)


def _ran_first_on(binlog: BinlogFile, record: TransactionRecord) -> Flavour | None:
    """The server that ran a transaction first: a replica's binlog has the rules of its source's DDL."""
    index = index_events(binlog.buffer, record.begin, record.end, binlog.format, 1)
    if not len(index):
        return None
    event = parse_event(binlog.buffer, record.begin, int(index.lengths[0]), binlog.format)
    return event.ran_first_on if isinstance(event, GtidEvent) else None


def _file_start(binlog: BinlogFile, begin_pos: int, previous: GtidSet | None) -> FileStart:
    buffer = binlog.buffer
    created = int.from_bytes(buffer[_CREATED_AT : _CREATED_AT + 4].tobytes(), "little")
    written = int.from_bytes(buffer[binlog.first_event : binlog.first_event + 4].tobytes(), "little")
    return FileStart(
        binlog_file=binlog.name,
        identity=str(written),
        begin_pos=begin_pos,
        previous=previous,
        created_at=written * 1_000_000,
        # Of a landed segment it may be the start of a file whose first transactions were left out.
        restarted=created != 0 and binlog.segment is None,
    )


def _previous_gtids(binlog: BinlogFile) -> GtidSet | None:
    index = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format, _FIRST_EVENTS)
    for at in range(len(index)):
        if index.types[at] == EventType.PREVIOUS_GTIDS:
            position, length = int(index.positions[at]), int(index.lengths[at])
            event = parse_event(binlog.buffer, position, length, binlog.format)
            return event.gtid_set if isinstance(event, PreviousGtids) else None
    return None
