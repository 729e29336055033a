"""The history of rows: each change of the rows that had a key, or that met a condition, and what happened to their
table between.
Not here: which rows had a key (`row_paths.py`), whose value each column has (`row_blame.py`), text (`row_texts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata_cdc.clock import to_micros
from strata_cdc.mirrors.layout import key_names
from strata_cdc.past.client_statements import ClientStatement
from strata_cdc.past.key_images import key_images
from strata_cdc.past.row_values import AlteredValue, KnownValue, RowValues
from strata_cdc.past.timeline import TableEvent, UnknownChanges
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.current_rows import ends_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.past.client_statements import ClientStatements
    from strata_cdc.past.row_paths import RowPaths
    from strata_cdc.past.table_changes import TableChangeBatch, TableChanges
    from strata_cdc.past.timeline import ChangeSpan, TableTimeline

Image = dict[str, Any]


class ChangedValue(Struct, frozen=True):
    """A value that a change gave."""

    id: int
    """The column's id."""
    before: KnownValue | None
    """None: there was none, or it is not known."""
    after: KnownValue | None
    """None: the row is gone."""
    difference: str | None = None
    """Of a document of which the log has only the change: the change."""


class HistoryChange(Struct, frozen=True):
    """A change of one row."""

    op: str
    seq: int
    row: int
    gtid: str | None
    committed_at: int
    """Microseconds UTC."""
    binlog_file: str
    binlog_pos: int
    span: ChangeSpan
    """The version under which it was written."""
    before: Image | None
    """The image before it, as it was logged: a partial image has only some columns. JSON values."""
    after: Image | None
    key: Image
    """The columns that identify the row, afterwards; of a delete, before it. Empty for a table without a key."""
    changed: dict[str, ChangedValue]
    """The values that it changed, by the names of then; of an insert, all."""
    number: int = 0
    """Which of the rows that had the key it is a change of, from 1 in the order in which they first appear."""
    is_first: bool = False
    """Whether it is the row's first change, and not its insert: the row is older than the changes."""
    statement: ClientStatement = ClientStatement()
    computed: frozenset[int] = frozenset()
    """The ids of generated columns that it may have changed, and of which the log has no value."""


class HistoryEvent(Struct, frozen=True):
    """A statement on the table."""

    event: TableEvent
    altered: tuple[AlteredValue, ...] = ()
    """What it did to the row's values, if a row is there."""


HistoryLine = HistoryChange | HistoryEvent | UnknownChanges


class HistoryRequest(Struct, frozen=True):
    """What is requested of the changes of a table."""

    changes: TableChanges
    timeline: TableTimeline
    statements: ClientStatements | None = None
    """None: without the clients' statements."""
    all_events: bool = False
    """Whether events of the table before the first change are wanted, too."""


def history_of_key(request: HistoryRequest, paths: RowPaths) -> Iterator[HistoryLine]:
    """The changes of the rows that had a key, in order, with the events of their table from their first change on.

    Args:
        request: The changes.

    Raises:
        StrataError: As for `TableChanges.read_timeline`.
    """
    rows = _Rows(request, paths)
    for part in request.changes.read_timeline(request.timeline, paths.filter):
        if isinstance(part, TableEvent):
            yield from rows.take_event(part)
        elif isinstance(part, UnknownChanges):
            yield part
        else:
            for some in part.chunks():
                yield from rows.take_changes(some)


def history_of_filter(request: HistoryRequest, wanted: Any) -> Iterator[HistoryLine]:
    """The changes that a filter wants, in order, with the events of the table from the first of them on.

    Args:
        request: The changes.
        wanted: The filter.

    Raises:
        StrataError: As for `TableChanges.read_timeline`.
    """
    has_begun = False
    for part in request.changes.read_timeline(request.timeline, wanted):
        if isinstance(part, TableEvent):
            if has_begun:
                yield HistoryEvent(part)
        elif isinstance(part, UnknownChanges):
            yield part
        else:
            has_begun = True
            names = tuple(key_names(part.span.definition))
            for some in part.chunks():
                for line in _lines(some):
                    yield line.made(request, RowValues(), some, _key(line, names))


class _Row(Struct):
    """What is known of a row so far."""

    number: int
    values: RowValues
    is_there: bool = True


class _Rows:
    """The rows of a key, as they are at one place of the stream."""

    def __init__(self, request: HistoryRequest, paths: RowPaths) -> None:
        self._request, self._paths = request, paths
        self._rows: dict[int, _Row] = {}
        self._held: list[HistoryEvent] = []
        """What happened while no row was there: it is shown if another row of the key follows."""
        self._doubts: list[UnknownChanges] = []
        """What is shown if a row follows that is older than its first change."""

    def take_event(self, event: TableEvent) -> Iterator[HistoryLine]:
        """A statement on the table."""
        is_shown = self._request.all_events or any(row.is_there for row in self._rows.values())
        if self._rows or self._request.all_events:
            self._held.append(HistoryEvent(event, self._altered(event)))
        if is_shown:
            yield from self._held
            self._held = []
        doubt = self._paths.doubts.get(event.seq)
        if doubt is not None:
            reason = f"the row may have another key from here on than before: {doubt}"
            self._doubts.append(UnknownChanges(event.name, event.seq, event.seq, reason))
            if any(row.is_there for row in self._rows.values()):
                yield self._doubts.pop()

    def take_changes(self, batch: TableChangeBatch) -> Iterator[HistoryLine]:
        """Changes, those of other rows among them."""
        names = tuple(column.name for column in self._paths.columns.columns_in(batch.span) or ())
        ends = ends_rows(batch.changes, batch.span.definition).to_pylist()
        for line, (before, after), is_end in zip(_lines(batch), _keys(batch, self._paths), ends, strict=True):
            key = after if line.op == "insert" else before
            row_id = self._paths.row_of(key, (line.seq, line.row))
            if row_id is None:
                continue
            is_first = row_id not in self._rows and line.op != "insert"
            row = self._rows.setdefault(row_id, _Row(len(self._rows) + 1, RowValues()))
            row.is_there = line.op != "delete" and not is_end
            if is_first:
                yield from self._doubts
                self._doubts = []
            yield from self._held
            self._held = []
            yield line.made(self._request, row.values, batch, _key(line, names), row.number, is_first=is_first)

    def _altered(self, event: TableEvent) -> tuple[AlteredValue, ...]:
        """Takes all rows through an event; gives what it did to the newest of them, if that is there."""
        newest = () if self._rows else tuple(RowValues().alter(event))
        for row in self._rows.values():
            if event.removes_all:
                row.is_there, row.values = False, RowValues()
            altered = tuple(row.values.alter(event))
            newest = altered if row.is_there else ()
        return newest


def _keys(batch: TableChangeBatch, paths: RowPaths) -> Iterator[tuple[Any, Any]]:
    """The key before and after each change, as texts."""
    images = key_images(batch.changes, paths.columns.columns_in(batch.span) or ())
    return zip(*(paths.columns.texts(batch.span, side) for side in zip(*images, strict=True)), strict=True)


class _Line(Struct, frozen=True):
    """A change as it was logged."""

    op: str
    seq: int
    row: int
    gtid: str | None
    committed_at: int
    binlog_file: str
    binlog_pos: int
    before: Image | None
    after: Image | None
    differences: dict[str, str]
    at: int

    def statement(self, request: HistoryRequest) -> ClientStatement:
        """The client's statement, if it is wanted."""
        if request.statements is None:
            return ClientStatement()
        return request.statements.statement_of(self.seq, self.gtid, self.binlog_file, self.binlog_pos)

    def made(
        self,
        request: HistoryRequest,
        values: RowValues,
        batch: TableChangeBatch,
        key: Image,
        number: int = 0,
        *,
        is_first: bool = False,
    ) -> HistoryChange:
        """The change, and what it changed; the values of its row become those after it."""
        span = batch.span
        if self.op == "insert":
            values.by_id = {}
        if self.before is not None:
            values.take_image(span, self.before, batch.changes, self.at, is_before=True)
        former, computed = dict(values.by_id), []
        if self.after is None:
            values.by_id = {}
        else:
            values.take_image(span, self.after, batch.changes, self.at, is_before=False)
            if self.op == "update":
                computed = values.forget_computed(span, self.after, former)
        changed = {} if self.after is None else self._changed(span, former, values)
        return HistoryChange(
            self.op, self.seq, self.row, self.gtid, self.committed_at, self.binlog_file, self.binlog_pos, span,
            self.before, self.after, key, changed, number, is_first,
            self.statement(request), frozenset(computed),
        )  # fmt: skip

    def _changed(self, span: ChangeSpan, former: dict[int, KnownValue], values: RowValues) -> dict[str, ChangedValue]:
        changed = {}
        for column, number in span.ids_by_name.items():
            before, after = former.get(number), values.by_id.get(number)
            if column in self.differences:
                values.by_id.pop(number, None)
                changed[column] = ChangedValue(number, before, None, self.differences[column])
            elif self.op == "insert" or (
                column in (self.after or {}) and (before is None or after is None or before.shown != after.shown)
            ):
                changed[column] = ChangedValue(number, before, after)
        return changed


def _lines(batch: TableChangeBatch) -> Iterator[_Line]:
    befores, afters, differences = batch.images()
    names = ("_op", "_seq", "_row", "_gtid", "_committed_at", "_binlog_file", "_binlog_pos")
    facts = zip(*(batch.changes[name].to_pylist() for name in names), strict=True)
    images = zip(facts, befores, afters, differences, strict=True)
    for at, ((op, seq, row, gtid, time, file, pos), before, after, difference) in enumerate(images):
        yield _Line(op, seq, row, gtid, to_micros(time), file, pos, before, after, difference, at)


def _key(line: _Line, names: tuple[str, ...]) -> Image:
    images = {**(line.before or {}), **(line.after or {})}
    by_name = {fold_name(name): (name, value) for name, value in images.items()}
    return dict(by_name[fold_name(name)] for name in names if fold_name(name) in by_name)
