"""Replays change tables into the rows of the tables: the proof that nothing was lost.
Not here: what each version makes of a table (`schema/history/table_changes.py`), single changes (`tables/state.py`),
what DDL does to rows (`tables/convert.py`)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.tables.convert import convert_exact_rows, exact_schema, state_schema
from strata_cdc.tables.read import read_columns
from strata_cdc.tables.united import as_schema
from strata_cdc.tables.unknown_before import apply_by_own_keys
from strata_cdc.tables.verbatim import exact_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    import sqlalchemy as sa

    from strata_cdc.schema.history.versions import RowRemoval, TableChange
    from strata_cdc.schema.model.definition import TableDefinition, TableName

    Apply = Callable[[pa.Table, pa.Table, TableDefinition], pa.Table]


class TableState(Struct, frozen=True):
    """The rows of a table and their definition."""

    definition: TableDefinition
    rows: pa.Table
    """Columns as the change table calls them, and those of texts of what these do not hold."""


def replay_source(
    lake: str, source: str, engine: sa.Engine, wanted: Callable[[TableName], bool] = lambda _: True
) -> dict[TableName, TableState]:
    """The rows that tables of a source have after all published changes, without what DDL removed of them.

    Rows that were there before the first landed transaction are in no change and so not in the result.

    Args:
        wanted: Which tables to give.

    Raises:
        Usage: The server computed values that are not in the log, or removed a partition whose rows are not known.
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The database does not answer.
    """
    removals = removals_of(engine, source)
    return replay(table_changes_of(engine, source), lambda name: read_columns(lake, source, name), removals, wanted)


def replay(
    table_changes: Sequence[TableChange],
    read: Callable[[TableName], Sequence[pa.Table]],
    removals: Sequence[RowRemoval],
    wanted: Callable[[TableName], bool] = lambda _: True,
    apply: Apply = apply_by_own_keys,
) -> dict[TableName, TableState]:
    """As `replay_source`, from the changes of tables and the removals in stream order and a reader of change tables.

    Args:
        table_changes: What versions make of them.
        read: Gives the change table of a name.
        removals: What DDL removed.
        wanted: Which tables to give.
        apply: Makes rows of rows and the changes of one version; one that looks at them on the way has the same result.

    Raises:
        SchemaGapError: A table has changes after its definition was lost.
        Usage: The server computed values that are not in the log, or removed a partition whose rows are not known.
    """
    stage = _Stage(read, apply)
    left = list(reversed(removals))
    for order, together in groupby(table_changes, key=lambda change: change.order):
        while left and left[-1].seq < order[0]:
            stage.remove(left.pop())
        stage.take_version(list(together))
    for removal in reversed(left):
        stage.remove(removal)
    return stage.end(wanted)


class _Stage:
    """The tables as they are at one point of the stream."""

    def __init__(self, read: Callable[[TableName], Sequence[pa.Table]], apply: Apply) -> None:
        self._read, self._apply = read, apply
        self._changes: dict[TableName, Sequence[pa.Table]] = {}
        self._states: dict[TableName, TableState] = {}
        self._current: dict[TableName, TableChange] = {}
        self._removed_at: dict[TableName, int] = {}
        """Ordinal of the transaction that removed all rows of a table last."""
        self._in_doubt: dict[TableName, RowRemoval] = {}
        """Tables that lost rows, and nobody knows which."""

    def take_version(self, together: Sequence[TableChange]) -> None:
        """Plays the changes of the touched tables since their last version, then what a statement does to them all."""
        for name in {name for change in together for name in (change.name, change.renamed_from) if name is not None}:
            self._play(name)
        before, in_doubt = dict(self._states), dict(self._in_doubt)
        for change in together:
            self._states.pop(change.name, None)
            self._in_doubt.pop(change.name, None)
            if (change.renamed_from or change.name) in in_doubt:
                self._in_doubt[change.name] = in_doubt[change.renamed_from or change.name]
            if change.definition is not None:
                self._states[change.name] = _entered(
                    change, change.definition, before.get(change.renamed_from or change.name)
                )
            self._current[change.name] = change

    def remove(self, removal: RowRemoval) -> None:
        """Removes what a DDL removed without row events."""
        state = self._states.get(removal.name)
        if state is None:
            return
        if not removal.effect.is_whole:
            self._in_doubt[removal.name] = removal
            return
        self._in_doubt.pop(removal.name, None)
        # Earlier changes that have not been replayed yet are skipped.
        self._removed_at[removal.name] = removal.seq
        self._states[removal.name] = TableState(state.definition, state.rows.slice(0, 0))

    def end(self, wanted: Callable[[TableName], bool]) -> dict[TableName, TableState]:
        """Plays what is left, and gives the tables that are there and wanted."""
        for name in filter(wanted, list(self._current)):
            self._play(name)
        for name, removal in self._in_doubt.items():
            if name in self._states and wanted(name):
                raise Usage(
                    f"`{removal.statement}` removed rows, and no log says which",
                    table=str(name),
                    gtid=removal.gtid,
                    remedy="Take the table's rows from the server (a dump) and the changes after it.",
                )
        return {name: state for name, state in sorted(self._states.items()) if wanted(name)}

    def _play(self, name: TableName) -> None:
        change = self._current.get(name)
        if change is None:
            return
        if name not in self._changes:
            self._changes[name] = self._read(name)
        for changes in self._changes[name]:
            is_left = pc.greater(changes["_seq"], self._removed_at.get(name, 0))
            of_version = changes.filter(pc.and_(pc.equal(changes["_schema_version"], change.version_id), is_left))
            state = self._states.get(name)
            if of_version.num_rows == 0:
                continue
            if state is None:
                raise SchemaGapError(change.gap or "there are changes of a table that is not there", table=str(name))
            shaped = exact_changes(as_schema(of_version, state_schema(state.definition)), state.definition)
            played = self._apply(state.rows, shaped, state.definition)
            self._states[name] = TableState(state.definition, played)


def _entered(change: TableChange, definition: TableDefinition, before: TableState | None) -> TableState:
    if before is None or change.effect.is_whole:
        return TableState(definition, exact_schema(definition).empty_table())
    return TableState(definition, convert_exact_rows(before.rows, before.definition, definition, change.effect))
