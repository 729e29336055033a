"""Which partitions a table has at each point of its history, from the statements that made them.
Not here: reading the statements (`schema/ddl/partitions.py`), what becomes of rows (`effects.py`).

A table that a snapshot found has partitions that nobody knows here: definitions have the PARTITION BY clause as it was
written last, and a snapshot's have none. One that is in the stream from its CREATE TABLE on, or was partitioned anew,
is known until something is done to it that is not understood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.errors import DdlError
from strata_cdc.flavour import NEWEST, Flavour
from strata_cdc.schema.ddl.changes import CreateTable, CreateTableLike
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.partitions import PartitionVerb, read_partition_step, read_partitioning_clause
from strata_cdc.schema.history.versions import PartitionChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.partitions import PartitionStep
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import Partitioning

FOUND: Final = "a snapshot found the table, and its partitions are not in the log"
_OTHER: Final = "which rows such a partition has is not known here"
_NONE: Final = "the table has no partitions that are known"


class PartitionLives:
    """The partitions of all tables, as statement after statement is taken."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._now: dict[TableName, Partitioning | str] = {}

    def run(
        self,
        entries: Iterable[StoredEntry],
        asked: Mapping[int, Sequence[Change]],
        changes: Iterable[PartitionChange],
    ) -> dict[tuple[int, TableName], Partitioning | str]:
        """The partitions in front of each of the changes, by its transaction and table; a text says why not.

        Args:
            entries: All of a source, in order; definitions have been loaded.
            asked: What the statements asked for, by version.
            changes: Statements that name partitions.
        """
        found: dict[tuple[int, TableName], Partitioning | str] = {}
        steps = sorted(
            [((one.seq, 0), one) for one in changes]
            + [((one.seq, 1 if one.statement_no else -1), one) for one in entries],
            key=lambda one: one[0],
        )
        before: dict[TableName, Partitioning | str] = {}
        version_id = 0
        for _, one in steps:
            if isinstance(one, PartitionChange):
                found |= self._change(one)
                continue
            if one.version_id != version_id:
                # Names may be swapped within one version.
                before, version_id = dict(self._now), one.version_id
            self._entry(one, asked.get(one.version_id, ()), before)
        return found

    def _change(self, one: PartitionChange) -> dict[tuple[int, TableName], Partitioning | str]:
        if not one.name.table:
            # What was tracked by a version that noted no such statements.
            self._now = dict.fromkeys(self._now, "its partitions were changed before they were noted")
            return {}
        known = self._now.get(one.name, FOUND)
        self._now[one.name] = _behind(known, one)
        return {(one.seq, one.name): known}

    def _entry(
        self, entry: StoredEntry, asked: Sequence[Change], before: Mapping[TableName, Partitioning | str]
    ) -> None:
        if not entry.name.table:
            for name in [one for one in self._now if entry.name.database in {"", one.database}]:
                del self._now[name]
            return
        came_from = entry.renamed_from
        known = before.get(came_from or entry.name, FOUND)
        self._now.pop(entry.name, None)
        if entry.fingerprint is None or entry.gap is not None or not entry.is_statement:
            return
        text = self._store.definition(entry.fingerprint).options
        self._now[entry.name] = _defined(known, text, asked, before)


def _defined(
    known: Partitioning | str, text: str, asked: Sequence[Change], before: Mapping[TableName, Partitioning | str]
) -> Partitioning | str:
    """What a statement that made the table says of its partitions; of any other they are what they were."""
    for change in asked:
        if isinstance(change, CreateTableLike):
            return before.get(change.like, FOUND)
        if isinstance(change, CreateTable):
            return _clause(text, change.context)
    return known


def _clause(text: str, context: DdlContext) -> Partitioning | str:
    if not text:
        return _NONE
    try:
        return read_partitioning_clause(text, context) or _OTHER
    except DdlError as error:
        return error.facts().message


def _behind(known: Partitioning | str, one: PartitionChange) -> Partitioning | str:
    flavour = Flavour.mysql(one.server_version) if one.server_version else NEWEST
    context = DdlContext(one.name.database, one.sql_mode, flavour, time_zone=one.time_zone)
    try:
        step = read_partition_step(one.statement, context)
    except DdlError as error:
        return error.facts().message
    if step.verb is PartitionVerb.BY:
        return step.partitioning or _OTHER
    return known if isinstance(known, str) else _with_step(known, step)


def _with_step(known: Partitioning, step: PartitionStep) -> Partitioning | str:
    if step.verb is PartitionVerb.UNCHECKED:
        return "rows came to it WITHOUT VALIDATION, and may lie in any partition"
    if not known.names(step.names):
        return f"it had no partition {', '.join(step.names)} that is known"
    if step.verb is PartitionVerb.ADD:
        return known.with_added(step.partitions)
    if step.verb is PartitionVerb.DROP:
        return known.without(step.names)
    return known.reorganized(step.names, step.partitions) if step.verb is PartitionVerb.REORGANIZE else known
