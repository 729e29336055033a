"""The landed stream between the first read of a dump and the position at which its rows will be exact.
Not here: the reads (`mirrors/dump/`), applying the changes to the rows (`mirrors/dump/exact.py`)."""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from strata_cdc.binlog.protocol.server_files import ServerFiles
from strata_cdc.changes.arrow import BEFORE, ROW_FIELDS
from strata_cdc.changes.binlog_changes import changes_of_table
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.errors import StrataError, StreamHoleError, Usage
from strata_cdc.landing.place_prepared import lost_rows, statement_changes
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.mirrors.dump.manifest import earliest
from strata_cdc.mirrors.layout import key_columns
from strata_cdc.position.binlog_position import ServerPosition
from strata_cdc.schema.history.historian import History
from strata_cdc.tables.convert import state_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.changes.port import QuarantinedRows
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.mirrors.dump.manifest import ReadBounds
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class DumpWindow(Struct, frozen=True):
    """Transactions of the landed stream: after_seq < seq <= last_seq."""

    after_seq: int
    last_seq: int


def window_of(stream: LandedStream, reads: Sequence[ReadBounds], server_uuid: str) -> DumpWindow:
    """The transactions that the reads may have or lack: after those that all have, up to the last that one may have.

    Args:
        stream: The landed stream; it has everything before the position of the server after the last read had begun.
        reads: At least one.
        server_uuid: UUID of the server that was read.

    Raises:
        Usage: The stream begins after the reads.
    """
    ends = [bounds.end_position for bounds in reads]
    last = stream.seq_written_before(ServerPosition(server_uuid, max(ends)))
    # A server begins a file with each change of gtid_mode (sql/sys_vars.cc, `Sys_var_gtid_mode`), and all transactions
    # had GTIDs when it was read: transactions without a GTID are in earlier files, and had been committed.
    unnumbered = stream.seq_written_before(ServerPosition(server_uuid, ServerFiles.first_event(min(ends).file)))
    after = min(_contained(stream, executed, unnumbered) for executed in earliest(reads))
    return DumpWindow(after, max(after, last))


def window_of_set(stream: LandedStream, executed: Executed) -> DumpWindow:
    """The transactions between rows that have exactly those of a set, and a position at which the stream has all of
    them. There are none if both have them in one order.

    Raises:
        Usage: The stream begins after them, does not have all of them, or continues there with one that has no GTID.
    """
    after = _contained(stream, executed)
    if not executed <= stream.executed_at(stream.last_seq):
        raise Usage(
            "the rows have transactions that the landed stream does not have",
            source=stream.source,
            gtid=str(executed - stream.executed_at(stream.last_seq)),
            remedy="They have to be of this source, or of a replica of the same server.",
        )
    later = range(after, stream.last_seq)
    until = after + bisect_left(later, x=True, key=lambda seq: executed <= stream.executed_at(seq))
    if until < stream.last_seq and stream.record_at(until + 1)[1].gtid is None:
        raise Usage(
            "the landed stream goes on with transactions without a GTID, and the rows may have some of them",
            source=stream.source,
            gtid=str(executed),
            remedy="Take a backup from a moment at which the server has numbered its transactions for a while.",
        )
    return DumpWindow(after, until)


def _contained(stream: LandedStream, executed: Executed, unnumbered: int = 0) -> int:
    """The last transaction such that the set has it and everything in the stream before it."""
    if not stream.executed_before() <= executed:
        raise Usage(
            "the landed stream begins after the moment at which rows were read",
            source=stream.source,
            gtid=str(executed),
            remedy="Dump again: what is older than the stream cannot be brought up to it.",
        )
    return stream.contained_in(executed, unnumbered)


def is_changed(stream: LandedStream, window: DumpWindow, table: TableName) -> bool:
    """Whether a transaction in the window has rows of a table; reads only the indexes."""
    placement = PreparedPlacement(stream, window.after_seq, window.last_seq)
    records = stream.records(window.after_seq + 1, window.last_seq)
    for segment, pairs in groupby(records, key=itemgetter(0)):
        for record in placement.place(segment, (record for _, record in pairs)):
            if any((rows.database, rows.table) == (table.database, table.table) for rows in record.tables):
                return True
    return any(name in (table, None) for name, _ in lost_rows(placement))


def happened(
    store: SchemaStore, source: str, window: DumpWindow, table: TableName, definition: TableDefinition
) -> str | None:
    """What happened to a table within the window, other than changes of rows, so that its rows must be read again; None
    if nothing happened, or only DDL that leaves rows and columns as they are."""
    for entry in store.timeline(source, [table]):
        if window.after_seq < entry.seq <= window.last_seq:
            after = store.definition(entry.fingerprint) if entry.fingerprint else None
            if not entry.effect.keeps_rows or not _is_alike(after, definition):
                return store.ddl(entry.version_id) or entry.gap or "a version of its schema"
    for removal in store.row_removals(source, window.after_seq, window.last_seq):
        if removal.name == table:
            return removal.statement
    return None


def may_lack_changes(stream: LandedStream, store: SchemaStore, window: DumpWindow, table: TableName) -> bool:
    """Whether a statement within a window may have moved the rows of a table to another one, and the rows may have
    changed between the beginning of the window and that statement."""
    versions = {entry.seq for entry in store.timeline(stream.source, [table])}
    removals = store.row_removals(stream.source, window.after_seq, window.last_seq)
    turned = versions | {removal.seq for removal in removals if removal.name == table}
    inside = sorted(seq for seq in turned if window.after_seq < seq <= window.last_seq)
    return len(inside) > 1 or (
        bool(inside) and _may_be_changed(stream, DumpWindow(window.after_seq, inside[0] - 1), table)
    )


def _may_be_changed(stream: LandedStream, window: DumpWindow, table: TableName) -> bool:
    try:
        return window.after_seq < window.last_seq and is_changed(stream, window, table)
    except StreamHoleError:
        return True


def _is_alike(now: TableDefinition | None, definition: TableDefinition) -> bool:
    """Whether rows that were read by one definition are rows of the other: with the same columns and key, and in the
    same engine, so that both show rows as of one moment or neither does."""
    if now is None or now.engine != definition.engine:
        return False
    return now.columns == definition.columns and key_columns(now) == key_columns(definition)


def changes_of(
    stream: LandedStream, store: SchemaStore, window: DumpWindow, table: TableName, definition: TableDefinition
) -> Iterator[pa.RecordBatch]:
    """The changes of a table within the window, in which it has one definition; in order, a batch at a time.

    Raises:
        StrataError: Rows were changed by a statement, or cannot be decoded.
    """
    schema = _schema(definition)
    if window.after_seq >= window.last_seq:
        return
    placement = PreparedPlacement(stream, window.after_seq, window.last_seq)
    _refuse_unlogged(store, stream.source, placement, table)
    history = History(store, stream.source)
    span = window.after_seq, window.last_seq
    for step in changes_of_table(stream, history, table, placement, span):
        yield pa.RecordBatch.from_arrays(_readable(step).batch.columns, schema=schema)


def _readable(step: ChangeBatch | QuarantinedRows | object) -> ChangeBatch:
    if isinstance(step, ChangeBatch):
        return step
    error = getattr(step, "error", None)
    raise error if isinstance(error, StrataError) else Usage("rows that changed meanwhile cannot be read")


def _schema(definition: TableDefinition) -> pa.Schema:
    images = list(state_schema(definition))
    return pa.schema([*images, pa.field(BEFORE, pa.struct(images)), *ROW_FIELDS])


def _refuse_unlogged(store: SchemaStore, source: str, placement: PreparedPlacement, table: TableName) -> None:
    for change in statement_changes(store, source, placement):
        if table in change.tables or not change.tables:
            raise Usage(
                f"rows were changed by a statement while they were read: {change.statement[:200]}",
                source=source,
                table=str(table),
                gtid=change.gtid,
                remedy="Set binlog_format = ROW on the server, and dump again.",
            )
    for name, error in lost_rows(placement):
        if name.table in (table.table, "*"):
            raise error
