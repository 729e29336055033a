"""The statements that name partitions, as the tracker has stored them.
Not here: storing them (`schema/tracker/transactions.py`), their effect on partitions (`partition_lifetimes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.schema.history.name_columns import names_from_column
from strata_cdc.schema.history.versions import PartitionChange
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import reading
from strata_cdc.store.tables import closed_interval, partition_change, row_removal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


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

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    columns = partition_change.c
    query = sa.select(*columns).where(columns.source == source).order_by(columns.seq, columns.binlog_pos)
    if table is not None:
        is_its = (columns.database_name == table.database) & (columns.table_name == table.table)
        query = query.where(is_its | (columns.table_name == ""))
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    yield from map(_from_row, rows)


def newest_partition_changes(
    engine: sa.Engine, source: str, names: Collection[TableName], *, limit: int = 50
) -> list[PlacedChange]:
    """The newest of some tables, the newest first.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
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
