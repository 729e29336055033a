"""Feeds the tracker from a change source of any kind.
Not here: the sources (`binlog/sources/`), where versions go (`track_schema.py`, `pipeline/decode/decode_files.py`),
what becomes of transactions (`schema/tracker/track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.model import GtidEvent
from strata_cdc.binlog.events.parse import parse_event
from strata_cdc.binlog.events.salvage import describe
from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.binlog.sources.port import FileEnd, LostBytes, Transactions
from strata_cdc.errors import StrataError
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.tracker.stream import QuietRun, TrackedStatement, TrackedTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.sources.port import ChangeSource, Item
    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.tracker.stream import TrackReport
    from strata_cdc.schema.tracker.track import Tracker


def feed(tracker: Tracker, source: ChangeSource) -> TrackReport:
    """Reads a source to its end, and stores what is not stored then; after an error, what came before it.

    Raises:
        CorruptEventError: Versions before the fault have been stored.
        AlreadyRunningError: Another tracker works on the source.
    """
    try:
        for item in source.read_items():
            take_item(tracker, item)
    except StrataError:
        tracker.finish()
        raise
    return tracker.finish()


def take_item(tracker: Tracker, item: Item) -> None:
    """Hands the tracker one item of a source.

    Raises:
        CorruptEventError: What came before the fault has been tracked.
    """
    if isinstance(item, FileStart):
        tracker.begin_file(item)
    elif isinstance(item, Transactions):
        _take_transactions(tracker, item)
    elif isinstance(item, LostBytes):
        tracker.track(_damaged(tracker, item))
    elif isinstance(item, FileEnd):
        tracker.end_file(item.end_pos)


def _take_transactions(tracker: Tracker, transactions: Transactions) -> None:
    is_quiet = transactions.is_quiet
    if is_quiet and tracker.track_quiet(_quiet_run(transactions)):
        return
    for number, record in enumerate(transactions.records()):
        # The first transaction of a file is tracked alone; those after it may be tracked at once.
        if number == 1 and is_quiet and tracker.track_quiet(_quiet_run(transactions, 1)):
            return
        tracker.track(_transaction(transactions, record))


def _quiet_run(transactions: Transactions, begin: int = 0) -> QuietRun:
    batch = transactions.batch
    return QuietRun(
        count=len(batch) - begin,
        spans=batch.gtid_spans(begin),
        binlog_pos=int(batch.positions[0]),
        end_pos=batch.server_end(-1),
        committed_at=int(batch.committed_at[-1]),
        tables=tuple(TableName(database, table) for database, table in batch.tables),
        last_seq=batch.last_seq if transactions.is_landed else None,
    )


def _transaction(transactions: Transactions, record: TransactionRecord) -> TrackedTransaction:
    """The bytes of a transaction without statements are not read, except if a table of it is not known."""
    quiet = TrackedTransaction(
        gtid=record.gtid,
        binlog_pos=record.binlog_pos,
        end_pos=record.server_end,
        committed_at=record.committed_at,
        seq=record.seq if transactions.is_landed else None,
        lost=_lost(record.incident),
        tables=tuple(TableName(table.database, table.table) for table in record.tables),
        table_maps=transactions.table_maps(record),
    )
    if not record.ddl_offsets:
        return quiet
    return replace(
        quiet, ran_first_on=_ran_first_on(transactions, record), statements=_statements(transactions, record)
    )


def _lost(incident: str | None) -> str | None:
    if incident is None:
        return None
    return f"the server lost events: {incident}" if incident else "the server lost events"


def _statements(transactions: Transactions, record: TransactionRecord) -> Iterator[TrackedStatement]:
    form = transactions.bytes().format
    for statement in transactions.statements(record):
        yield TrackedStatement(statement.query, form, statement.offset + record.binlog_pos - record.begin)


def _ran_first_on(transactions: Transactions, record: TransactionRecord) -> Flavour | None:
    """The server that ran a transaction first: in a replica's binlog, DDL follows the rules of the replica's source."""
    binlog = transactions.bytes()
    binlog.load_event(record.begin)
    index = index_events(binlog.buffer, record.begin, record.end, binlog.format, 1)
    if not len(index):
        return None
    event = parse_event(binlog.buffer, record.begin, int(index.lengths[0]), binlog.format)
    return event.ran_first_on if isinstance(event, GtidEvent) else None


def _damaged(tracker: Tracker, lost: LostBytes) -> TrackedTransaction:
    return TrackedTransaction(
        gtid=lost.damage.gtid,
        binlog_pos=lost.binlog_pos,
        end_pos=lost.end_pos,
        committed_at=tracker.position.committed_at,
        seq=None,
        lost=describe(lost.damage) if lost.damage.may_hide_ddl else None,
    )
