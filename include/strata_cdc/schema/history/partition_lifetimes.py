"""The partitions of a table at each position of its history, from the statements that made them. They decide the effect
on rows of statements that remove rows of partitions, at the time of tracking.
Not here: reading the statements (`schema/ddl/partitions.py`), effects on rows (`effects.py`).

The partitions of a table that a snapshot found are not known here: definitions have the PARTITION BY clause as it was
written last, and those of a snapshot have none. The partitions are known if the stream has the CREATE TABLE, or a new
PARTITION BY, until a statement on them that is not understood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.errors import DdlError
from strata_cdc.flavour import NEWEST, Flavour
from strata_cdc.schema.ddl.changes import CreateTable, CreateTableLike
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.partitions import (
    PartitionVerb,
    copied_partitions,
    read_partition_step,
    read_partitioning_clause,
)
from strata_cdc.schema.history.effects import effect_of_misfits
from strata_cdc.schema.history.versions import VersionOrigin
from strata_cdc.schema.model.partitions import NULL_STAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.partitions import PartitionStep
    from strata_cdc.schema.history.versions import PartitionChange, TableChange
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import Partitioning
    from strata_cdc.schema.model.row_effects import RowEffect

FOUND: Final = "the table is known from a snapshot, and its partitions are not in the log"
_OTHER: Final = "which rows such a partition has is not known here"
_UNCHECKED: Final = "rows came to it WITHOUT VALIDATION, and may lie in any partition"
_NONE: Final = "the table has no partitions that are known"
NOT_NOTED: Final = "its partitions were changed before they were noted"


class PartitionedTables:
    """The partitions of all tables of a source, at one position of its stream; a text says why they are not known."""

    def __init__(self, stored: Callable[[TableName], Partitioning | str] | None = None) -> None:
        """Begins at the end of the stored versions.

        Args:
            stored: Returns what is known of a table by then; called when a statement names it. None if nothing is
                stored.
        """
        self._stored = stored
        self._now: dict[TableName, Partitioning | str] = {}
        self._forgotten: set[str] = set()
        """Databases whose stored tables are not known any more; '' for all databases."""

    def get(self, name: TableName) -> Partitioning | str:
        """The partitions of a table."""
        if name not in self._now:
            is_forgotten = self._stored is None or not self._forgotten.isdisjoint({"", name.database})
            self._now[name] = FOUND if self._stored is None or is_forgotten else self._stored(name)
        return self._now[name]

    def change(self, change: PartitionChange) -> Partitioning | str:
        """Applies a statement that names partitions; returns the partitions before it."""
        if not change.name.table:
            # It was tracked by a version of Strata that did not store such statements.
            self._now = dict.fromkeys(self._now, NOT_NOTED)
            return NOT_NOTED
        before = self.get(change.name)
        self._now[change.name] = partitions_after(before, change)
        return before

    def apply(self, entries: Sequence[TableChange], changes: Sequence[Change], origin: VersionOrigin) -> None:
        """Applies the tables of the next version.

        Args:
            entries: All entries of the version.
            changes: The changes that its statement requested; empty if no statement made the version.
            origin: How it became known.
        """
        if origin is VersionOrigin.RELOAD:
            # It is about the past, at a position where nothing was known.
            return
        for entry in entries:
            if not entry.name.table:
                self._forget(entry.name.database)
        # Names may be swapped within one version.
        self._now |= {
            entry.name: partitions
            for entry in entries
            if entry.name.table and (partitions := self._after(entry, changes, origin)) is not None
        }

    def _forget(self, database: str) -> None:
        self._forgotten.add(database)
        for name in [name for name in self._now if database in {"", name.database}]:
            del self._now[name]

    def _after(self, entry: TableChange, changes: Sequence[Change], origin: VersionOrigin) -> Partitioning | str | None:
        """The partitions after an entry; None if they did not change."""
        if entry.definition is None or origin is not VersionOrigin.DDL:
            return FOUND
        made = partitions_made(entry.definition.options, changes)
        if made is not None:
            return made
        source = next((change.like for change in changes if isinstance(change, CreateTableLike)), entry.renamed_from)
        if source is None:
            return None
        # Without a clause there are no partitions that could be known.
        return self.get(source) if source in self._now or entry.definition.options else FOUND


def partitions_made(clause: str, changes: Sequence[Change]) -> Partitioning | str | None:
    """The partitions that a CREATE TABLE gives to its table; None if no statement is a CREATE TABLE.

    Args:
        clause: PARTITION BY of the definition; empty without one.
        changes: The changes that the statement requested.
    """
    made = next((change for change in changes if isinstance(change, CreateTable)), None)
    return None if made is None else _clause(clause, made.context)


def _clause(text: str, context: DdlContext) -> Partitioning | str:
    if not text:
        return _NONE
    try:
        return read_partitioning_clause(text, context) or _OTHER
    except DdlError as error:
        return error.facts().message


def partitions_after(known: Partitioning | str, change: PartitionChange) -> Partitioning | str:
    """The partitions after a statement that names some of them."""
    step = _step(change)
    if isinstance(step, str):
        return step
    if step.verb is PartitionVerb.BY:
        return step.partitioning or _OTHER
    if step.verb is PartitionVerb.UNCHECKED:
        return _UNCHECKED
    return known if isinstance(known, str) else _with_step(known, step)


def effect_of_copying(change: PartitionChange, before: Partitioning | str) -> RowEffect | None:
    """The effect on rows of a statement that copies those of partitions; None if no row goes.

    Args:
        change: A statement that names partitions.
        before: The partitions before it.
    """
    try:
        names, has_lists = copied_partitions(change.statement, _context(change))
    except DdlError:
        return None
    if not names or not (has_lists or before in {_UNCHECKED, NULL_STAYS}):
        return None
    if isinstance(before, str):
        return effect_of_misfits(names, before)
    step = _step(change)
    return effect_of_misfits(names, step if isinstance(step, str) else before.unlisted(names, step.partitions))


def _step(change: PartitionChange) -> PartitionStep | str:
    try:
        return read_partition_step(change.statement, _context(change))
    except DdlError as error:
        return error.facts().message


def _context(change: PartitionChange) -> DdlContext:
    flavour = Flavour.stored(change.server_version) if change.server_version else NEWEST
    return DdlContext(change.name.database, change.sql_mode, flavour, time_zone=change.time_zone)


def _with_step(known: Partitioning, step: PartitionStep) -> Partitioning | str:
    if not known.names(step.names):
        return f"it had no partition {', '.join(step.names)} that is known"
    if step.verb is PartitionVerb.ADD:
        return known.with_added(step.partitions)
    if step.verb is PartitionVerb.DROP:
        return known.without(step.names)
    if step.verb is not PartitionVerb.REORGANIZE:
        return known
    is_null_left = known.unlisted(step.names, step.partitions) == NULL_STAYS
    return NULL_STAYS if is_null_left else known.reorganized(step.names, step.partitions)
