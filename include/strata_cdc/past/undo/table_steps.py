"""The chosen changes of one table, and what each becomes, window by window of the stream.

The changes are read several times, and never kept: first to see which rows they are of, then to see which of these rows
others have changed, and at last, window by window, to write them.
Not here: one change (`steps.py`), rows with conflicts (`conflicts.py`), all tables together (`undo.py`)."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import PastUnknownError
from strata_cdc.mirrors.renames import without_invalid
from strata_cdc.past.moment import PastMoment
from strata_cdc.past.table_changes import TableChangeBatch
from strata_cdc.past.timeline import ChangeSpan, TableEvent, UnknownChanges
from strata_cdc.past.undo.conflicts import Conflict, TrackedRows
from strata_cdc.past.undo.linked import LinkedKeys, OfKeys
from strata_cdc.past.undo.literals import Verbatim
from strata_cdc.past.undo.logged_documents import LoggedDocuments
from strata_cdc.past.undo.restored_values import later_values, restoring_changes
from strata_cdc.past.undo.row_changes import ChangeOrigin, LoggedChange, NowTable, VersionReader
from strata_cdc.past.undo.schema_undo import RefusedDdl, schema_undo
from strata_cdc.past.undo.steps import Columns, Direction, SkippedError, StepKind, is_done, statement, step_of
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.partition_rows import in_partitions
from strata_cdc.tables.verbatim import INVALID_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.past.change_filters import ChangeFilter
    from strata_cdc.past.client_statements import ClientStatements
    from strata_cdc.past.table_at import PastTables
    from strata_cdc.past.table_changes import TableChanges
    from strata_cdc.past.timeline import TableTimeline
    from strata_cdc.past.undo.choice import Choice
    from strata_cdc.past.undo.row_changes import Image, RowKey
    from strata_cdc.past.undo.steps import UndoStep
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import HeldRows


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


class Skipped(Struct, frozen=True):
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


Made = tuple["UndoStep", str] | str
"""A step and its statement, or the reason why there is none."""
_NOBODY = ChangeOrigin(0, 0, None, 0)
Outcome = PrintedStatement | Skipped | Conflicting


class TableSteps:
    """The chosen changes of one table.

    Args:
        changes: Reads changes.
        past: Gives tables as they were.
        timeline: Everything that happened to the table.
        choice: Which changes.
        direction: What is done with them.
        columns: What an UPDATE sets.
        held_changes: How many changes are held with their statements, so that nothing is read or made twice.
    """

    def __init__(  # noqa: PLR0913  what a script knows
        self,
        source: str,
        changes: TableChanges,
        statements: ClientStatements,
        past: PastTables,
        timeline: TableTimeline,
        choice: Choice,
        direction: Direction,
        columns: Columns,
        *,
        held_changes: int,
    ) -> None:
        self._limit = held_changes
        self._held: dict[tuple[int, int], tuple[LoggedChange, Made]] | None = None
        self._source, self._changes, self._past, self.timeline = source, changes, past, timeline
        self._statements = statements
        self.documents = LoggedDocuments(statements)
        """Writes values, documents with their types."""
        self._choice, self._direction, self._columns = choice, direction, columns
        events = [part for part in timeline.parts if isinstance(part, TableEvent)]
        self.removals = [event for event in events if self._is_chosen(event)]
        """The chosen statements that removed all rows, oldest first."""
        self._others = [event for event in events if event.removes_all and event not in self.removals]
        self.made_again = _dropped_last(self.removals, timeline)
        """The chosen DROP TABLE after which there is no table now."""
        now = timeline.last if self.made_again is None else self.made_again.before
        self._decide_ddl = partial(schema_undo, timeline, now, choice, direction, self.removals)
        self.schema = self._decide_ddl()
        """What becomes of other statements of DDL."""
        self.now = self.schema.now
        self.orders: set[tuple[int, int]] = set()
        """`_seq` and `_row` of the chosen changes."""
        self.events = [*self.removals, *self.schema.events]
        """The chosen statements of DDL."""
        self.gtids = {event.gtid for event in self.events if event.gtid}
        """The transactions that were found."""
        self.lost_changes = 0
        """How many changes are chosen of a table that is gone now."""
        self._readers: dict[tuple[int, int], VersionReader] = {}
        self._mirrors: dict[int, Mirror] = {}
        self._rows: TrackedRows | None = None

    @cached_property
    def table(self) -> NowTable:
        """The table for which the statements are."""
        if self.now is None:
            raise self._unknown("the table does not exist now, or its definition is not known")
        return NowTable.from_span(self.now)

    @property
    def unknown(self) -> list[UnknownChanges]:
        """Where changes of the table are not known."""
        return [part for part in self.timeline.parts if isinstance(part, UnknownChanges)]

    def survey(self) -> None:
        """Finds the chosen changes, and the rows that others have changed since.

        Raises:
            StrataError: As `TableChanges.read_timeline`; `ConditionError` and `Usage` of the choice.
        """
        if self.now is None:
            self._count_lost()
            return
        needs_rows, linked = self._find()
        refused = tuple(self._losing())
        if refused:
            self.schema = self._decide_ddl((*self.schema.refused, *refused))
            self.now = self.schema.now
            self._readers.clear()
            del self.table
            self.orders.clear()
            needs_rows, linked = self._find()
        table = self.table
        if not self.orders or not table.key:
            return
        first = min(self.orders)[0]
        for change in self._of_keys(linked, first - 1):
            if change.origin.order not in self.orders:
                linked.add_marked(table.keys_of(change))
        if linked.has_marked:
            self._rows = self._followed(linked.marked(), first, needs_rows=needs_rows)

    def _losing(self) -> Iterator[RefusedDdl]:
        """Statements whose inverse would lose what others have put into a column or a table, as far as rows are known
        and no change of the script may take it back; the server looks at it again."""
        for inverse in self.schema.inverses:
            if any(seq >= inverse.event.seq for seq, _ in self.orders):
                continue
            span = self.timeline.last
            if span is None or not (inverse.added or inverse.drops_table):
                continue
            try:
                mirror = self._past.rows(span.name, PastMoment(self.timeline.known_until))
            except PastUnknownError:
                continue
            reason = later_values(inverse, span, mirror)
            if reason is not None:
                yield RefusedDdl(inverse.event, reason)

    def _find(self) -> tuple[bool, LinkedKeys]:
        """Finds the chosen changes and their keys; returns whether some have partial images."""
        table, linked, needs_rows = self.table, LinkedKeys(), False
        self._held = {}
        for change in self._chosen():
            made = self._made(table, change)
            if self._held is not None:
                self._held[change.origin.order] = change, made
                self._held = self._held if len(self._held) <= self._limit else None
            self.orders.add(change.origin.order)
            self.gtids.update(filter(None, [change.origin.gtid]))
            needs_rows |= change.is_partial
            if change.is_partial or isinstance(made, str):
                linked.add_marked(table.keys_of(change))
            else:
                linked.add(table.keys_of(change))
        return needs_rows, linked

    def window(self, after: int, until: int) -> list[tuple[tuple[int, int], LoggedChange]]:
        """The chosen changes of a window of the stream, with their places.

        Args:
            after: The window begins after this transaction.
            until: It ends with this one.
        """
        if self._held is None:
            return [(change.origin.order, change) for change in self._chosen(after, until)]
        return [(order, change) for order, (change, _) in self._held.items() if after < order[0] <= until]

    def outcome(self, change: LoggedChange) -> Outcome:
        """What a change becomes; changes come in the order of their statements."""
        table = self.table
        held = self._held.get(change.origin.order) if self._held else None
        if self._rows is not None and change.is_partial:
            change, held = self._rows.completed(change), None
        made = self._made(table, change) if held is None else held[1]
        if isinstance(made, str):
            return Skipped(table.name, change.origin, made)
        step, text = made
        gone = next((event for event in self._others if event.seq > change.origin.seq), None)
        if gone is not None and step.kind is not StepKind.INSERT:
            reason = f"all rows went: {gone.statement or 'the table was dropped'}"
            return Conflicting(table.name, Conflict(change.origin, "", reason, by=origin_of(gone)))
        if self._rows is not None:
            judged = self._rows.judge(change, step)
            if isinstance(judged, Conflict):
                return Conflicting(table.name, judged)
            if judged.key != step.key:
                text = self._statement(judged, change.origin)
            step = judged
        row = step.wanted if step.kind is StepKind.INSERT else {}
        may_be_done = bool(change.unguarded)
        return PrintedStatement(
            table.name, step.kind, change.origin, text, step, may_be_done=may_be_done, lost=change.lost, row=row
        )

    def event_outcomes(self, event: TableEvent) -> Iterator[Outcome]:
        """What becomes of a chosen statement of DDL, besides other DDL.

        Raises:
            PastUnknownError: The rows before it are not known.
        """
        if event in self.removals:
            yield from self._removed_rows(event)
        for refused in self.schema.refused:
            if refused.event == event:
                yield Skipped(self.table.name, origin_of(event), refused.reason)

    def _removed_rows(self, event: TableEvent) -> Iterator[Outcome]:
        """An INSERT for each row that a statement removed.

        Raises:
            PastUnknownError: The rows before it are not known.
        """
        table, origin = self.table, origin_of(event)
        if event.before is None:
            raise self._unknown("the table before the statement is not known")
        span = replace(event.before, after=event.seq - 1, until=event.seq - 1)
        held = None if event.removes_all or event.effect is None else event.effect.held
        if not event.removes_all and held is None:
            yield Skipped(table.name, origin, "which rows were in these partitions is not known")
            return
        for image in self._state(event.before.name, span, held):
            change = LoggedChange(origin, "delete", image, {}, ())
            made = self._made(table, change)
            if isinstance(made, str):
                yield Skipped(table.name, origin, made)
            else:
                step, text = made
                yield PrintedStatement(
                    table.name, StepKind.INSERT, origin, text, step, row=step.wanted, is_of_state=True
                )
        if self._rows is not None:
            self._rows.refill(origin)

    def rows_of_mirror(self, mirror: Mirror) -> Iterator[tuple[dict[str, Any], str]]:
        """The rows of a mirror as it is, each with an INSERT; rows that cannot be inserted exactly are not among them.

        Args:
            mirror: A mirror of the table, at any position.
        """
        span, table = self._span_at(mirror.position.seq), self.table
        for image in self._images(mirror, span) if span is not None and span.definition == mirror.definition else ():
            made = self._made(table, LoggedChange(_NOBODY, "delete", image, {}, ()))
            if not isinstance(made, str):
                write = partial(self.documents.literal, _NOBODY)
                yield made[0].wanted, statement(made[0], self.table, write, only_in="")

    def done(self, printed: PrintedStatement) -> str:
        """A condition that the row is already as an UPDATE makes it; empty for a table without a key."""
        return is_done(printed.step, self.table) if printed.kind is StepKind.UPDATE and self.table.key else ""

    # Reading ----------------------------------------------------------------------------------------

    def _is_chosen(self, event: TableEvent) -> bool:
        return (
            self._direction is Direction.UNDO
            and (event.removes_all or _removes_partitions(event))
            and event.before is not None
            and not event.makes_table
            and not self._choice.is_of_rows
            and self._choice.has_statement(event.statement)
            and self._choice.has_transaction(event.gtid, event.committed_at)
        )

    def _count_lost(self) -> None:
        before = next((part.before for part in reversed(self.timeline.parts) if isinstance(part, TableEvent)), None)
        if before is None:
            return
        for part in self._changes.read_timeline(self.timeline, self._choice.filter(before, self._statements)):
            if isinstance(part, TableChangeBatch):
                self.lost_changes += part.changes.num_rows

    def _chosen(self, after: int = 0, until: int | None = None) -> Iterator[LoggedChange]:
        if self.now is not None:
            yield from self._read(self._choice.filter(self.now, self._statements), lambda _: True, after, until)

    def _of_keys(self, linked: LinkedKeys, after: int) -> Iterator[LoggedChange]:
        def is_of_keys(change: LoggedChange) -> bool:
            return linked.meets(self.table.keys_of(change))

        yield from self._read(OfKeys(self.reader, self.table.key, linked), is_of_keys, after, None)

    def _read(
        self, wanted: ChangeFilter, restores: Callable[[LoggedChange], bool], after: int, until: int | None
    ) -> Iterator[LoggedChange]:
        for part in self.timeline.parts:
            if isinstance(part, TableEvent) and after < part.seq and (until is None or part.seq <= until):
                yield from filter(restores, self._restored(part))
            if not isinstance(part, ChangeSpan) or part.until <= after or (until is not None and part.after >= until):
                continue
            end = part.until if until is None else min(part.until, until)
            inside = replace(part, after=max(part.after, after), until=end)
            reader = self.reader(part)
            for batch in self._changes.of_span(inside, wanted):
                yield from reader.changes(batch)

    def _restored(self, event: TableEvent) -> Iterator[LoggedChange]:
        """The values that a statement lost, as changes of rows."""
        inverse = self.schema.restoring(event)
        if inverse is None or event.before is None:
            return
        if event.seq not in self._mirrors:
            self._mirrors[event.seq] = self._past.rows(event.before.name, PastMoment(event.seq - 1))
        span = replace(event.before, after=event.seq - 1, until=event.seq - 1)
        images = self._images(self._mirrors[event.seq], span)
        yield from restoring_changes(inverse, images, self.table, origin_of(event))

    def reader(self, span: ChangeSpan) -> VersionReader:
        """The reader of a range's changes."""
        key = (span.version_id, span.until)
        if key not in self._readers:
            if self.now is None:
                raise self._unknown("the table does not exist now")
            self._readers[key] = VersionReader(span, self.now, self.schema.parts_for(span, self.timeline.parts))
        return self._readers[key]

    def _made(self, table: NowTable, change: LoggedChange) -> Made:
        """The step and its statement, or the reason why there is none."""
        try:
            step = step_of(change, table, self._direction, self._columns)
            return step, self._statement(step, change.origin)
        except SkippedError as error:
            return str(error)

    def _statement(self, step: UndoStep, origin: ChangeOrigin) -> str:
        return statement(step, self.table, partial(self.documents.literal, origin))

    # Rows -------------------------------------------------------------------------------------------

    def _followed(self, keys: set[RowKey], first: int, *, needs_rows: bool) -> TrackedRows:
        rows = TrackedRows(self.table, self._direction)
        if needs_rows:
            rows.begin(self._state_at(first - 1, keys))
        removals = (event for event in self.removals if event.removes_all)
        events = sorted((*self._others, *removals), key=lambda event: event.seq)
        for change in self._of_keys(LinkedKeys(keys), first - 1):
            while events and events[0].seq <= change.origin.seq:
                event = events.pop(0)
                if event.seq >= first:
                    rows.empty(origin_of(event))
            rows.follow(change, is_chosen=change.origin.order in self.orders)
        for event in events:
            rows.empty(origin_of(event))
        return rows

    def _state_at(self, seq: int, keys: set[RowKey]) -> Iterator[Image]:
        span = self._span_at(seq)
        if span is None:
            return
        try:
            for image in self._state(span.name, span):
                if self.table.key_of(image) in keys:
                    yield image
        except PastUnknownError:
            # The changes of these rows are skipped, each by name.
            return

    def _state(self, name: TableName, span: ChangeSpan, held: HeldRows | None = None) -> Iterator[Image]:
        """The rows of the table after the transaction with which a range ends, or those of some partitions."""
        yield from self._images(self._past.rows(name, PastMoment(span.until)), span, held)

    def _images(self, mirror: Mirror, span: ChangeSpan, held: HeldRows | None = None) -> Iterator[Image]:
        """The rows of a mirror with the definition of a range."""
        reader = self.reader(span)
        names = [column_name(column.name) for column, _ in reader.paths]
        lake_names = {field.name for field in without_invalid(mirror.schema)}
        for rows in mirror.batches([*(name for name in names if name in lake_names), INVALID_COLUMN]):
            batch = rows if held is None else rows.filter(pa.array(in_partitions(rows, span.definition, held)))
            columns = [batch[name].to_pylist() for name in names]
            invalid = batch[INVALID_COLUMN].to_pylist()
            for at in range(batch.num_rows):
                texts = dict(invalid[at] or ())
                values = {
                    ordinal: Verbatim(texts[column.name]) if column.name in texts else columns[ordinal][at]
                    for ordinal, (column, _) in enumerate(reader.paths)
                }
                yield reader.live(values)

    def _span_at(self, seq: int) -> ChangeSpan | None:
        span = None
        for part in self.timeline.parts:
            if isinstance(part, ChangeSpan) and part.after <= seq <= part.until:
                return replace(part, after=seq, until=seq)
            if isinstance(part, TableEvent) and part.seq <= seq:
                span = part.after
        return None if span is None else replace(span, after=seq, until=seq)

    def _unknown(self, why: str) -> PastUnknownError:
        return PastUnknownError(
            f"what takes the changes back is not known: {why}",
            source=self._source,
            table=str(self.timeline.table),
            remedy="`strata schema history` shows what happened to the table.",
        )


def origin_of(event: TableEvent) -> ChangeOrigin:
    """Who did it."""
    position = (event.binlog_file, event.binlog_pos)
    return ChangeOrigin(event.seq, 0, event.gtid, event.committed_at, *position, event.statement or "DROP TABLE")


def _removes_partitions(event: TableEvent) -> bool:
    effect = event.effect
    return effect is not None and bool(effect.partitions) and effect.exchanged_with is None


def _dropped_last(removals: list[TableEvent], timeline: TableTimeline) -> TableEvent | None:
    if timeline.last is not None or not removals:
        return None
    last = removals[-1]
    later = [part for part in timeline.parts if isinstance(part, TableEvent) and part.seq > last.seq]
    return last if last.after is None and not later else None
