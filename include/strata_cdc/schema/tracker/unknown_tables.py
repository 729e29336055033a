"""Tables that are not known, and row events that have their definitions.
Not here: the definition in a TABLE_MAP (`full_metadata.py`), storing it (`track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.schema.history.versions import EVERY_TABLE, TableChange, every_table_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.tracker.full_metadata import definition_from_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from strata_cdc.schema.replay.stored_catalog import Replay
    from strata_cdc.schema.tracker.stream import TrackedTransaction

_PATIENCE: Final = 16
_LONGEST_PAUSE: Final = 1000
"""Number of transactions."""


class UnknownTables:
    """Closes gaps of tables whose row events have the names of columns (`binlog_row_metadata=FULL`).

    With MINIMAL, a setting of the server, they have no names: then fewer and fewer transactions are checked.
    """

    def __init__(self, names: Set[TableName], exclude: Set[str]) -> None:
        """Begins with the state of the store.

        Args:
            names: Tables that have had a gap, whether they are known now or not.
            exclude: Databases that do not belong to users.
        """
        self._names = set(names)
        self._exclude = exclude
        self._looks_again_at = 0
        self._fruitless = 0

    def concern(self, names: Iterable[TableName], replay: Replay) -> bool:
        """Whether any of these tables is not known, so that its row events may help."""
        return bool(self._names) and any(self._is_unknown(name, replay) for name in names)

    def add(self, names: Iterable[TableName]) -> None:
        """Marks tables as not known from here on."""
        self._names.update(names)

    def made_known_by(self, transaction: TrackedTransaction, replay: Replay, seq: int) -> tuple[TableChange, ...]:
        """The tables that become known by a transaction's TABLE_MAPs; they are set in `replay`."""
        if not self._names or seq < self._looks_again_at:
            return ()
        unknown = {name for name in transaction.tables if self._is_unknown(name, replay)}
        changes: dict[TableName, TableChange] = {}
        for table_map in transaction.table_maps if unknown else ():
            name = TableName(table_map.database, table_map.table)
            if name not in unknown or name in changes:
                continue
            definition = definition_from_map(table_map)
            if definition is None:
                self._fruitless += 1
                self._looks_again_at = seq + min(self._fruitless // _PATIENCE, _LONGEST_PAUSE)
                break
            changes[name] = TableChange(name, definition)
        for entry in changes.values():
            replay.put_table(entry)
        return tuple(changes.values())

    def _is_unknown(self, name: TableName, replay: Replay) -> bool:
        if name.database in self._exclude:
            return False
        wide = {name, every_table_of(name.database), EVERY_TABLE}
        return not self._names.isdisjoint(wide) and replay.state(name).gap is not None
