"""A table put together from the stream, as a reader does it that learns of a DDL when it is done: TiCDC, and who reads
its files.
Not here: the stream (`stream.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.store import Row, RowKey
from tests.model.stream import RowChange, SchemaChange, quadrants

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tests.model.cluster import Cluster
    from tests.model.schema import Column, Schema
    from tests.model.stream import Stream

Table = dict[RowKey, dict[int, int | str | None]]
"""The values of public columns, by their ids; None: the row that came had no value, and the column has no default."""


def replayed(stream: Stream) -> Table:
    """All rows after the stream. Each row is decoded with the schema of the last DDL that was done before its
    commit-ts: what this schema does not have is dropped, what the row does not have is the default."""
    schema, table = stream.first, {}
    for change in stream.changes:
        if isinstance(change, SchemaChange):
            table = _converted(table, schema, change.schema)
            schema = change.schema
        else:
            _apply(table, schema, change)
    return table


def _apply(table: Table, schema: Schema, change: RowChange) -> None:
    row = RowKey(change.part, change.key)
    if change.part not in {part.id for part in schema.public_parts}:
        return
    if change.after is None:
        table.pop(row, None)
    else:
        table[row] = {column.id: change.after.get(column.id, column.default) for column in schema.public_columns}


def _converted(table: Table, old: Schema, new: Schema) -> Table:
    """What the DDL makes of the rows that are there."""
    parts = {part.id for part in new.public_parts}
    return {
        row: {column.id: _value(values, old, column) for column in new.public_columns}
        for row, values in table.items()
        if row.part in parts
    }


def _value(values: dict[int, int | str | None], old: Schema, column: Column) -> int | str | None:
    before = old.readable.get(column.lineage)
    if before is None:
        return column.default
    value = values[before.id]
    return None if value is None else column.cast(value)


def stored_table(cluster: Cluster) -> Table:
    """The rows that users of the newest version see."""
    schema = cluster.newest
    parts = {part.id for part in schema.public_parts}

    def read(row: Row) -> dict[int, int | str | None]:
        return {column.id: row.get(column.id, column.default) for column in schema.public_columns}

    return {key: read(row) for key, row in cluster.store.rows.items() if key.part in parts}


def stream_state(cluster: Cluster) -> Hashable:
    """What makes streams differ that lead to the same state of a cluster."""
    rows = {key: tuple(values.items()) for key, values in replayed(cluster.stream).items()}
    return tuple(sorted(rows.items())), frozenset(quadrants(cluster.stream))
