"""Whether others have put something into a column or a table that is to go, as its mirror shows.
Not here: the server's own look at it (`script.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.counted import counted
from strata_cdc.mirrors.renames import without_invalid
from strata_cdc.past.undo.columns import same_value
from strata_cdc.past.undo.literals import Verbatim
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import INVALID_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.past.timeline import ChangeSpan
    from strata_cdc.past.undo.inverse_ddl import InverseDdl


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
    names = dict(zip(span.ids, span.definition.columns, strict=True))
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
