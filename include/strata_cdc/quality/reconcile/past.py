"""The past of one table: its turns under all of its names, and since when all of its rows are in the stream.
Not here: its changes (`lake_rows.py`), what a turn does to rows (`quality/proof/replay.py`)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.table_changes import removals_of, turns_of
from strata_cdc.schema.history.versions import VersionOrigin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.schema.history.table_changes import Removal, Turn
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class SourcePast(Struct, frozen=True):
    """The history of all tables of a source, as it is known now."""

    turns: tuple[Turn, ...]
    removals: tuple[Removal, ...]
    made_by: Mapping[int, VersionOrigin]
    """Version -> how it became known."""

    @classmethod
    def of(cls, engine: sa.Engine, source: str) -> SourcePast:
        """Reads it.

        Raises:
            StoreUnavailableError: The database does not answer.
        """
        origins = {entry.version_id: entry.origin for entry in SchemaStore(engine).all_entries(source)}
        return cls(tuple(turns_of(engine, source)), tuple(removals_of(engine, source)), origins)

    def tables(self) -> list[TableName]:
        """Those that are there now with a known definition, and those whose definition was lost, by name."""
        last = {turn.name: turn for turn in self.turns}
        return sorted(name for name, turn in last.items() if name.table and (turn.definition or turn.gap))

    def table(self, name: TableName) -> TablePast:
        """What there is to know of one table."""
        names = {name}
        for turn in reversed(self.turns):
            if turn.name in names and turn.renamed_from is not None:
                names.add(turn.renamed_from)
        turns = tuple(turn for turn in self.turns if turn.name in names or turn.renamed_from in names)
        removals = tuple(removal for removal in self.removals if removal.name in names)
        return TablePast(name, frozenset(names), turns, removals, self.made_by)


class TablePast(Struct, frozen=True):
    """The history of one table and of those whose rows it has."""

    name: TableName
    names: frozenset[TableName]
    turns: tuple[Turn, ...]
    removals: tuple[Removal, ...]
    made_by: Mapping[int, VersionOrigin]

    def until(self, seq: int) -> TablePast:
        """Up to and with a transaction."""
        turns = tuple(turn for turn in self.turns if self._holds_behind(turn) <= seq)
        removals = tuple(removal for removal in self.removals if removal.seq <= seq)
        return TablePast(self.name, self.names, turns, removals, self.made_by)

    def later(self, seq: int) -> list[int]:
        """Ordinals of later transactions that made something else of it, or removed rows."""
        turned = (self._holds_behind(turn) for turn in self.turns)
        return sorted(at for at in {*turned, *(removal.seq for removal in self.removals)} if at > seq)

    def _holds_behind(self, turn: Turn) -> int:
        """Ordinal of the transaction from which on it says what the table is: what a reading of the server found has
        the ordinal of the transaction in front of which it was read, which may not have come yet."""
        is_read = turn.order[1] == 0 and self.made_by.get(turn.version_id) is VersionOrigin.BASELINE
        return turn.order[0] - 1 if is_read else turn.order[0]

    @property
    def last(self) -> Turn | None:
        """What the newest version says of the table; None if the history does not know it."""
        return next((turn for turn in reversed(self.turns) if turn.name == self.name), None)

    @property
    def definition(self) -> TableDefinition | None:
        """By the newest version; None if there is none."""
        return None if self.last is None else self.last.definition

    def complete_since(self) -> int | None:
        """Ordinal of the transaction since which all rows are in the stream: it made the table, or emptied it.

        None if rows may be from before the stream.
        """
        since: dict[TableName, int | None] = {}
        emptied = [removal for removal in self.removals if removal.is_whole]
        for order, together in groupby(self.turns, key=lambda turn: turn.order):
            _empty(since, [removal for removal in emptied if removal.seq < order[0]])
            self._turn(since, list(together))
        _empty(since, emptied)
        return since.get(self.name)

    def _turn(self, since: dict[TableName, int | None], together: Sequence[Turn]) -> None:
        before = dict(since)
        for turn in together:
            since.pop(turn.name, None)
            if turn.definition is None:
                continue
            came_from = turn.renamed_from or turn.name
            if came_from in before:
                since[turn.name] = before[came_from]
            elif turn.renamed_from is None and self.made_by[turn.version_id] is VersionOrigin.DDL:
                since[turn.name] = turn.order[0]
            else:
                since[turn.name] = None


def _empty(since: dict[TableName, int | None], emptied: Sequence[Removal]) -> None:
    for removal in emptied:
        if removal.name in since:
            since[removal.name] = max(since[removal.name] or 0, removal.seq)
