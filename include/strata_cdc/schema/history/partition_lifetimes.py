"""Which partitions a table has at each point of its history, from the statements that made them: what those that remove
rows of partitions do to rows follows from it, when they are tracked.
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
from strata_cdc.schema.history.versions import VersionOrigin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.partitions import PartitionStep
    from strata_cdc.schema.history.versions import PartitionChange, TableEntry
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import Partitioning

FOUND: Final = "a snapshot found the table, and its partitions are not in the log"
_OTHER: Final = "which rows such a partition has is not known here"
_NONE: Final = "the table has no partitions that are known"
NOT_NOTED: Final = "its partitions were changed before they were noted"


class PartitionedTables:
    """The partitions of all tables of a source, at one place in its stream; a text says why they are not known."""

    def __init__(self, stored: Callable[[TableName], Partitioning | str] | None = None) -> None:
        """Begins where something else has stopped.

        Args:
            stored: What is known of a table by then, asked when a statement names it; None where nothing is.
        """
        self._stored = stored
        self._now: dict[TableName, Partitioning | str] = {}
        self._forgotten: set[str] = set()
        """Databases of whose tables nothing stored is known any more; '' for all."""

    def get(self, name: TableName) -> Partitioning | str:
        """The partitions of a table."""
        if name not in self._now:
            is_forgotten = self._stored is None or not self._forgotten.isdisjoint({"", name.database})
            self._now[name] = FOUND if self._stored is None or is_forgotten else self._stored(name)
        return self._now[name]

    def change(self, one: PartitionChange) -> Partitioning | str:
        """Takes a statement that names partitions; returns what they were before it."""
        if not one.name.table:
            # What was tracked by a version that noted no such statements.
            self._now = dict.fromkeys(self._now, NOT_NOTED)
            return NOT_NOTED
        before = self.get(one.name)
        self._now[one.name] = partitions_after(before, one)
        return before

    def apply(self, entries: Sequence[TableEntry], asked: Sequence[Change], origin: VersionOrigin) -> None:
        """Takes the tables of the next version.

        Args:
            entries: All of it.
            asked: What its statement asked for; nothing where none made it.
            origin: How it became known.
        """
        if origin is VersionOrigin.RELOAD:
            # It speaks of the past, at a place where nothing was known.
            return
        for entry in entries:
            if not entry.name.table:
                self._forget(entry.name.database)
        # Names may be swapped within one version.
        self._now |= {
            entry.name: partitions
            for entry in entries
            if entry.name.table and (partitions := self._after(entry, asked, origin)) is not None
        }

    def _forget(self, database: str) -> None:
        self._forgotten.add(database)
        for name in [name for name in self._now if database in {"", name.database}]:
            del self._now[name]

    def _after(self, entry: TableEntry, asked: Sequence[Change], origin: VersionOrigin) -> Partitioning | str | None:
        """None where they are what they were."""
        if entry.definition is None or origin is not VersionOrigin.DDL:
            return FOUND
        made = partitions_made(entry.definition.options, asked)
        if made is not None:
            return made
        source = next((change.like for change in asked if isinstance(change, CreateTableLike)), entry.renamed_from)
        if source is None:
            return None
        # Without a clause there is nothing that could be known.
        return self.get(source) if source in self._now or entry.definition.options else FOUND


def partitions_made(clause: str, asked: Sequence[Change]) -> Partitioning | str | None:
    """What a CREATE TABLE says of the partitions of its table; None if a statement is none.

    Args:
        clause: PARTITION BY of the definition; empty without one.
        asked: What the statement asked for.
    """
    made = next((change for change in asked if isinstance(change, CreateTable)), None)
    return None if made is None else _clause(clause, made.context)


def _clause(text: str, context: DdlContext) -> Partitioning | str:
    if not text:
        return _NONE
    try:
        return read_partitioning_clause(text, context) or _OTHER
    except DdlError as error:
        return error.facts().message


def partitions_after(known: Partitioning | str, one: PartitionChange) -> Partitioning | str:
    """What the partitions are after a statement that names some."""
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
