"""The past of one table: its versions under all of its names, and since when all of its rows are in the stream.
Not here: its changes (`lake_rows.py`), what a change does to rows (`quality/proof/replay.py`)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.history.versions import VersionOrigin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.schema.history.versions import RowRemoval, TableChange
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class SourcePast(Struct, frozen=True):
    """The history of all tables of a source, as it is known now."""

    table_changes: tuple[TableChange, ...]
    removals: tuple[RowRemoval, ...]
    made_by: Mapping[int, VersionOrigin]
    """Version -> how it became known."""

    @classmethod
    def from_store(cls, engine: sa.Engine, source: str) -> SourcePast:
        """Reads it."""
        origins = {entry.version_id: entry.origin for entry in SchemaStore(engine).all_entries(source)}
        return cls(tuple(table_changes_of(engine, source)), tuple(removals_of(engine, source)), origins)

    def tables(self) -> list[TableName]:
        """Those that are there now with a known definition, and those whose definition was lost, by name."""
        last = {change.name: change for change in self.table_changes}
        return sorted(name for name, change in last.items() if name.table and (change.definition or change.gap))

    def table(self, name: TableName) -> TablePast:
        """What there is to know of one table."""
        names = {name}
        backwards = []
        for change in reversed(self.table_changes):
            if change.name in names and change.renamed_from is not None:
                names.add(change.renamed_from)
            # What became of another name after its rows had left it is the past of another table.
            if change.name in names or change.renamed_from in names:
                backwards.append(change)
        table_changes = tuple(reversed(backwards))
        removals = tuple(removal for removal in self.removals if removal.name in names)
        return TablePast(name, frozenset(names), table_changes, removals, self.made_by)


class TablePast(Struct, frozen=True):
    """The history of one table and of those whose rows it has."""

    name: TableName
    names: frozenset[TableName]
    table_changes: tuple[TableChange, ...]
    removals: tuple[RowRemoval, ...]
    made_by: Mapping[int, VersionOrigin]

    def until(self, seq: int) -> TablePast:
        """Up to and with a transaction."""
        table_changes = tuple(change for change in self.table_changes if self._holds_after(change) <= seq)
        removals = tuple(removal for removal in self.removals if removal.seq <= seq)
        return TablePast(self.name, self.names, table_changes, removals, self.made_by)

    def later(self, seq: int) -> list[int]:
        """Ordinals of later transactions that made something else of it, or removed rows."""
        turned = (self._holds_after(change) for change in self.table_changes)
        return sorted(at for at in {*turned, *(removal.seq for removal in self.removals)} if at > seq)

    def _holds_after(self, change: TableChange) -> int:
        """Ordinal of the transaction from which on it says what the table is: what a reading of the server found has
        the ordinal of the transaction before which it was read, which may not have come yet."""
        is_read = change.order[1] == 0 and self.made_by.get(change.version_id) is VersionOrigin.BASELINE
        return change.order[0] - 1 if is_read else change.order[0]

    @property
    def last(self) -> TableChange | None:
        """What the newest version says of the table; None if the history does not know it."""
        return next((change for change in reversed(self.table_changes) if change.name == self.name), None)

    @property
    def definition(self) -> TableDefinition | None:
        """By the newest version; None if there is no version."""
        return None if self.last is None else self.last.definition

    def complete_since(self) -> int | None:
        """Ordinal of the transaction since which all rows are in the stream: it made the table, or emptied it.

        None if rows may be from before the stream.
        """
        since: dict[TableName, int | None] = {}
        emptied = [removal for removal in self.removals if removal.effect.is_whole]
        for order, together in groupby(self.table_changes, key=lambda change: change.order):
            _empty(since, [removal for removal in emptied if removal.seq < order[0]])
            self._follow(since, list(together))
        _empty(since, emptied)
        return since.get(self.name)

    def _follow(self, since: dict[TableName, int | None], together: Sequence[TableChange]) -> None:
        before = dict(since)
        for change in together:
            since.pop(change.name, None)
            if change.definition is None:
                continue
            came_from = change.renamed_from or change.name
            if came_from in before:
                since[change.name] = before[came_from]
            elif change.renamed_from is None and self.made_by[change.version_id] is VersionOrigin.DDL:
                since[change.name] = change.order[0]
            else:
                since[change.name] = None


def _empty(since: dict[TableName, int | None], emptied: Sequence[RowRemoval]) -> None:
    for removal in emptied:
        if removal.name in since:
            since[removal.name] = max(since[removal.name] or 0, removal.seq)
