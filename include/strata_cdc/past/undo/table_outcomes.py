"""What each chosen change of one table becomes, window by window of the stream.
Not here: one change (`steps.py`), which changes (`table_survey.py`), all tables together (`undo.py`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.past.undo.conflicts import Conflict
from strata_cdc.past.undo.row_changes import ChangeOrigin, LoggedChange, origin_of
from strata_cdc.past.undo.steps import StepKind, is_done, statement
from strata_cdc.past.undo.table_survey import ChosenRemovals, StatementWriter
from strata_cdc.past.undo.undo_reader import UndoReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.past.timeline import TableEvent, TableTimeline
    from strata_cdc.past.undo.row_changes import NowTable
    from strata_cdc.past.undo.steps import UndoStep
    from strata_cdc.past.undo.table_survey import TableSurvey
    from strata_cdc.past.undo.undo_reader import UndoInputs
    from strata_cdc.schema.model.definition import TableName


class PrintedStatement(Struct, frozen=True, gc=False):
    """A statement for a change."""

    table: TableName
    kind: StepKind
    origin: ChangeOrigin
    sql: str
    step: UndoStep
    done: str = ""
    """A condition that the row is already as it is to be; empty for statements that always change a row."""
    may_be_done: bool = False
    """Whether the row may be as it is to be without another statement."""
    lost: tuple[str, ...] = ()
    """Columns that the change touched and that the table does not have now."""
    row: dict[str, Any] = {}
    """What an INSERT inserts."""
    is_of_state: bool = False
    """Whether it brings back a row of the table's state before, not of a row event."""


class SkippedChange(Struct, frozen=True):
    """A change for which there is no statement."""

    table: TableName
    origin: ChangeOrigin
    reason: str


class Conflicting(Struct, frozen=True):
    """A change of a row that has something else now."""

    table: TableName
    conflict: Conflict

    @property
    def origin(self) -> ChangeOrigin:
        """Of the change."""
        return self.conflict.origin


_NOBODY = ChangeOrigin(0, 0, None, 0)
Outcome = PrintedStatement | SkippedChange | Conflicting


class TableOutcomes(Struct, frozen=True):
    """Makes the outcomes of one table."""

    survey: TableSurvey

    def window(self, after: int, until: int) -> list[tuple[tuple[int, int], LoggedChange]]:
        """The chosen changes of a window of the stream, with their places.

        Args:
            after: The window begins after this transaction.
            until: It ends with this one.
        """
        if self.survey.changes.held is None:
            return [(change.origin.order, change) for change in self.survey.reader.chosen(after, until)]
        return [(order, change) for order, (change, _) in self.survey.changes.held.items() if after < order[0] <= until]

    def outcomes(self, change: LoggedChange | TableEvent) -> Iterable[Outcome]:
        """What becomes of a change, or of a chosen statement of DDL besides what other DDL takes back; in the order of
        their statements.

        Raises:
            PastUnknownError: The rows before a statement are not known.
        """
        return [self._outcome(change)] if isinstance(change, LoggedChange) else self._event_outcomes(change)

    def _outcome(self, change: LoggedChange) -> Outcome:
        survey, rows = self.survey, self.survey.rows
        table = survey.reader.table
        held = survey.changes.held.get(change.origin.order) if survey.changes.held else None
        if rows is not None and change.is_partial:
            change, held = rows.completed(change), None
        made = survey.writer.made(change, table) if held is None else held[1]
        if isinstance(made, str):
            return SkippedChange(table.name, change.origin, made)
        step, text = made
        gone = next((event for event in survey.removals.others if event.seq > change.origin.seq), None)
        if gone is not None and step.kind is not StepKind.INSERT:
            reason = f"all rows went: {gone.statement or 'the table was dropped'}"
            return Conflicting(table.name, Conflict(change.origin, "", reason, by=origin_of(gone)))
        if rows is not None:
            judged = rows.judge(change, step)
            if isinstance(judged, Conflict):
                return Conflicting(table.name, judged)
            if judged.key != step.key:
                text = survey.writer.statement(judged, table, change.origin)
            step = judged
        wanted = step.wanted if step.kind is StepKind.INSERT else {}
        may_be_done = bool(change.unguarded)
        return PrintedStatement(
            table.name, step.kind, change.origin, text, step, may_be_done=may_be_done, lost=change.lost, row=wanted
        )

    def _event_outcomes(self, event: TableEvent) -> Iterator[Outcome]:
        if event in self.survey.removals.chosen:
            yield from self._removed_rows(event)
        for refused in self.survey.schema.refused:
            if refused.event == event:
                yield SkippedChange(self.survey.reader.table.name, origin_of(event), refused.reason)

    def _removed_rows(self, event: TableEvent) -> Iterator[Outcome]:
        """An INSERT for each row that a statement removed."""
        reader, origin = self.survey.reader, origin_of(event)
        table = reader.table
        if event.before is None:
            raise reader.unknown("the table before the statement is not known")
        span = replace(event.before, after=event.seq - 1, until=event.seq - 1)
        held = None if event.removes_all or event.effect is None else event.effect.held
        if not event.removes_all and held is None:
            yield SkippedChange(table.name, origin, "which rows were in these partitions is not known")
            return
        for image in reader.rows(event.before.name, span, held):
            change = LoggedChange(origin, "delete", image, {}, ())
            made = self.survey.writer.made(change, table)
            if isinstance(made, str):
                yield SkippedChange(table.name, origin, made)
            else:
                step, text = made
                yield PrintedStatement(
                    table.name, StepKind.INSERT, origin, text, step, row=step.wanted, is_of_state=True
                )
        if self.survey.rows is not None:
            self.survey.rows.refill(origin)


def done_condition(printed: PrintedStatement, table: NowTable) -> str:
    """A condition that the row is already as an UPDATE makes it; empty for a table without a key."""
    return is_done(printed.step, table) if printed.kind is StepKind.UPDATE and table.key else ""


def rows_of_mirror(timeline: TableTimeline, inputs: UndoInputs, mirror: Mirror) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of a mirror as it is, each with an INSERT; rows that cannot be inserted exactly are not among them.

    Args:
        timeline: Of the table.
        mirror: A mirror of the table, at any position.
    """
    writer = StatementWriter.from_inputs(inputs)
    schema = ChosenRemovals.from_timeline(timeline, inputs).schema_undo(timeline, inputs)
    reader = UndoReader(inputs, timeline, schema)
    span, table = reader.span_at(mirror.position.seq), reader.table
    for image in reader.images(mirror, span) if span is not None and span.definition == mirror.definition else ():
        made = writer.made(LoggedChange(_NOBODY, "delete", image, {}, ()), table)
        if not isinstance(made, str):
            yield made[0].wanted, statement(made[0], table, partial(writer.documents.literal, _NOBODY), only_in="")
