"""The differences of tables between two positions of the stream, whatever happened between them.
Not here: comparing two definitions (`schema/apply/diff.py`), each change by itself (`changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, field

from strata_cdc.schema.answers.lines import DifferenceLine, EffectLine
from strata_cdc.schema.answers.tables import versions_at
from strata_cdc.schema.apply.diff import diff
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.identified_tables import IdentifiedTable, Renames, identified, renames_between
from strata_cdc.schema.history.lineage import lineage
from strata_cdc.schema.model.row_effects import ALL_ROWS_GO, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.stream_positions import StreamPosition
    from strata_cdc.schema.history.versions import SchemaVersion, StoredEntry
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.schema.model.row_effects import RowEffect


class TableDifference(Struct, frozen=True):
    """The differences of one table between two positions; one side is None if the table does not exist there."""

    name: TableName
    before: TableDefinition | None
    after: TableDefinition | None
    renames: Renames = field(default_factory=dict)
    """Columns of `before` that have another name in `after`."""
    effect: RowEffect | None = None
    """What the statements between the two did to rows; None if it was not computed."""

    @property
    def change(self) -> str:
        """What happened to the table as a whole."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def texts(self) -> tuple[str, ...]:
        """The differences, one line each; `+`, `-` or `~` comes first."""
        if self.before is not None and self.after is not None:
            return tuple(str(difference) for difference in diff(self.before, self.after, self.renames))
        whole, sign = (self.after, "+") if self.before is None else (self.before, "-")
        return tuple(f"{sign} column {c.name} {c.column_type}" for c in whole.columns) if whole is not None else ()

    def line(self) -> DifferenceLine:
        """The line of `schema diff`."""
        effect = EffectLine.from_effect(self.effect) if self.effect is not None else UNSET
        return DifferenceLine(self.name.database, self.name.table, self.change, self.texts(), effect)


def differences(
    store: SchemaStore, source: str, before: StreamPosition, after: StreamPosition, table: TableName | None
) -> list[TableDifference]:
    """The tables that differ, in order of name. Columns that were renamed between the positions are shown as renamed.

    Raises:
        SchemaGapError: The schema of one of them is not known at one of the positions.
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
        effect = ALL_ROWS_GO if after is None else None
        old, new = before.definition if before else None, after.definition if after else None
        return TableDifference(name, old, new, effect=effect)
    entries = lineage(store, source, name)
    version_ids = [entry.version_id for entry in entries]
    if before.version_id not in version_ids or after.version_id not in version_ids:
        return TableDifference(name, before.definition, after.definition)
    between = entries[version_ids.index(before.version_id) + 1 : version_ids.index(after.version_id) + 1]
    # Other renames are of names that the table had before it got this name.
    between = [entry for entry in between if entry.name == name]
    renames = renames_between(*(_of_version(store, entries, version) for version in (before, after)))
    return TableDifference(
        name, before.definition, after.definition, renames, together([entry.effect for entry in between])
    )


def _of_version(store: SchemaStore, entries: Sequence[StoredEntry], version: SchemaVersion) -> IdentifiedTable | None:
    """The table of a version; the version may also have an entry of another name."""
    wanted = (version.version_id, version.fingerprint)
    return next(
        (identified(store, entry) for entry in entries if (entry.version_id, entry.fingerprint) == wanted), None
    )


def _fingerprint(version: SchemaVersion | None) -> str | None:
    return version.fingerprint if version is not None else None
