"""What a change becomes: an INSERT, UPDATE or DELETE that takes it back, or makes it again, and its text.

Every UPDATE and DELETE has a guard: it changes the row only if the columns have what the change left in them.
Not here: literals (`literals.py`), conflicts that are known (`conflicts.py`), checks by the server (`script.py`)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from strata_cdc.changes.select.statement import quoted_table
from strata_cdc.past.undo.columns import Cell, is_settable, same_value
from strata_cdc.past.undo.literals import InexactError, condition, equality, literal
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.types import STRINGS, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.past.undo.row_changes import Image, LoggedChange, NowTable
    from strata_cdc.schema.model.definition import Column

T = TypeVar("T")
Literal = Callable[["Column", Any], str]
"""Writes a value of a column as SQL."""
Values = dict[str, Any]
"""Values by the names of now, in the types of now."""


class Direction(StrEnum):
    """What is done with the changes."""

    UNDO = "undo"
    REDO = "redo"


class ColumnChoice(StrEnum):
    """Which columns an UPDATE sets."""

    CHANGED = "changed"
    """Those that the change touched: what others have changed in the row stays."""
    ROW = "row"
    """All of the row."""


class StepKind(StrEnum):
    """The statement."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class SkippedError(Exception):
    """A change that cannot be taken back or made again; the message says why."""


class UndoStep(Struct, frozen=True, gc=False):
    """What one statement expects, and what it makes of it."""

    kind: StepKind
    key: Values
    """By which the row is found, before the statement; empty for INSERT, and for a table without a key."""
    expected: Values
    """The guard."""
    wanted: Values
    """What the columns get."""
    followed: dict[str, tuple[Any, Any]]
    """Columns that the server sets by itself at every UPDATE (ON UPDATE CURRENT_TIMESTAMP): what the change left, and
    what they get if they still have that. They are no part of the guard, since a change of any column changes them."""
    kept: tuple[str, ...] = ()
    """Columns of this kind that keep their value."""


def step_of(change: LoggedChange, table: NowTable, direction: Direction, columns: ColumnChoice) -> UndoStep:
    """What a change becomes.

    Args:
        change: With all of the values that are needed (`conflicts.py` completes partial images).
        direction: Whether it is taken back or made again.
        columns: Of an UPDATE.

    Raises:
        SkippedError: There is no exact statement.
    """
    expected, wanted = change.after, change.before
    if direction is Direction.REDO:
        expected, wanted = wanted, expected
    if table.definition.versioned or table.definition.sequence:
        kind = "a table WITH SYSTEM VERSIONING" if table.definition.versioned else "a SEQUENCE"
        raise SkippedError(f"it is {kind}, whose rows only the server writes")
    if not (change.before or change.after):
        raise SkippedError("the table of now has none of its columns: it was dropped and made again")
    if change.op == "update":
        return _update(change, table, expected, wanted, columns)
    if (change.op == "delete") == (direction is Direction.UNDO):
        return UndoStep(StepKind.INSERT, {}, {}, _row(change, table, wanted), {})
    guard = {name: _exact(name, cell.as_now) for name, cell in expected.items() if cell.path.is_stored}
    return UndoStep(StepKind.DELETE, _key(table, expected), guard, {}, {})


def _update(change: LoggedChange, table: NowTable, expected: Image, wanted: Image, columns: ColumnChoice) -> UndoStep:
    touched = touched_columns(change, table)
    if not touched:
        gone = ", ".join(change.lost)
        raise SkippedError(
            f"the columns that it changed are dropped: {gone}" if gone else "it changed no column of now"
        )
    absent = [name for name in touched if name not in change.before]
    if absent:
        names = ", ".join(absent)
        raise SkippedError(f"the log has a partial image without {names} before the change, and the row is not known")
    expected, wanted = expected | _others(expected, wanted), wanted | _others(wanted, expected)
    by_server = {name for name in touched if _follows(table.column(name))}
    if len(by_server) == len(touched):
        by_server = set()
    chosen = (
        touched if columns is ColumnChoice.CHANGED else [name for name, cell in expected.items() if cell.path.is_stored]
    )
    own = [name for name in chosen if name not in by_server]
    return UndoStep(
        StepKind.UPDATE,
        _key(table, expected),
        {
            name: _exact(name, expected[name].as_now)
            for name in (own if table.key else expected)
            if expected[name].path.is_stored and name not in change.unguarded
        },
        {name: _exact(name, wanted[name].wanted) for name in own},
        {
            name: (_exact(name, expected[name].as_now), _exact(name, wanted[name].wanted))
            for name in chosen
            if name in by_server
        },
        tuple(
            column.name
            for column in table.definition.columns
            if _follows(column) and column.name not in chosen and is_settable(column)
        ),
    )


def touched_columns(change: LoggedChange, table: NowTable) -> list[str]:
    """The columns that an UPDATE changed and that can be set, in the table's order; those whose value before is not
    known count as changed."""
    return [
        column.name
        for column in table.definition.columns
        if is_settable(column)
        and column.name in change.after
        and not _is_same(change.before.get(column.name), change.after[column.name])
    ]


def _is_same(before: Cell | None, after: Cell) -> bool:
    if before is None:
        return False
    if before.path == after.path:
        return same_value(before.value, after.value)
    try:
        return same_value(before.as_now(), after.as_now())
    except InexactError:
        return False


def _others(image: Image, other: Image) -> Image:
    """What a partial image lacks is as in the other image."""
    return {name: cell for name, cell in other.items() if name not in image}


def _follows(column: Column) -> bool:
    return column.on_update is not None or column.on_update_in_doubt


def _row(change: LoggedChange, table: NowTable, image: Image) -> Values:
    """All values of a row that is inserted. Columns that are newer than the change get their defaults."""
    lacks = change.lacks_before if change.op == "delete" else change.lacks_after
    values = {}
    for column in table.definition.columns:
        if not is_settable(column):
            continue
        if column.name in image:
            values[column.name] = _exact(column.name, image[column.name].wanted)
        elif column.name in lacks:
            raise SkippedError(f"the log has a partial image without {column.name}, and the row is not known")
        elif not (column.nullable or column.default is not None or column.auto_increment):
            raise SkippedError(f"column {column.name} is newer than the change, and NOT NULL without a default")
    return values


def _key(table: NowTable, image: Image) -> Values:
    missing = [name for name in table.key if name not in image]
    if missing:
        raise SkippedError(f"its value of {', '.join(missing)}, by which the row is found now, is not known")
    return {name: _exact(name, image[name].as_now) for name in table.key}


def _exact(name: str, value_of: Callable[[], T]) -> T:
    """A value of a column.

    Raises:
        SkippedError: It has no exact form.
    """
    try:
        return value_of()
    except InexactError as error:
        raise SkippedError(f"column {name}: {error}") from None


# Text -------------------------------------------------------------------------------------------


IN_SESSION: Final = "@strata_session"
"""Set at the beginning of a script. Clients that connect again by themselves and go on (`source` in `mysql`) would
execute the rest without the transaction: in another session it is NULL, and no statement finds a row."""


def statement(step: UndoStep, table: NowTable, write: Literal = literal, only_in: str = IN_SESSION) -> str:
    """The statement, in one line, without a semicolon.

    Args:
        step: What it does.
        write: Writes a value that is stored.
        only_in: A condition without which it does nothing; empty for an INSERT that anybody may run.

    Raises:
        SkippedError: A value has no exact form in SQL.
    """
    name = quoted_table(table.name)
    if step.kind is StepKind.INSERT:
        columns = ", ".join(map(quoted, step.wanted))
        values = ", ".join(_written(write, table, *pair) for pair in step.wanted.items())
        rows = f"SELECT {values} FROM DUAL WHERE {only_in}" if only_in else f"VALUES ({values})"  # noqa: S608 - likewise
        return f"INSERT INTO {name} ({columns}) {rows}"
    conditions = [_written(equality, table, *pair) for pair in step.key.items()]
    conditions += [
        _written(condition, table, column, value)
        for column, value in step.expected.items()
        if column not in step.key or _needs_bytes(table.column(column))
    ]
    where = " AND ".join([*conditions, only_in]) + ("" if table.key else " LIMIT 1")
    if step.kind is StepKind.DELETE:
        return f"DELETE FROM {name} WHERE {where}"  # noqa: S608 - quoted names and literals
    return f"UPDATE {name} SET {', '.join(_assignments(step, table, write))} WHERE {where}"  # noqa: S608 - likewise


def is_done(step: UndoStep, table: NowTable) -> str:
    """A condition in SQL: there is a row that is already as an UPDATE makes it, in a table with a key.

    Raises:
        SkippedError: A value has no exact form in SQL.
    """
    key = {name: step.wanted.get(name, value) for name, value in step.key.items()}
    conditions = [_written(equality, table, *pair) for pair in key.items()]
    conditions += [_written(condition, table, *pair) for pair in step.wanted.items()]
    return f"EXISTS (SELECT 1 FROM {quoted_table(table.name)} WHERE {' AND '.join(conditions)})"  # noqa: S608 - likewise


def _assignments(step: UndoStep, table: NowTable, write: Literal) -> Iterable[str]:
    for name, value in step.wanted.items():
        yield f"{quoted(name)} = {_written(write, table, name, value)}"
    for name, (left, value) in step.followed.items():
        holds = _written(condition, table, name, left)
        yield f"{quoted(name)} = CASE WHEN {holds} THEN {_written(literal, table, name, value)} ELSE {quoted(name)} END"
    for name in step.kept:
        yield f"{quoted(name)} = {quoted(name)}"


def _needs_bytes(column: Column) -> bool:
    """Whether values that are equal as keys may have different bytes."""
    return parse_column_type(column.column_type).kind in STRINGS


def _written(function: Callable[[Column, Any], str], table: NowTable, name: str, value: Any) -> str:
    return _exact(name, lambda: function(table.column(name), value))
