"""Values that a DROP COLUMN or an ALTER TABLE lost, as changes of rows: from what the rows have once their columns are
back, to what they had before.
Not here: statements of DDL (`inverse_ddl.py`), rows of the past (`table_steps.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.past.undo.columns import Altered, Cell, ColumnPath
from strata_cdc.past.undo.literals import Verbatim
from strata_cdc.past.undo.row_changes import LoggedChange, filled_value
from strata_cdc.past.undo.steps import touched_columns
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.past.undo.inverse_ddl import InverseDdl
    from strata_cdc.past.undo.row_changes import ChangeOrigin, Image, NowTable
    from strata_cdc.schema.model.definition import Column

_BACK = RowEffect(kind=EffectKind.CONVERT, time_zone="+00:00")
_ONLY_THE_SERVER_KNOWS = Verbatim("")


def restoring_changes(
    inverse: InverseDdl, images: Iterable[Image], table: NowTable, origin: ChangeOrigin
) -> Iterator[LoggedChange]:
    """A change for each row of before whose values are not what they were once the columns are back.

    Args:
        inverse: What takes the statement back.
        images: The rows before the statement, with the columns of now.
        table: The table as it is while rows are changed.
        origin: The statement.
    """
    left = {column.name: _left_by(inverse, number, column) for number, column in _restored(inverse)}
    for number, image in enumerate(images):
        if any(name not in image for name in (*table.key, *left)):
            continue
        key = {name: image[name] for name in table.key}
        before = key | {name: image[name] for name in left}
        after = key | {name: path_and_value(image[name].value) for name, path_and_value in left.items()}
        change = LoggedChange(replace(origin, row=number), "update", before, after, (), unguarded=inverse.unguarded)
        if touched_columns(change, table):
            yield change


def _restored(inverse: InverseDdl) -> list[tuple[int, Column]]:
    columns = dict(zip(inverse.now.ids, inverse.now.definition.columns, strict=True))
    return [(number, columns[number]) for number in inverse.restored]


def _left_by(inverse: InverseDdl, number: int, column: Column) -> Any:
    """What a row has in a column once it is back, from the value that it had before the statement."""
    after = _column(inverse, number)
    if after is not None:
        steps = (Altered(column, after, inverse.event.effect), Altered(after, column, _BACK))
        path = ColumnPath(column, column, steps)
        return lambda value: Cell(path, value)
    fill = fill_of(column)
    filled = _ONLY_THE_SERVER_KNOWS if isinstance(fill, NoFill) else filled_value(column, fill)
    cell = Cell(ColumnPath(column, column), filled)
    return lambda _: cell


def _column(inverse: InverseDdl, number: int) -> Column | None:
    after = inverse.event.after
    return None if after is None else dict(zip(after.ids, after.definition.columns, strict=True)).get(number)
