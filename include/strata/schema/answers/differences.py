"""What differs in tables between two points of the stream, whatever went on between them.
Not here: comparing two definitions (`schema/apply/diff.py`), each change of its own (`changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from strata.schema.answers.lines import DifferenceLine
from strata.schema.answers.tables import versions_at
from strata.schema.apply.diff import diff
from strata.schema.history.historian import History
from strata.schema.history.lineage import lineage, online_changes
from strata.schema.history.renames import Renames, column_renames, follow

if TYPE_CHECKING:
    from strata.schema.history.historian import StreamPosition
    from strata.schema.history.sql_store import SchemaStore
    from strata.schema.history.versions import SchemaVersion
    from strata.schema.model.definition import TableDefinition, TableName


class TableDifference(Struct, frozen=True):
    """What differs in one table between two points; one side is None where the table is not there."""

    name: TableName
    before: TableDefinition | None
    after: TableDefinition | None
    renames: Renames = field(default_factory=dict)
    """Columns of `before` that have another name in `after`."""

    @property
    def change(self) -> str:
        """What happened to the table as a whole."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def texts(self) -> tuple[str, ...]:
        """The differences, a line each; `+`, `-` or `~` in front."""
        if self.before is not None and self.after is not None:
            return tuple(str(difference) for difference in diff(self.before, self.after, self.renames))
        whole, sign = (self.after, "+") if self.before is None else (self.before, "-")
        return tuple(f"{sign} column {c.name} {c.column_type}" for c in whole.columns) if whole is not None else ()

    def line(self) -> DifferenceLine:
        """As `schema diff` has it."""
        return DifferenceLine(self.name.database, self.name.table, self.change, self.texts())


def differences(
    store: SchemaStore, source: str, before: StreamPosition, after: StreamPosition, table: TableName | None
) -> list[TableDifference]:
    """The tables that differ, in order of name; columns that were renamed in between are told as that.

    Raises:
        SchemaGapError: One of them is not known at one of the points.
    """
    history = History(store, source)
    old, new = versions_at(history, before, table), versions_at(history, after, table)
    return [
        _difference(store, source, name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if _fingerprint(old.get(name)) != _fingerprint(new.get(name))
    ]


def _difference(
    store: SchemaStore, source: str, name: TableName, before: SchemaVersion | None, after: SchemaVersion | None
) -> TableDifference:
    if before is None or after is None:
        return TableDifference(name, before.definition if before else None, after.definition if after else None)
    entries = lineage(store, source, name)
    places = [entry.version_id for entry in entries]
    if before.version_id not in places or after.version_id not in places:
        return TableDifference(name, before.definition, after.definition)
    between = entries[places.index(before.version_id) + 1 : places.index(after.version_id) + 1]
    found = column_renames(store, between, online_changes(store, source, between))
    renames: Renames = {}
    for entry in between:
        renames = follow(renames, found.get((entry.version_id, entry.name), {}))
    return TableDifference(name, before.definition, after.definition, renames)


def _fingerprint(version: SchemaVersion | None) -> str | None:
    return version.fingerprint if version is not None else None
