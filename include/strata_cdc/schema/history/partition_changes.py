"""The statements that name partitions, as the tracker has stored them, and the partitions of a table after them.
Not here: storing them (`schema/tracker/transactions.py`), their effect on partitions (`partition_lifetimes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.schema.ddl.changes import CreateTableLike
from strata_cdc.schema.history.name_columns import names_from_column
from strata_cdc.schema.history.partition_lifetimes import FOUND, NOT_NOTED, partitions_after, partitions_made
from strata_cdc.schema.history.statements import requested_changes
from strata_cdc.schema.history.versions import EVERY_TABLE, PartitionChange, VersionOrigin, every_table_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import read_rows, reading
from strata_cdc.store.tables import closed_interval, partition_change, row_removal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.partitions import Partitioning


# The partitions of a table at the end of the stored history.
_Order = tuple[int, int, int]
"""`seq`; 0 for changes of partitions, 1 for versions of a statement, -1 for all other versions; and the id of the
version."""


def stored_partitions(
    engine: sa.Engine, store: VersionStore, source: str, name: TableName, before: _Order | None = None
) -> Partitioning | str:
    """The partitions of a table; a text says why they are not known.

    Args:
        before: Only earlier versions count.
    """
    wide = {every_table_of(name.database), EVERY_TABLE}
    entries = [
        entry
        for entry in store.timeline(source, {name, *wide})
        if entry.origin is not VersionOrigin.RELOAD and (before is None or _order_of(entry) < before)
    ]
    partitions: Partitioning | str = FOUND
    since: _Order = (-1, 0, 0)
    for entry in reversed(entries):
        made = _made_by(engine, store, source, entry)
        if made is not None:
            partitions, since = made, _order_of(entry)
            break
    for change in partition_changes(engine, source, name):
        order = (change.seq, 0, 0)
        if since < order and (before is None or order < before):
            partitions = partitions_after(partitions, change) if change.name.table else NOT_NOTED
    return partitions


def _made_by(engine: sa.Engine, store: VersionStore, source: str, entry: StoredEntry) -> Partitioning | str | None:
    """The partitions that a version gives to its table; None if it does not change them."""
    if not entry.name.table or entry.fingerprint is None or entry.origin is not VersionOrigin.DDL:
        return FOUND
    if entry.renamed_from is not None:
        return stored_partitions(engine, store, source, entry.renamed_from, _order_of(entry))
    if not (entry.effect.makes_table or entry.effect.is_whole):
        return None
    requested = requested_changes(engine, [entry.version_id]).get(entry.version_id, ())
    like = next((change.like for change in requested if isinstance(change, CreateTableLike)), None)
    if like is not None:
        return stored_partitions(engine, store, source, like, _order_of(entry))
    return partitions_made(store.definition(entry.fingerprint).options, requested)


def _order_of(entry: StoredEntry) -> _Order:
    return entry.seq, 1 if entry.statement_no else -1, entry.version_id


class PlacedChange(Struct, frozen=True):
    """A statement that names partitions, and what is known of its position."""

    change: PartitionChange
    interval: tuple[int, int] | None
    """Start and end of the interval in which it was committed, microseconds UTC; None: it is in no closed interval."""
    gtid: str | None
    """Known for a statement that removed rows."""
    others: tuple[TableName, ...]
    """Other tables that it took rows from or gave rows to."""


def partition_changes(engine: sa.Engine, source: str, table: TableName | None = None) -> Iterator[PartitionChange]:
    """All statements of a source, in stream order.

    Args:
        table: Only those about this table, and those without a table.
    """
    columns = partition_change.c
    query = sa.select(*columns).where(columns.source == source).order_by(columns.seq, columns.binlog_pos)
    if table is not None:
        is_its = (columns.database_name == table.database) & (columns.table_name == table.table)
        query = query.where(is_its | (columns.table_name == ""))
    rows = read_rows(engine, query)
    yield from map(_from_row, rows)


def newest_partition_changes(
    engine: sa.Engine, source: str, names: Collection[TableName], *, limit: int = 50
) -> list[PlacedChange]:
    """The newest of some tables, the newest first."""
    columns = partition_change.c
    query = (
        sa.select(*columns)
        .where(
            columns.source == source,
            columns.database_name.in_(sorted({name.database for name in names})),
            columns.table_name.in_(sorted({name.table for name in names})),
        )
        .order_by(columns.seq.desc(), columns.binlog_pos.desc())
        .limit(limit)
    )
    with reading(engine) as connection:
        rows = connection.execute(query).all()
        changes = [change for change in map(_from_row, rows) if change.name in names]
        if not changes:
            return []
        seqs = sorted({change.seq for change in changes})
        intervals = _intervals(connection, source, seqs)
        removals = _removals(connection, source, seqs)
    placed = []
    for change in changes:
        interval = next((span for first, last, span in intervals if first < change.seq <= last), None)
        gtid, tables = removals.get((change.seq, change.binlog_pos), (None, ()))
        placed.append(PlacedChange(change, interval, gtid, tuple(name for name in tables if name != change.name)))
    return placed


def _intervals(connection: sa.Connection, source: str, seqs: Sequence[int]) -> list[tuple[int, int, tuple[int, int]]]:
    """First and last ordinal, start and end of the intervals that contain some transactions."""
    columns = closed_interval.c
    owns = sa.or_(*((columns.first_seq < seq) & (columns.last_seq >= seq) for seq in seqs))
    query = sa.select(columns.first_seq, columns.last_seq, columns.start_at, columns.end_at).where(
        columns.source == source, owns
    )
    return [(first, last, (start, end)) for first, last, start, end in connection.execute(query)]


def _removals(
    connection: sa.Connection, source: str, seqs: Sequence[int]
) -> dict[tuple[int, int], tuple[str | None, tuple[TableName, ...]]]:
    columns = row_removal.c
    query = sa.select(columns.seq, columns.binlog_pos, columns.gtid, columns.tables).where(
        columns.source == source, columns.seq.in_(seqs)
    )
    return {
        (seq, offset): (gtid, names_from_column(tables, "row_removal.tables"))
        for seq, offset, gtid, tables in connection.execute(query)
    }


def _from_row(row: Any) -> PartitionChange:
    return PartitionChange(
        row.seq,
        row.binlog_pos,
        TableName(row.database_name, row.table_name),
        row.statement,
        row.sql_mode,
        row.server_version,
        row.time_zone,
    )
