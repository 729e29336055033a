"""Tables as they were at a point of the stream.
Not here: looking one up for decoding (`schema/history/historian.py`), what changed (`changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.fields import near_names
from strata_cdc.schema.answers.lines import table_line
from strata_cdc.schema.history.historian import Gap
from strata_cdc.schema.history.versions import EVERY_TABLE, SchemaVersion, every_table_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.schema.answers.lines import TableLine
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.stream_positions import StreamPosition
    from strata_cdc.schema.model.definition import TableName


class TablesAt(Struct, frozen=True):
    """What there was at a point."""

    executed: str
    """The GTID set of the point."""
    tables: tuple[tuple[TableName, SchemaVersion | Gap], ...]
    others: str | None
    """Why there may be tables besides these; None if there are none."""

    def lines(self) -> Iterator[TableLine]:
        """One line a table."""
        for name, found in self.tables:
            known = found.reason if isinstance(found, Gap) else found.definition
            yield table_line(self.executed, name, known)


def tables_at(history: History, position: StreamPosition, table: TableName | None = None) -> TablesAt:
    """All tables at a point, or one of them.

    Raises:
        SchemaGapError: The one table is not known there.
    """
    found = [(table, history.at(table, position))] if table is not None else list(history.tables(position))
    others = [known.reason for name, known in found if name == EVERY_TABLE and isinstance(known, Gap)]
    return TablesAt(
        history.executed_at(position),
        tuple((name, known) for name, known in found if name != EVERY_TABLE),
        others[0] if others else None,
    )


def refuse_gaps(history: History, position: StreamPosition, found: TablesAt) -> None:
    """Ends with the error of the first table that is not known.

    Raises:
        SchemaGapError: There is one.
    """
    for name, known in found.tables:
        if isinstance(known, Gap):
            raise_gap(history, position, name, known)


def raise_gap(history: History, position: StreamPosition, name: TableName, gap: Gap) -> None:
    """Raises what the historian says of a table that is not known, with the place and the statement.

    Raises:
        SchemaGapError: Always.
    """
    history.at(name, position)
    raise SchemaGapError(gap.reason, table=str(name))


def versions_at(history: History, position: StreamPosition, table: TableName | None) -> dict[TableName, SchemaVersion]:
    """The versions of all tables at a point, or of one, which need not be there.

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


def require_table(store: SchemaStore, source: str, table: TableName) -> None:
    """Refuses a name that no table ever had, as far as the history says: where it says nothing of all tables, or of
    those of the database, there may have been one.

    Raises:
        Usage: There never was such a table.
    """
    # The names of all tables are asked for only where there is something to suggest.
    if store.has_table(source, table):
        return
    wider = store.timeline(source, {EVERY_TABLE, every_table_of(table.database)})
    if any(entry.gap is not None for entry in wider):
        return
    near = near_names(str(table), map(str, store.tables(source)), most=3)
    raise Usage(
        f"there never was a table {table}" + (f": do you mean {' or '.join(near)}?" if near else ""),
        source=source,
        remedy="`strata schema show` lists tables.",
    )
