"""Rows that others have changed since, or whose values the log does not have: what they are now, by all changes in
order; and which changes therefore cannot be taken back.

Only such rows are kept: of a row that nobody else has changed, each change itself says what is there.
Not here: which rows these are (`table_survey.py`), the server's own check (`script.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.past.undo.columns import same_value
from strata_cdc.past.undo.literals import InexactError, literal
from strata_cdc.past.undo.row_changes import hashable
from strata_cdc.past.undo.steps import Direction, StepKind, UndoStep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.past.undo.row_changes import ChangeOrigin, Image, LoggedChange, NowTable, RowKey

_UNKNOWN = object()


class Conflict(Struct, frozen=True):
    """Why a change is not taken back: the row has something else now."""

    origin: ChangeOrigin
    """Of the change."""
    row: str
    """The row's key, as SQL."""
    reason: str
    column: str | None = None
    expected: str | None = None
    """What the change left in the column, as SQL."""
    found: str | None = None
    """What is there now, as SQL."""
    by: ChangeOrigin | None = None
    """Who changed it; None if that is not known."""


class TrackedRow:
    """One row from its INSERT, or from where the choice begins, to its DELETE."""

    def __init__(self, key: RowKey, cells: Image) -> None:
        self.key = key
        self.cells: Image = dict(cells)
        self.values: dict[str, Any] = {}
        """What statements before it in the script make of it."""
        self.writers: dict[str, ChangeOrigin] = {}
        self.is_there = True
        self.gone_by: ChangeOrigin | None = None

    def value(self, name: str) -> Any:
        """What a column has now; `_UNKNOWN` if that is not known."""
        if name in self.values:
            return self.values[name]
        if name not in self.cells:
            return _UNKNOWN
        try:
            return self.cells[name].as_now()
        except InexactError:
            return _UNKNOWN


class TrackedRows:
    """Rows of one table, followed through their changes.

    Args:
        direction: What is done with the chosen changes.
    """

    def __init__(self, table: NowTable, direction: Direction) -> None:
        self._table, self._direction = table, direction
        self._at: dict[RowKey, TrackedRow] = {}
        self._rows: dict[tuple[int, int], TrackedRow] = {}
        self._completed: dict[tuple[int, int], Image] = {}

    def begin(self, images: Iterable[Image]) -> None:
        """Adds rows as they were before the first change."""
        for image in images:
            key = self._table.key_of(image)
            if key is not None:
                self._at[key] = TrackedRow(key, image)

    def follow(self, change: LoggedChange, *, is_chosen: bool) -> None:
        """Applies the next change."""
        old = None if change.op == "insert" else self._table.key_of(change.before)
        row = None if old is None else self._at.pop(old, None)
        if row is None:
            first = self._table.key_of(change.after) if change.op == "insert" else old
            if first is None:
                return
            row = TrackedRow(first, change.before)
        if is_chosen:
            self._rows[change.origin.order] = row
            if change.is_partial:
                known = {name: cell for name, cell in row.cells.items() if name not in change.before}
                self._completed[change.origin.order] = known
        if change.op == "delete":
            row.cells.update(change.before)
            row.is_there, row.gone_by = False, change.origin
            return
        row.key = self._table.key_of(change.after, change.before or None) or row.key
        row.cells.update(change.before)
        row.cells.update(change.after)
        row.writers.update(dict.fromkeys(change.after, change.origin) if change.op == "insert" else _writers(change))
        self._at[row.key] = row

    def empty(self, by: ChangeOrigin) -> None:
        """All rows go: TRUNCATE, DROP TABLE."""
        for row in self._at.values():
            row.is_there, row.gone_by = False, by
        self._at.clear()

    def refill(self, by: ChangeOrigin) -> None:
        """The script brings back the rows that went by a statement."""
        for row in {id(row_of): row_of for row_of in self._rows.values()}.values():
            if row.gone_by == by:
                row.is_there, row.gone_by = True, None
                self._at[row.key] = row

    def completed(self, change: LoggedChange) -> LoggedChange:
        """The change with the values before it that its partial image lacks, as far as they are known."""
        known = self._completed.get(change.origin.order)
        if not known:
            return change
        before = known | change.before
        return replace(change, before=before, lacks_before=change.lacks_before - before.keys())

    def judge(self, change: LoggedChange, step: UndoStep) -> UndoStep | Conflict:
        """The statement for the row as it is when the script comes to it; or why it would do harm. A statement that is
        returned counts as done."""
        if change.origin.order not in self._rows:
            return step
        row = self._row_now(change, step)
        conflict = self._conflict(row, change, step)
        if conflict is not None:
            return conflict
        if step.kind is StepKind.INSERT:
            row = self._made(change)
        elif row is None:
            # Making again what is not taken back yet, as far as is known.
            return step
        else:
            step = replace(step, key=self._key_now(row, step))
            self._at.pop(row.key, None)
        self._set(row, change, step)
        return step

    def _set(self, row: TrackedRow, change: LoggedChange, step: UndoStep) -> None:
        """Does to a row what the statement does."""
        for name, (left, value) in step.followed.items():
            if same_value(row.value(name), left):
                row.values[name] = value
        row.values.update(step.wanted)
        row.is_there = step.kind is not StepKind.DELETE
        row.gone_by = None if row.is_there else change.origin
        if row.is_there:
            row.key = tuple(hashable(row.value(name)) for name in self._table.key)
            self._at[row.key] = row

    def _row_now(self, change: LoggedChange, step: UndoStep) -> TrackedRow | None:
        """The row that a statement meets: the change's row, under the key that it has now, or one that was made again
        with its key."""
        row = self._rows[change.origin.order]
        if step.kind is StepKind.INSERT:
            return self._at.get(tuple(hashable(step.wanted[name]) for name in self._table.key if name in step.wanted))
        if self._direction is Direction.UNDO and row.is_there:
            return row
        key = row.key if self._direction is Direction.UNDO else tuple(map(hashable, step.key.values()))
        return self._at.get(key)

    def _made(self, change: LoggedChange) -> TrackedRow:
        row = self._rows[change.origin.order]
        return TrackedRow((), {}) if row.is_there else row

    def _key_now(self, row: TrackedRow, step: UndoStep) -> dict[str, Any]:
        """The key that the row has now, which others may have changed."""
        values = {name: row.value(name) for name in step.key}
        return {name: step.key[name] if value is _UNKNOWN else value for name, value in values.items()}

    def _conflict(self, row: TrackedRow | None, change: LoggedChange, step: UndoStep) -> Conflict | None:
        is_redo = self._direction is Direction.REDO
        if step.kind is StepKind.INSERT:
            if row is None or (is_redo and self._is_chosen(_maker(row))):
                return None
            reason = "there is another row with its key now"
            return Conflict(change.origin, self._named(row), reason, by=_maker(row))
        if row is None:
            if is_redo:
                return None
            gone = self._rows[change.origin.order]
            return Conflict(change.origin, self._named(gone), "the row is not there any more", by=gone.gone_by)
        for column, expected in step.expected.items():
            value = row.value(column)
            writer = row.writers.get(column)
            if value is _UNKNOWN or same_value(value, expected) or (is_redo and self._is_chosen(writer)):
                continue
            shown = (self._shown(column, expected), self._shown(column, value))
            return Conflict(change.origin, self._named(row), "it was changed again", column, *shown, writer)
        return None

    def _is_chosen(self, writer: ChangeOrigin | None) -> bool:
        return writer is not None and writer.order in self._rows

    def _named(self, row: TrackedRow) -> str:
        values = [row.value(name) for name in self._table.key]
        return ", ".join(
            f"{name} = {self._shown(name, value)}" for name, value in zip(self._table.key, values, strict=True)
        )

    def _shown(self, column: str, value: Any) -> str:
        try:
            return literal(self._table.column(column), None if value is _UNKNOWN else value)
        except InexactError as error:
            return f"({error})"


def _writers(change: LoggedChange) -> dict[str, ChangeOrigin]:
    before = change.before
    return {
        name: change.origin
        for name, cell in change.after.items()
        if name not in before or not same_value(before[name].value, cell.value)
    }


def _maker(row: TrackedRow) -> ChangeOrigin | None:
    return next(iter(row.writers.values()), None)
