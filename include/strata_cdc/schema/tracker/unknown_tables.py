"""Tables that are not known, and rows that tell what they are.
Not here: what a TABLE_MAP says of a table (`full_metadata.py`), storing it (`track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.schema.history.versions import EVERY_TABLE, TableEntry, every_table_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.tracker.full_metadata import definition_from_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from strata_cdc.schema.replay.stored_catalog import Replay
    from strata_cdc.schema.tracker.stream import TrackedTransaction

_PATIENCE: Final = 16
_LONGEST_PAUSE: Final = 1000
"""Transactions."""


class UnknownTables:
    """Closes gaps of tables whose rows come with names (`binlog_row_metadata=FULL`).

    MINIMAL is a setting of the server: where rows come without names, fewer and fewer of them are looked at.
    """

    def __init__(self, names: Set[TableName], exclude: Set[str]) -> None:
        """Begins with what the store knows.

        Args:
            names: Those that have had a gap, whether they are known by now or not.
            exclude: Databases that are no users'.
        """
        self._names = set(names)
        self._exclude = exclude
        self._looks_again_at = 0
        self._fruitless = 0

    def concern(self, names: Iterable[TableName], replay: Replay) -> bool:
        """Whether any of these tables is not known, so that rows of it may tell."""
        return bool(self._names) and any(self._is_unknown(name, replay) for name in names)

    def add(self, names: Iterable[TableName]) -> None:
        """These are not known from here on."""
        self._names.update(names)

    def made_known_by(self, transaction: TrackedTransaction, replay: Replay, seq: int) -> tuple[TableEntry, ...]:
        """The tables that a transaction's TABLE_MAPs make known; they are set in `replay`."""
        if not self._names or seq < self._looks_again_at:
            return ()
        unknown = {name for name in transaction.tables if self._is_unknown(name, replay)}
        found: dict[TableName, TableEntry] = {}
        for table_map in transaction.table_maps if unknown else ():
            name = TableName(table_map.database, table_map.table)
            if name not in unknown or name in found:
                continue
            definition = definition_from_map(table_map)
            if definition is None:
                self._fruitless += 1
                self._looks_again_at = seq + min(self._fruitless // _PATIENCE, _LONGEST_PAUSE)
                break
            found[name] = TableEntry(name, definition)
        for entry in found.values():
            replay.put_table(entry)
        return tuple(found.values())

    def _is_unknown(self, name: TableName, replay: Replay) -> bool:
        if name.database in self._exclude:
            return False
        wide = {name, every_table_of(name.database), EVERY_TABLE}
        return not self._names.isdisjoint(wide) and replay.state(name).gap is not None
