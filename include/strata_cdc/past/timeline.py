"""What happened to one table between two transactions, in order: the ranges in which it had one definition, the
statements between them, and what is not known. Its changes are in the change tables of all the names that it had.
Not here: reading the changes (`table_changes.py`), the table's rows at a moment (`table_at.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import PastUnknownError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.follow.published import PublishedSource
from strata_cdc.mirrors.follow.schema_events import SchemaEvents
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.history.sql_store import SchemaStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

    from strata_cdc.mirrors.follow.schema_events import SchemaEvent
    from strata_cdc.schema.history.versions import RowRemoval, StoredEntry
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.schema.model.row_effects import RowEffect

_AFTER_EVENTS: Final = (AFTER_ALL, 0, 0)


class ChangeSpan(Struct, frozen=True):
    """A range of the stream in which the table has one name and one definition, and all of its changes are known."""

    name: TableName
    """The table's name then: that of its change table."""
    after: int
    """The range begins after the transaction with this ordinal."""
    until: int
    """It ends with this transaction."""
    version_id: int
    definition: TableDefinition
    ids: tuple[int, ...]
    """The ids of the definition's columns, in its order."""
    same_rows: frozenset[int] = frozenset()
    """Earlier versions that changes in the range may have, too (`SchemaEvents.same_rows`)."""

    @property
    def columns_by_id(self) -> dict[int, Column]:
        """The columns by their ids; those whose ids are not known have none of their own."""
        return dict(zip(self.ids, self.definition.columns, strict=True))

    @property
    def ids_by_name(self) -> dict[str, int]:
        """The id of each column, by its name as the definition spells it."""
        return {column.name: number for column, number in zip(self.definition.columns, self.ids, strict=True)}


class TableEvent(Struct, frozen=True):
    """A statement on the table, or another reason why it has another definition from here on."""

    seq: int
    """Ordinal of its transaction."""
    name: TableName
    """The table's name afterwards; of a table that is dropped, its last name."""
    statement: str | None
    """As it was written, without passwords; None if no statement did it (a snapshot, the metadata of rows)."""
    gtid: str | None
    committed_at: int
    """Microseconds UTC; 0: not known."""
    binlog_file: str | None
    binlog_pos: int | None
    effect: RowEffect | None
    """What it did to the rows; None if the table is gone."""
    before: ChangeSpan | None
    """The definition before, in an empty range; None if the table did not exist, or was not known."""
    after: ChangeSpan | None
    """Likewise afterwards."""
    came_from: TableName | None = None
    """The table's name before, if it had another one."""
    is_statement: bool = True
    """Whether a statement in the log did it."""

    @property
    def makes_table(self) -> bool:
        """Whether there were no rows of the table before."""
        return self.effect is not None and self.effect.makes_table

    @property
    def is_swap(self) -> bool:
        """Whether a changed copy of the table takes its place (gh-ost, pt-online-schema-change): what the change did to
        values happened in the copy."""
        return self.effect is not None and self.effect.came_from is not None and self.came_from is None

    @property
    def removes_all(self) -> bool:
        """Whether no row of before is there afterwards: TRUNCATE, DROP TABLE, CREATE."""
        return self.effect is None or self.effect.makes_table or self.effect.is_whole


class UnknownChanges(Struct, frozen=True):
    """A range in which not all changes of the table are known; there may be none."""

    name: TableName
    after: int
    """The range begins after the transaction with this ordinal."""
    until: int
    """It ends with this transaction; equal to `after` if it is a single place between two transactions."""
    reason: str


TablePart = ChangeSpan | TableEvent | UnknownChanges


class TableTimeline(Struct, frozen=True):
    """What happened to one table after one transaction and up to another one."""

    table: TableName
    """Its name at the end; of a table that is gone by then, its last name."""
    after: int
    until: int
    parts: tuple[TablePart, ...]
    """In order; together they have every transaction of the range in which the table existed."""
    unlogged: str | None
    """Why the log may lack some changes of its rows; None if it has all."""

    @property
    def last(self) -> ChangeSpan | None:
        """The definition at the end, if the table exists there and is known: its last range or statement has it."""
        for part in reversed(self.parts):
            if isinstance(part, ChangeSpan):
                return part
            if isinstance(part, TableEvent):
                return part.after
        return None

    @property
    def last_known(self) -> ChangeSpan | None:
        """The newest definition that the table had; None if none is known."""
        for part in reversed(self.parts):
            if isinstance(part, ChangeSpan):
                return part
            span = part.after or part.before if isinstance(part, TableEvent) else None
            if span is not None:
                return span
        return None

    @property
    def known_until(self) -> int:
        """Ordinal of the last transaction before the changes at the end that are not known."""
        until = self.until
        for part in reversed(self.parts):
            if not isinstance(part, UnknownChanges):
                break
            until = part.after
        return until

    def span_at(self, seq: int) -> ChangeSpan | None:
        """The definition after a transaction; None if the table did not exist, or was not known."""
        now = None
        for part in self.parts:
            if isinstance(part, TableEvent):
                # The range after a statement begins before its transaction, which may add rows.
                if (part.seq if part.is_statement else part.seq - 1) > seq:
                    break
                now = part.after
            elif isinstance(part, ChangeSpan):
                now = part
        return now

    def refuse_unknown(self, source: str) -> None:
        """For callers that need every change of the range.

        Raises:
            PastUnknownError: Some are not known; the message has the first reason.
        """
        for part in self.parts:
            if isinstance(part, UnknownChanges):
                raise PastUnknownError(
                    f"changes after transaction {part.after} and up to {part.until} are not known: {part.reason}",
                    source=source,
                    table=str(part.name),
                    remedy=f"`strata intervals --source {source}` shows what is not published, and `strata status "
                    f"--source {source}` which definitions are not known.",
                )


class Timelines:
    """The timelines of a source's tables.

    Raises:
        StoreUnavailableError: The database does not answer.
        LakeUnavailableError: The storage does not answer.
        StreamHoleError: The landed stream lacks a segment.
    """

    def __init__(self, lake: str, source: str, engine: sa.Engine) -> None:
        self.source = source
        self.events = SchemaEvents(engine, source)
        self.published = PublishedSource(engine, source, LandedStream.open(lake, source))
        self._store = SchemaStore(engine)
        self._entries = {
            (entry.name, entry.version_id): entry for entry in self._store.all_entries(source) if entry.name.table
        }
        position = self._store.position(source)
        self.tracked = position.seq if position else 0
        """Ordinal of the last transaction whose DDL is known."""
        self.folds_names = position is not None and position.lower_case_table_names != 0
        """Whether the server ignores the case of table names."""
        self._removals: dict[tuple[TableName, int], RowRemoval] = {
            (removal.name, removal.seq): removal for removal in self._store.row_removals(source, 0, self.tracked)
        }

    def timeline_of(self, table: TableName, after: int = 0, until: int | None = None) -> TableTimeline:
        """The timeline of one table, under all names that it had.

        A table that was dropped and made again under its name is one table here, and the DROP is one of its events. A
        table that took the name from another one, which exists under a new name, is not that other one. A changed
        copy that gh-ost or pt-online-schema-change swaps in is the table of which it is a copy.

        Args:
            table: Its name at the end of the range; of a table that is gone by then, its last name.
            after: The range begins after the transaction with this ordinal.
            until: It ends with this transaction; by default with the last one whose DDL is known.

        Raises:
            Usage: There was no such table.
            StoreUnavailableError: The database does not answer.
        """
        until = self.tracked if until is None else until
        events = self._events_of(table, until)
        if not any(named.event.change is not None for named in events):
            raise self._no_table(table, until)
        parts = self._parts(events, after, until)
        return TableTimeline(table, after, until, parts, self.events.unlogged(table))

    def _no_table(self, table: TableName, until: int) -> Usage:
        changes = [event.change for event in self.events.of_table(table) if event.after <= until and event.change]
        later = self._name_after(table, changes[-1].version_id) if changes else None
        if later is not None:
            seq = changes[-1].order[0]
            return Usage(
                f"the table is called {later} since transaction {seq}",
                source=self.source,
                table=str(table),
                remedy="Name it so, or an earlier moment.",
            )
        return Usage(
            f"there was no such table up to transaction {until}",
            source=self.source,
            table=str(table),
            remedy=f"`strata schema history --source {self.source}` shows when each table had which name.",
        )

    # The names that the table had ------------------------------------------------------------------

    def _events_of(self, table: TableName, until: int) -> list[_NamedEvent]:
        """All events of the table, oldest first."""
        events: list[_NamedEvent] = []
        upper = _AFTER_EVENTS
        former: TableName | None = table
        while former is not None:
            name, former = former, None
            earlier = [event for event in self.events.of_table(name) if event.order < upper and event.after <= until]
            while earlier and former is None and not self._moved_away(name, earlier[-1]):
                event = earlier.pop()
                events.append(_NamedEvent(name, event))
                former = self._former_name(name, event, earlier)
                # Lower with each name: the search ends, however often names are exchanged.
                upper = (*event.order[:2], 0)
        return events[::-1]

    def _former_name(self, name: TableName, event: SchemaEvent, earlier: Sequence[SchemaEvent]) -> TableName | None:
        """The name that the table had before an event; None if it had the same."""
        change = event.change
        if change is None or change.renamed_from in {None, name}:
            return None
        own = next((named.change for named in reversed(earlier) if named.change is not None), None)
        if own is not None and own.definition is not None:
            before, after = self._ids(name, own.version_id), self._ids(name, change.version_id)
            if not set(before).isdisjoint(after):
                # A changed copy is swapped in: the table is the one whose columns go on.
                return None
        return change.renamed_from

    def _moved_away(self, name: TableName, event: SchemaEvent) -> bool:
        """Whether an event gave the table of this name another name."""
        change = event.change
        if change is None or change.definition is not None or change.gap is not None:
            return False
        return self._name_after(name, change.version_id) is not None

    def _name_after(self, name: TableName, version_id: int) -> TableName | None:
        """The name that a version gave to the table of this name; None if it gave it none."""
        return next(
            (
                entry.name
                for entry in self._entries.values()
                if entry.renamed_from == name and entry.name != name and entry.version_id == version_id
            ),
            None,
        )

    def _ids(self, name: TableName, version_id: int) -> tuple[int, ...]:
        entry = self._entries.get((name, version_id))
        columns = None if entry is None else entry.columns
        return () if columns is None else columns.ids

    # Their parts -------------------------------------------------------------------------------------

    def _parts(self, events: Sequence[_NamedEvent], after: int, until: int) -> tuple[TablePart, ...]:
        ddls = self._store.ddls(named.event.change.version_id for named in events if named.event.change is not None)
        parts: list[TablePart] = []
        now: ChangeSpan | None = None
        gap: str | None = None
        reached = after
        for named in events:
            event = named.event
            if event.before > reached:
                parts += self._ranges(named.name if now is None else now.name, now, gap, reached, event.before)
                reached = event.before
            then = now
            if event.change is not None:
                now, gap = self._span(named, event.before), event.change.gap
            if event.after > after:
                parts += self._event(named, ddls, then, now)
        if until > reached:
            parts += self._ranges(events[-1].name, now, gap, reached, until)
        return tuple(parts)

    def _span(self, named: _NamedEvent, at: int) -> ChangeSpan | None:
        change = named.event.change
        if change is None or change.definition is None:
            return None
        ids = self._ids(named.name, change.version_id) or (0,) * len(change.definition.columns)
        same = self.events.same_rows(named.name, change.version_id)
        return ChangeSpan(named.name, at, at, change.version_id, change.definition, ids, same)

    def _event(
        self, named: _NamedEvent, ddls: dict[int, str], before: ChangeSpan | None, after: ChangeSpan | None
    ) -> Iterator[TablePart]:
        event, change = named.event, named.event.change
        if event.lost is not None:
            yield UnknownChanges(named.name, event.before, event.after, event.lost)
            return
        if change is None:
            removal = self._removals.get((named.name, event.seq))
            clock = self.published.clock_at(event.seq)
            where = (None, None) if removal is None else (removal.gtid, removal.statement)
            position = None if removal is None else removal.binlog_pos
            yield TableEvent(
                event.seq, named.name, where[1], where[0], clock, None, position, event.removal, before, after
            )
            return
        entry = self._entries.get((named.name, change.version_id))
        statement = ddls.get(change.version_id) if event.is_statement else None
        effect = None if change.definition is None and change.gap is None else change.effect
        came_from = None if before is None or before.name == named.name else before.name
        yield TableEvent(
            event.seq, named.name, statement, change.gtid, change.committed_at, *_where(entry), effect, before, after,
            came_from, event.is_statement,
        )  # fmt: skip

    def _ranges(
        self, name: TableName, span: ChangeSpan | None, gap: str | None, after: int, until: int
    ) -> Iterator[TablePart]:
        """The range with a definition, cut where changes are not published."""
        if span is None:
            if gap is not None:
                yield UnknownChanges(name, after, until, gap)
            return
        while after < until:
            reach = self.published.reach(span.name, after)
            known = min(reach.seq, until)
            if known > after:
                yield replace(span, after=after, until=known)
            if known == until:
                return
            end = min(self.published.end_after(known), until)
            yield UnknownChanges(span.name, known, end, reach.withheld or "they are not published yet")
            after = end


class _NamedEvent(Struct, frozen=True):
    """An event of the table, and the name that the table has after it."""

    name: TableName
    event: SchemaEvent


def _where(entry: StoredEntry | None) -> tuple[str | None, int | None]:
    return (None, None) if entry is None else (entry.binlog_file, entry.binlog_pos)
