"""Tables as they were at a position of the stream.
Not here: looking up one table for decoding (`schema/history/historian.py`), changes (`changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.fields import near_names
from strata_cdc.schema.answers.lines import table_line
from strata_cdc.schema.history.historian import Gap
from strata_cdc.schema.history.name_columns import name_to_text
from strata_cdc.schema.history.versions import EVERY_TABLE, SchemaVersion, every_table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.schema.answers.lines import TableLine
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.stream_positions import StreamPosition
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableName


class TablesAt(Struct, frozen=True):
    """The tables at a position."""

    executed: str
    """The GTID set of the position."""
    tables: tuple[tuple[TableName, SchemaVersion | Gap], ...]
    others: str | None
    """Why there may be other tables too; None if there are none."""

    def lines(self) -> Iterator[TableLine]:
        """One line for each table."""
        for name, definition in self.tables:
            known = definition.reason if isinstance(definition, Gap) else definition.definition
            yield table_line(self.executed, name, known)


def tables_at(history: History, position: StreamPosition, table: TableName | None = None) -> TablesAt:
    """All tables at a position, or one of them.

    Raises:
        SchemaGapError: The one table is not known there.
    """
    known_tables = [(table, history.at(table, position))] if table is not None else list(history.tables(position))
    others = [known.reason for name, known in known_tables if name == EVERY_TABLE and isinstance(known, Gap)]
    return TablesAt(
        history.executed_at(position),
        tuple((name, known) for name, known in known_tables if name != EVERY_TABLE),
        others[0] if others else None,
    )


def refuse_gaps(history: History, position: StreamPosition, tables: TablesAt) -> None:
    """Fails with the error of the first table that is not known.

    Raises:
        SchemaGapError: There is such a table.
    """
    for name, known in tables.tables:
        if isinstance(known, Gap):
            raise_gap(history, position, name, known)


def raise_gap(history: History, position: StreamPosition, name: TableName, gap: Gap) -> None:
    """Raises the historian's error for a table that is not known, with the position and the statement.

    Raises:
        SchemaGapError: Always.
    """
    history.at(name, position)
    raise SchemaGapError(gap.reason, table=str(name))


def versions_at(history: History, position: StreamPosition, table: TableName | None) -> dict[TableName, SchemaVersion]:
    """The versions of all tables at a position, or of one table, which need not exist.

    Raises:
        SchemaGapError: One of them is not known there.
    """
    known = {}
    for name, version in history.tables(position):
        if name == EVERY_TABLE or (table is not None and name != table):
            continue
        if isinstance(version, Gap):
            raise_gap(history, position, name, version)
        else:
            known[name] = version
    return known


def _ends_at_once(gap: StoredEntry, entries: Sequence[StoredEntry]) -> bool:
    """Whether a gap ends before the next transaction, as that does in which a stream begins with a snapshot."""
    return any(
        entry.gap is None and entry.name == gap.name and entry.seq == gap.seq and entry.order > gap.order
        for entry in entries
    )


def require_table(store: SchemaStore, source: str, table: TableName) -> None:
    """Refuses a name that no table ever had, as far as the history knows. If the history does not know all tables, or
    all tables of the database, such a table may have existed.

    Raises:
        Usage: There never was such a table.
    """
    # The names of all tables are read only if there is a name to suggest.
    if store.has_table(source, table):
        return
    wider = store.timeline(source, {EVERY_TABLE, every_table_of(table.database)})
    if any(entry.gap is not None and not _ends_at_once(entry, wider) for entry in wider):
        return
    # As these commands take them: the first dot may belong to the name of the database.
    known = {str(name): name_to_text(name) for name in store.tables(source)}
    near = [known[name] for name in near_names(str(table), known, most=3)]
    raise Usage(
        f"there never was a table {table}" + (f": do you mean {' or '.join(near)}?" if near else ""),
        source=source,
        remedy="`strata schema show` lists tables.",
    )
