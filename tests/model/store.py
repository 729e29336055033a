"""What is stored, and what a node makes of a statement under its schema version.
Not here: who writes, and when (`cluster.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from tests.model.schema import Column, Index, Schema

Row = dict[int, int | str]
"""The stored values of a row, by the ids of their columns."""
Truth = dict[int, int | str]
"""What a row has according to the statements that were committed, by lineage."""


class RowKey(NamedTuple):
    part: int
    key: int


class Entry(NamedTuple):
    """An entry of an index, and the row that it points to."""

    index: int
    part: int
    value: int | str
    key: int

    @property
    def row(self) -> RowKey:
        return RowKey(self.part, self.key)


class Write(Struct, frozen=True):
    """What a transaction does to one row and to the indexes."""

    row: RowKey
    before: Row | None
    after: Row | None
    truth: Truth
    removed: frozenset[Entry]
    added: frozenset[Entry]


class Store:
    """Rows and entries of indexes, as they are committed."""

    def __init__(self) -> None:
        self.rows: dict[RowKey, Row] = {}
        self.truths: dict[RowKey, Truth] = {}
        self.entries: set[Entry] = set()
        self.changed: dict[RowKey, int] = {}
        """When a row changed last, by the clock of commits; also for rows that are gone."""
        self.dropped: set[int] = set()
        """Physical ids and ids of indexes whose ranges are to be deleted when no node uses them any more."""

    def apply(self, write: Write, commit_ts: int) -> None:
        self.changed[write.row] = commit_ts
        self.entries -= write.removed
        self.entries |= write.added
        if write.after is None:
            del self.rows[write.row], self.truths[write.row]
        else:
            self.rows[write.row] = write.after
            self.truths[write.row] = write.truth

    def copy(self) -> Store:
        other = Store()
        other.rows, other.truths, other.entries = dict(self.rows), dict(self.truths), set(self.entries)
        other.changed, other.dropped = dict(self.changed), set(self.dropped)
        return other

    def state(self) -> Hashable:
        """What is stored, without when."""
        rows = frozenset((row, frozenset(values.items())) for row, values in self.rows.items())
        truths = frozenset((row, frozenset(truth.items())) for row, truth in self.truths.items())
        return rows, truths, frozenset(self.entries), frozenset(self.dropped)

    def delete_ranges(self) -> None:
        """Deletes all that belongs to dropped ids."""
        for row in [row for row in self.rows if row.part in self.dropped]:
            del self.rows[row], self.truths[row]
        self.entries = {entry for entry in self.entries if not self.dropped & {entry.index, entry.part}}
        for row, values in self.rows.items():
            self.rows[row] = {column: value for column, value in values.items() if column not in self.dropped}
        self.dropped.clear()


def stored(schema: Schema, column: Column, row: Row) -> int | str | None:
    """The value of a column in a row: the stored one, its default, or the cast of the column that it is to replace."""
    if column.id in row:
        return row[column.id]
    if column.default is not None:
        return column.cast(column.default)
    public = schema.readable.get(column.lineage)
    value = row.get(public.id, public.default) if public else None
    return None if value is None else column.cast(value)


def entry_of(schema: Schema, index: Index, row_key: RowKey, row: Row) -> Entry | None:
    """The entry that an index has for a row; None: the row has no value for it."""
    value = stored(schema, schema.elements[index.column], row)
    return None if value is None else Entry(index.id, row_key.part, value, row_key.key)


def entries(schema: Schema, indexes: Iterable[Index], row_key: RowKey, row: Row) -> frozenset[Entry]:
    there = (entry_of(schema, index, row_key, row) for index in indexes if index.column in schema.elements)
    return frozenset(entry for entry in there if entry)


def write_row(schema: Schema, row_key: RowKey, before: Row | None, truth: Truth, value: int) -> Write:
    """INSERT, or UPDATE of all columns that users see. A row is stored as a whole: values of columns that the node may
    not write are lost."""
    after, known = {}, dict(truth)
    for column in schema.columns:
        if not column.state.writes:
            continue
        if column.lineage in schema.readable:
            after[column.id] = column.cast(value)
            known[column.lineage] = value
        else:
            hidden = (before or {}).get(column.id, column.cast(column.default or 0))
            after[column.id] = hidden
            known.setdefault(column.lineage, hidden)
    written = [index for index in schema.indexes if index.state.writes]
    removed = entries(schema, schema.indexes, row_key, before) if before is not None else frozenset()
    return Write(row_key, before, after, known, removed, entries(schema, written, row_key, after))


def delete_row(schema: Schema, row_key: RowKey, before: Row) -> Write:
    removed = entries(schema, schema.indexes, row_key, before)
    return Write(row_key, before, None, {}, removed, frozenset())


def fill_row(schema: Schema, ids: Iterable[int], row_key: RowKey, before: Row, truth: Truth) -> Write:
    """What the backfill of new columns and indexes makes of a row."""
    wanted = set(ids)
    after = dict(before)
    for column in schema.columns:
        value = stored(schema, column, before)
        # A new column with a default needs no backfill: rows without a value have the default.
        if column.id in wanted and column.default is None and value is not None:
            after[column.id] = value
    indexes = [index for index in schema.indexes if index.id in wanted]
    return Write(row_key, before, after, truth, frozenset(), entries(schema, indexes, row_key, after))


def clear_row(ids: Iterable[int], row_key: RowKey, before: Row, truth: Truth) -> Write:
    """What the removal of columns makes of a row."""
    gone = set(ids)
    after = {column: value for column, value in before.items() if column not in gone}
    return Write(row_key, before, after, truth, frozenset(), frozenset())
