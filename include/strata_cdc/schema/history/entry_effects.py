"""The effect of each entry of a history on the rows of its table.
Not here: what one statement does (`effects.py`), turns (`table_changes.py`), showing it (`schema/answers/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.history.effects import NO_EFFECT, Effect, effect_of, read_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.history.lineage import Part
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class EntryEffects:
    """Effects along a history, whose entries are given in order, in one piece or several."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._before: dict[TableName, TableDefinition | None] = {}
        self._of_this_version: dict[TableName, TableDefinition | None] = {}
        self._version_id = 0

    def take(self, entries: Iterable[StoredEntry], asked: Mapping[int, Sequence[Change]]) -> dict[Part, Effect]:
        """The effects of the next entries, by version and name.

        Args:
            entries: In order; definitions have been loaded.
            asked: What the statements asked for, by version (`changes_asked`).
        """
        return {
            (entry.version_id, entry.name): self._effect(entry, asked.get(entry.version_id, ())) for entry in entries
        }

    def _effect(self, entry: StoredEntry, asked: Sequence[Change]) -> Effect:
        # Names swap places within one version.
        if entry.version_id != self._version_id:
            self._before |= self._of_this_version
            self._of_this_version, self._version_id = {}, entry.version_id
        if not entry.name.table:
            self._forget(entry.name.database)
            return NO_EFFECT if entry.gap is None else read_again(entry.gap)
        after = self._store.definition(entry.fingerprint) if entry.fingerprint else None
        self._of_this_version[entry.name] = after
        if entry.gap is not None:
            return read_again(entry.gap)
        came_from = entry.renamed_from
        return effect_of(
            self._before.get(came_from or entry.name),
            after,
            asked if entry.is_statement else (),
            name=entry.name,
            came_from=came_from,
        )

    def _forget(self, database: str) -> None:
        """What was known of all tables, or of those of a database, no longer holds."""
        for known in (self._before, self._of_this_version):
            for name in [name for name in known if database in {"", name.database}]:
                del known[name]
