"""The DDL that takes a statement of DDL back, for a table as it is now, or why there is none that loses nothing.

Columns are found by their ids. Before the rows are changed, a column that was dropped is added again, and one that was
altered gets its former type. Afterwards a column or a table that was added goes, if nobody has put anything into it.
Not here: the values of rows (`restored_values.py`), the text of a script (`script.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.past.undo.columns import goes_back, holds_all, is_settable
from strata_cdc.past.undo.row_changes import filled_value, row_key
from strata_cdc.past.undo.steps import SkippedError
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.create_sql import column_sql, key_sql, quoted
from strata_cdc.schema.model.definition import Column, KeyKind
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.past.timeline import ChangeSpan, TableEvent
    from strata_cdc.schema.model.definition import Key, TableDefinition, TableName

_REPLACEABLE: Final = frozenset({KeyKind.INDEX, KeyKind.FULLTEXT, KeyKind.SPATIAL})
"""Keys that no value can break."""


class AddedColumn(Struct, frozen=True):
    """A column that goes again, if all rows still have in it what the statement filled in."""

    number: int
    """Its id."""
    column: Column
    value: Any
    is_computed: bool = False
    """Whether the server computes it: then it has nothing to lose."""


class InverseDdl(Struct, frozen=True):
    """What takes one statement back."""

    event: TableEvent
    now: ChangeSpan
    """The table while rows are changed: after the clauses that come first."""
    first: tuple[str, ...] = ()
    """Clauses of an ALTER TABLE before rows are changed."""
    restored: tuple[int, ...] = ()
    """Ids of the columns whose values have to be set again."""
    added: tuple[AddedColumn, ...] = ()
    """Columns that are dropped after rows are changed."""
    rename_to: TableName | None = None
    """The name that the table gets at the end."""
    drops_table: bool = False
    """Whether the table is dropped at the end, if it has no rows then."""

    @property
    def unguarded(self) -> frozenset[str]:
        """The columns that are added again with a value that only the server knows."""
        columns = self.now.columns_by_id
        before = self.event.after.ids if self.event.after else ()
        chosen = (columns[number] for number in self.restored if number not in before)
        return frozenset(column.name for column in chosen if isinstance(fill_of(column), NoFill))


def inverse_ddl(event: TableEvent, now: ChangeSpan, name: TableName) -> InverseDdl:
    """What takes a statement back.

    Args:
        event: The statement.
        now: The table as it is now, after what takes later statements back.
        name: Its name, after what takes later statements back.

    Raises:
        SkippedError: Nothing does, without a loss.
    """
    if event.makes_table:
        return _of_create(event, now)
    before, after = event.before, event.after
    if before is None or after is None or event.is_swap or 0 in (*before.ids, *after.ids, *now.ids):
        raise SkippedError("which columns it changed is not known")
    _require_same_options(before.definition, after.definition)
    columns = _ColumnsAround(event, before, after, now)
    first, definition = columns.first()
    clauses, keys = _keys(
        before.definition, columns.named_back(after.definition.keys), columns.named_back(now.definition.keys)
    )
    rename_to = event.came_from
    if rename_to is not None and name != event.name:
        raise SkippedError("the table was renamed again since")
    result = InverseDdl(
        event,
        replace(now, definition=replace(definition, keys=keys), ids=columns.ids),
        (*first, *clauses),
        columns.restored,
        columns.added(),
        rename_to,
    )
    if not (result.first or result.added or rename_to):
        raise SkippedError("the schema history does not have what it changed")
    _require_key(result)
    return result


def _of_create(event: TableEvent, now: ChangeSpan) -> InverseDdl:
    if event.removes_all and event.effect is not None and event.effect.is_whole:
        raise SkippedError("it replaced another table")
    if event.after is None or not set(event.after.ids) & set(now.ids) - {0}:
        raise SkippedError("the table was dropped and made again since")
    return InverseDdl(event, now, drops_table=True)


def _require_same_options(before: TableDefinition, after: TableDefinition) -> None:
    bare = [replace(definition, columns=(), keys=()) for definition in (before, after)]
    if bare[0] != bare[1]:
        raise SkippedError("it changed more than columns and keys: charset, engine, partitions or other options")


def _require_key(inverse: InverseDdl) -> None:
    if not inverse.restored:
        return
    key = row_key(inverse.now.definition)
    if not key:
        raise SkippedError("the table has no key by which values could be set again")
    columns = inverse.now.columns_by_id
    if any(columns[number].name in key for number in inverse.restored):
        raise SkippedError("it changed values of the key by which rows are found")


class _ColumnsAround:
    """The columns of a table before and after a statement, and now."""

    def __init__(self, event: TableEvent, before: ChangeSpan, after: ChangeSpan, now: ChangeSpan) -> None:
        self._event, self._now = event, now
        self._before, self._after, self._current = (span.columns_by_id for span in (before, after, now))
        self._dropped = [number for number in self._before if number not in self._after]
        self._added = [number for number in self._after if number not in self._before]
        self._changed = [number for number, column in self._after.items() if self._before.get(number, column) != column]
        for number in (*self._changed, *self._added):
            if self._current.get(number) != self._after[number]:
                raise SkippedError(f"column {self._after[number].name} was altered again since")
        self._require_no_loss()
        kept = [number for number in self._with_dropped(list(self._after)) if number not in self._added]
        if kept != list(self._before):
            raise SkippedError("it moved columns")
        self.ids = tuple(self._with_dropped(list(now.ids)))

    def first(self) -> tuple[list[str], TableDefinition]:
        """The clauses that come first, and the definition after them, still with its keys."""
        collation = self._now.definition.collation
        clauses = [
            f"CHANGE COLUMN {quoted(self._after[number].name)} {column_sql(self._before[number], collation)}"
            for number in self._changed
        ]
        columns = {**self._current, **{number: self._before[number] for number in (*self._changed, *self._dropped)}}
        for number in self._dropped:
            at = self.ids.index(number)
            where = f"AFTER {quoted(columns[self.ids[at - 1]].name)}" if at else "FIRST"
            clauses.append(f"ADD COLUMN {column_sql(columns[number], collation)} {where}")
        names = [fold_name(columns[number].name) for number in self.ids]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SkippedError(f"there is another column {twice} now")
        return clauses, replace(self._now.definition, columns=tuple(columns[number] for number in self.ids))

    @property
    def restored(self) -> tuple[int, ...]:
        """The columns whose values the statement lost, or may have changed."""
        lossy = [number for number in self._changed if not holds_all(self._before[number], self._after[number])]
        return tuple(number for number in (*self._dropped, *lossy) if is_settable(self._before[number]))

    def added(self) -> tuple[AddedColumn, ...]:
        """The new columns with what the statement filled in."""
        effect = self._event.effect
        filled = {} if effect is None else {fill.column: fill.value for fill in effect.filled}
        result = []
        for number in self._added:
            column = self._after[number]
            if column.generated is None and column.name not in filled:
                raise SkippedError(f"what it gave to the rows in the new column {column.name} is not known")
            is_computed = column.generated is not None
            value = None if is_computed else filled_value(column, filled[column.name])
            result.append(AddedColumn(number, column, value, is_computed))
        return tuple(result)

    def named_back(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        """Keys with the names that columns had before the statement."""
        names = {self._after[number].name: self._before[number].name for number in self._changed}
        return tuple(
            replace(
                key,
                parts=tuple(
                    part if part.column is None else replace(part, column=names.get(part.column, part.column))
                    for part in key.parts
                ),
            )
            for key in keys
        )

    def _require_no_loss(self) -> None:
        for number in self._changed:
            now, former = self._after[number], self._before[number]
            if not goes_back(now, former):
                raise SkippedError(
                    f"column {now.name}: an ALTER TABLE from {now.column_type} to {former.column_type} may lose a part "
                    "of later values"
                )

    def _with_dropped(self, numbers: list[int]) -> list[int]:
        """Columns with those that were dropped, each after the column that it came after."""
        order = list(self._before)
        for number in self._dropped:
            earlier = [other for other in order[: order.index(number)] if other in numbers]
            numbers.insert(numbers.index(earlier[-1]) + 1 if earlier else 0, number)
        return numbers


def _keys(before: TableDefinition, after: tuple[Key, ...], now: tuple[Key, ...]) -> tuple[list[str], tuple[Key, ...]]:
    """The clauses that give keys back, and the keys after them."""
    gone = [key for key in before.keys if key not in after]
    new = [key for key in after if key not in before.keys]
    for key in (*gone, *new):
        if key.kind not in _REPLACEABLE or key.generated:
            raise SkippedError(f"it changed the key {key.name}, which rows may break")
    if any(key not in now for key in new):
        raise SkippedError("a key that it made was altered again since")
    clauses = [f"DROP KEY {quoted(key.name)}" for key in new] + [f"ADD {key_sql(key)}" for key in gone]
    return clauses, (*(key for key in now if key not in new), *gone)
