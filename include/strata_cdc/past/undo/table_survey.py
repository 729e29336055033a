"""Finds the chosen changes of one table, the DDL that is taken back, and the rows that others have changed since.

The changes are read first to see which rows they are of, then to see which of these rows others have changed.
Not here: reading them (`undo_reader.py`), rows with conflicts (`conflicts.py`), outcomes (`table_outcomes.py`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import PastUnknownError
from strata_cdc.past.moment import PastMoment
from strata_cdc.past.table_changes import TableChangeBatch
from strata_cdc.past.timeline import TableEvent, UnknownChanges
from strata_cdc.past.undo.conflicts import TrackedRows
from strata_cdc.past.undo.linked import LinkedKeys
from strata_cdc.past.undo.logged_documents import LoggedDocuments
from strata_cdc.past.undo.restored_values import later_values
from strata_cdc.past.undo.row_changes import origin_of
from strata_cdc.past.undo.schema_undo import RefusedDdl, schema_undo
from strata_cdc.past.undo.steps import Direction, SkippedError, statement, step_of
from strata_cdc.past.undo.undo_reader import UndoReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from strata_cdc.past.timeline import ChangeSpan, TableTimeline
    from strata_cdc.past.undo.choice import Choice
    from strata_cdc.past.undo.row_changes import ChangeOrigin, LoggedChange, NowTable, RowKey
    from strata_cdc.past.undo.schema_undo import SchemaUndo
    from strata_cdc.past.undo.steps import ColumnChoice, UndoStep
    from strata_cdc.past.undo.undo_reader import UndoInputs

    Made = tuple[UndoStep, str] | str
    """A step and its statement, or the reason why there is none."""
    HeldChanges = dict[tuple[int, int], tuple[LoggedChange, Made]]


class StatementWriter(Struct, frozen=True):
    """Writes the statements of changes."""

    direction: Direction
    columns: ColumnChoice
    documents: LoggedDocuments

    @classmethod
    def from_inputs(cls, inputs: UndoInputs) -> StatementWriter:
        """For one table."""
        return cls(inputs.direction, inputs.columns, LoggedDocuments(inputs.statements))

    def made(self, change: LoggedChange, table: NowTable) -> Made:
        """The step and its statement, or the reason why there is none."""
        try:
            step = step_of(change, table, self.direction, self.columns)
            return step, self.statement(step, table, change.origin)
        except SkippedError as error:
            return str(error)

    def statement(self, step: UndoStep, table: NowTable, origin: ChangeOrigin) -> str:
        """The statement of a step."""
        return statement(step, table, partial(self.documents.literal, origin))


class ChosenRemovals(Struct, frozen=True):
    """The statements that removed all rows of a table, or partitions."""

    chosen: list[TableEvent]
    """Oldest first."""
    others: list[TableEvent]
    """Those that removed all rows, and are not chosen."""
    made_again: TableEvent | None
    """The chosen DROP TABLE after which there is no table now."""

    @classmethod
    def from_timeline(cls, timeline: TableTimeline, inputs: UndoInputs) -> ChosenRemovals:
        """Finds them."""
        events = [part for part in timeline.parts if isinstance(part, TableEvent)]
        chosen = [event for event in events if inputs.direction is Direction.UNDO and _is_chosen(event, inputs.choice)]
        others = [event for event in events if event.removes_all and event not in chosen]
        return cls(chosen, others, _dropped_last(chosen, timeline))

    def schema_undo(
        self, timeline: TableTimeline, inputs: UndoInputs, refused: tuple[RefusedDdl, ...] = ()
    ) -> SchemaUndo:
        """What becomes of other statements of DDL."""
        now = timeline.last if self.made_again is None else self.made_again.before
        return schema_undo(timeline, now, inputs.choice, inputs.direction, self.chosen, refused)


class ChosenChanges(Struct, frozen=True):
    """The chosen changes of rows."""

    orders: AbstractSet[tuple[int, int]] = frozenset()
    """Their `_seq` and `_row`."""
    gtids: AbstractSet[str] = frozenset()
    held: HeldChanges | None = None
    """With their statements; None if there are too many."""
    needs_rows: bool = False
    """Whether some have partial images."""


class TableSurvey(Struct, frozen=True):
    """What a script has to do with one table."""

    reader: UndoReader
    writer: StatementWriter
    removals: ChosenRemovals
    events: list[TableEvent]
    """The chosen statements of DDL."""
    gtids: AbstractSet[str]
    """The transactions that were found."""
    changes: ChosenChanges = ChosenChanges()
    rows: TrackedRows | None = None
    """The rows that others have changed since, or whose values the log does not have; None if there are none."""
    lost_changes: int = 0
    """How many changes are chosen of a table that is gone now."""

    @property
    def timeline(self) -> TableTimeline:
        """Everything that happened to the table."""
        return self.reader.timeline

    @property
    def schema(self) -> SchemaUndo:
        """What becomes of statements of DDL, besides those that removed rows."""
        return self.reader.schema

    @property
    def now(self) -> ChangeSpan | None:
        """The table while rows are changed; None if there is none."""
        return self.schema.now

    @property
    def unknown(self) -> list[UnknownChanges]:
        """Where changes of the table are not known."""
        return [part for part in self.timeline.parts if isinstance(part, UnknownChanges)]


def survey_table(timeline: TableTimeline, inputs: UndoInputs) -> TableSurvey:
    """Finds the chosen changes, and the rows that others have changed since.

    Raises:
        StrataError: As `TableChanges.read_timeline`; `ConditionError` and `Usage` of the choice.
    """
    removals, writer = ChosenRemovals.from_timeline(timeline, inputs), StatementWriter.from_inputs(inputs)
    schema = removals.schema_undo(timeline, inputs)
    reader, events = UndoReader(inputs, timeline, schema), [*removals.chosen, *schema.events]
    gtids = {event.gtid for event in events if event.gtid}
    if schema.now is None:
        lost = _count_lost(timeline, inputs)
        return TableSurvey(reader, writer, removals, events, gtids, lost_changes=lost)
    changes, linked = _find(reader, writer, inputs.held_changes)
    gtids |= changes.gtids
    refused = tuple(_losing(reader, inputs, changes.orders))
    if refused:
        # Without what takes these back, the table and its changes are others while rows are changed.
        reader = reader.with_schema(removals.schema_undo(timeline, inputs, (*schema.refused, *refused)))
        changes, linked = _find(reader, writer, inputs.held_changes)
        gtids |= changes.gtids
    rows = _track_rows(reader, removals, changes, linked, inputs.direction)
    return TableSurvey(reader, writer, removals, events, gtids, changes, rows)


def _find(reader: UndoReader, writer: StatementWriter, held_changes: int) -> tuple[ChosenChanges, LinkedKeys]:
    """Finds the chosen changes and their keys."""
    table, linked, needs_rows = reader.table, LinkedKeys(), False
    held: HeldChanges | None = {}
    orders: set[tuple[int, int]] = set()
    gtids: set[str] = set()
    for change in reader.chosen():
        made = writer.made(change, table)
        if held is not None:
            held[change.origin.order] = change, made
            held = held if len(held) <= held_changes else None
        orders.add(change.origin.order)
        gtids.update(filter(None, [change.origin.gtid]))
        needs_rows |= change.is_partial
        if change.is_partial or isinstance(made, str):
            linked.add_marked(table.keys_of(change))
        else:
            linked.add(table.keys_of(change))
    return ChosenChanges(orders, gtids, held, needs_rows), linked


def _losing(reader: UndoReader, inputs: UndoInputs, orders: AbstractSet[tuple[int, int]]) -> Iterator[RefusedDdl]:
    """Statements whose inverse would lose what others have put into a column or a table, as far as rows are known
    and no change of the script may take it back; the server looks at it again."""
    for inverse in reader.schema.inverses:
        if any(seq >= inverse.event.seq for seq, _ in orders):
            continue
        span = reader.timeline.last
        if span is None or not (inverse.added or inverse.drops_table):
            continue
        try:
            mirror = inputs.past.rows(span.name, PastMoment(reader.timeline.known_until))
        except PastUnknownError:
            continue
        reason = later_values(inverse, span, mirror)
        if reason is not None:
            yield RefusedDdl(inverse.event, reason)


def _track_rows(
    reader: UndoReader, removals: ChosenRemovals, changes: ChosenChanges, linked: LinkedKeys, direction: Direction
) -> TrackedRows | None:
    """The rows that others have changed since, or whose values the log does not have; None if there are none."""
    table, orders = reader.table, changes.orders
    if not orders or not table.key:
        return None
    first = min(orders)[0]
    for change in reader.of_keys(linked, first - 1):
        if change.origin.order not in orders:
            linked.add_marked(table.keys_of(change))
    if not linked.has_marked:
        return None
    return _follow(reader, removals, changes, linked.marked(), direction)


def _follow(
    reader: UndoReader, removals: ChosenRemovals, changes: ChosenChanges, keys: set[RowKey], direction: Direction
) -> TrackedRows:
    """Follows rows with some keys through all changes from the first chosen one on."""
    rows, first = TrackedRows(reader.table, direction), min(changes.orders)[0]
    if changes.needs_rows:
        rows.begin(reader.rows_of_keys(first - 1, keys))
    removed = (event for event in removals.chosen if event.removes_all)
    events = sorted((*removals.others, *removed), key=lambda event: event.seq)
    for change in reader.of_keys(LinkedKeys(keys), first - 1):
        while events and events[0].seq <= change.origin.seq:
            event = events.pop(0)
            if event.seq >= first:
                rows.empty(origin_of(event))
        rows.follow(change, is_chosen=change.origin.order in changes.orders)
    for event in events:
        rows.empty(origin_of(event))
    return rows


def _count_lost(timeline: TableTimeline, inputs: UndoInputs) -> int:
    """How many changes are chosen of a table that is gone."""
    before = next((part.before for part in reversed(timeline.parts) if isinstance(part, TableEvent)), None)
    if before is None:
        return 0
    wanted = inputs.choice.filter(before, inputs.statements, lambda _: timeline.parts)
    parts = inputs.changes.read_timeline(timeline, wanted)
    return sum(part.changes.num_rows for part in parts if isinstance(part, TableChangeBatch))


def _is_chosen(event: TableEvent, choice: Choice) -> bool:
    return (
        (event.removes_all or _removes_partitions(event))
        and event.before is not None
        and not event.makes_table
        and not choice.is_of_rows
        and choice.has_statement(event.statement)
        and choice.has_transaction(event.gtid, event.committed_at)
    )


def _removes_partitions(event: TableEvent) -> bool:
    effect = event.effect
    return effect is not None and bool(effect.partitions) and effect.exchanged_with is None


def _dropped_last(removals: list[TableEvent], timeline: TableTimeline) -> TableEvent | None:
    if timeline.last is not None or not removals:
        return None
    last = removals[-1]
    later = [part for part in timeline.parts if isinstance(part, TableEvent) and part.seq > last.seq]
    return last if last.after is None and not later else None
