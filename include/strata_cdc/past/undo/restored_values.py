"""Values that a DROP COLUMN or an ALTER TABLE lost, as changes of rows: from what the rows have once their columns are
back, to what they had before.
Not here: statements of DDL (`inverse_ddl.py`), rows of the past (`undo_reader.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.counted import counted
from strata_cdc.mirrors.renames import without_invalid
from strata_cdc.past.undo.columns import AlteringStatement, Cell, ColumnPath, same_value
from strata_cdc.past.undo.literals import Verbatim
from strata_cdc.past.undo.row_changes import LoggedChange, filled_value
from strata_cdc.past.undo.steps import touched_columns
from strata_cdc.schema.history.fills import NoFill, fill_of
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import INVALID_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.past.timeline import ChangeSpan
    from strata_cdc.past.undo.inverse_ddl import InverseDdl
    from strata_cdc.past.undo.row_changes import ChangeOrigin, Image, NowTable
    from strata_cdc.schema.model.definition import Column


# Whether others have put something into a column or a table that is to go, as its mirror shows.
def later_values(inverse: InverseDdl, span: ChangeSpan, mirror: Mirror) -> str | None:
    """What would be lost; None if nothing.

    Args:
        inverse: What takes a statement back.
        span: The table as it is now.
        mirror: Its rows.

    Raises:
        DamagedFileError: The lake has lost files of the mirror.
        LakeUnavailableError: The storage does not answer.
    """
    if inverse.drops_table:
        count = sum(rows.num_rows for rows in mirror.batches([INVALID_COLUMN]))
        return f"{counted(count, 'row')} would go with the table" if count else None
    names = span.columns_by_id
    for added in inverse.added:
        column = names.get(added.number)
        if column is None or added.is_computed:
            continue
        count = sum(not same_value(value, added.value) for value in _values(mirror, column.name))
        if count:
            have = "row has" if count == 1 else "rows have"
            return f"{count} {have} another value in {column.name} than ADD COLUMN gave"
    return None


def _values(mirror: Mirror, name: str) -> Iterator[Any]:
    held = {field.name for field in without_invalid(mirror.schema)} & {column_name(name)}
    for rows in mirror.batches([*held, INVALID_COLUMN]):
        values = rows[column_name(name)].to_pylist() if held else [None] * rows.num_rows
        for value, invalid in zip(values, rows[INVALID_COLUMN].to_pylist(), strict=True):
            texts = dict(invalid or ())
            yield Verbatim(texts[name]) if name in texts else value


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
    columns = inverse.now.columns_by_id
    return [(number, columns[number]) for number in inverse.restored]


def _left_by(inverse: InverseDdl, number: int, column: Column) -> Any:
    """What a row has in a column once it is back, from the value that it had before the statement."""
    span = inverse.event.after
    after = None if span is None else span.columns_by_id.get(number)
    if after is not None:
        steps = (AlteringStatement(column, after, inverse.event.effect), AlteringStatement(after, column, _BACK))
        path = ColumnPath(column, column, steps)
        return lambda value: Cell(path, value)
    fill = fill_of(column)
    filled = _ONLY_THE_SERVER_KNOWS if isinstance(fill, NoFill) else filled_value(column, fill)
    cell = Cell(ColumnPath(column, column), filled)
    return lambda _: cell
