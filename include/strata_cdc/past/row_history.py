"""The history of rows: each change of the rows that had a key, or that met a condition, and what happened to their
table between.
Not here: which rows had a key (`row_paths.py`), whose value each column has (`row_blame.py`), text (`row_texts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

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

    import pyarrow as pa

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
    rows = _RowsOfKey(request, paths)
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
                    yield line.made(request, RowValues(), names)


class _Row(Struct):
    """What is known of a row so far."""

    number: int
    values: RowValues
    is_there: bool = True


class _RowsOfKey:
    """The rows of a key, as they are at one place of the stream."""

    def __init__(self, request: HistoryRequest, paths: RowPaths) -> None:
        self._request, self._paths = request, paths
        self._rows: dict[int, _Row] = {}
        self._waiting: list[HistoryEvent] = []
        """What happened while no row was there: it is shown if another row of the key follows."""
        self._doubts: list[UnknownChanges] = []
        """What is shown if a row follows that is older than its first change."""

    def take_event(self, event: TableEvent) -> Iterator[HistoryLine]:
        """A statement on the table."""
        is_shown = self._request.all_events or any(row.is_there for row in self._rows.values())
        if self._rows or self._request.all_events:
            self._waiting.append(HistoryEvent(event, self._altered(event)))
        if is_shown:
            yield from self._waiting
            self._waiting = []
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
            op = line.change.op
            key = after if op == "insert" else before
            row_id = self._paths.row_of(key, (line.change.seq, line.change.row))
            if row_id is None:
                continue
            is_first = row_id not in self._rows and op != "insert"
            row = self._rows.setdefault(row_id, _Row(len(self._rows) + 1, RowValues()))
            row.is_there = op != "delete" and not is_end
            if is_first:
                yield from self._doubts
                self._doubts = []
            yield from self._waiting
            self._waiting = []
            yield line.made(self._request, row.values, names, row.number, is_first=is_first)

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


class _LoggedLine(Struct, frozen=True):
    """A change as it was logged."""

    change: HistoryChange
    """Without the key and what it changed."""
    differences: dict[str, str]
    """The changes of documents, by column."""
    images: pa.Table
    at: int
    """The row in `images`."""

    def made(
        self,
        request: HistoryRequest,
        values: RowValues,
        names: tuple[str, ...],
        number: int = 0,
        *,
        is_first: bool = False,
    ) -> HistoryChange:
        """The change, and what it changed; the values of its row become those after it."""
        change, computed = self.change, []
        if change.op == "insert":
            values.by_id = {}
        if change.before is not None:
            values.take_image(change.span, change.before, self.images, self.at, is_before=True)
        former = dict(values.by_id)
        if change.after is None:
            values.by_id = {}
        else:
            values.take_image(change.span, change.after, self.images, self.at, is_before=False)
            if change.op == "update":
                computed = values.forget_computed(change.span, change.after, former)
        return replace(
            change,
            key=_key(change, names),
            changed={} if change.after is None else self._changed(change.after, former, values),
            number=number,
            is_first=is_first,
            statement=_statement_of(change, request),
            computed=frozenset(computed),
        )

    def _changed(self, image: Image, former: dict[int, KnownValue], values: RowValues) -> dict[str, ChangedValue]:
        changed = {}
        for column, number in self.change.span.ids_by_name.items():
            before, after = former.get(number), values.by_id.get(number)
            if column in self.differences:
                values.by_id.pop(number, None)
                changed[column] = ChangedValue(number, before, None, self.differences[column])
            elif self.change.op == "insert" or (
                column in image and (before is None or after is None or before.shown != after.shown)
            ):
                changed[column] = ChangedValue(number, before, after)
        return changed


def _lines(batch: TableChangeBatch) -> Iterator[_LoggedLine]:
    befores, afters, differences = batch.images()
    names = ("_op", "_seq", "_row", "_gtid", "_committed_at", "_binlog_file", "_binlog_pos")
    facts = zip(*(batch.changes[name].to_pylist() for name in names), strict=True)
    images = zip(facts, befores, afters, differences, strict=True)
    for at, ((op, seq, row, gtid, time, file, pos), before, after, difference) in enumerate(images):
        change = HistoryChange(op, seq, row, gtid, to_micros(time), file, pos, batch.span, before, after, {}, {})
        yield _LoggedLine(change, difference, batch.changes, at)


def _statement_of(change: HistoryChange, request: HistoryRequest) -> ClientStatement:
    """The client's statement, if it is requested."""
    if request.statements is None:
        return ClientStatement()
    return request.statements.statement_of(change.seq, change.binlog_file, change.binlog_pos)


def _key(change: HistoryChange, names: tuple[str, ...]) -> Image:
    images = {**(change.before or {}), **(change.after or {})}
    by_name = {fold_name(name): (name, value) for name, value in images.items()}
    return dict(by_name[fold_name(name)] for name in names if fold_name(name) in by_name)
