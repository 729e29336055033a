"""Which images are of rows that a SELECT gives: system-versioned tables of MariaDB also keep rows of the past, and a
sequence may have a row that is in no log.
Not here: what the images amount to (`state.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.arrow_columns import to_numbers
from strata_cdc.changes.arrow import BEFORE, TIMESTAMP_UTC
from strata_cdc.errors import BadData
from strata_cdc.schema.model.row_times import FOREVER, ROW_END
from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column, TableDefinition

_FOREVER: Final = to_numbers(np.array(FOREVER)).view(TIMESTAMP_UTC)
ENDS_OF_CURRENT: Final = tuple(_FOREVER)
"""The end of rows that are current, in any version."""

NO_SEQUENCE_ROW: Final = (
    "CREATE SEQUENCE and ALTER SEQUENCE log no row: the sequence's row is known again when it is used and logged"
)
"""Why a sequence has no row here: on the server it always has one."""


def end_column(definition: TableDefinition) -> str | None:
    """The column with the end of a row's time, as the change table calls it; None for a table that is not versioned.

    Raises:
        BadData: See `column_of_end`.
    """
    column = column_of_end(definition)
    return None if column is None else column_name(column.name)


def column_of_end(definition: TableDefinition) -> Column | None:
    """The column with the end of a row's time; None for a table that is not versioned.

    Raises:
        BadData: The table is versioned and has no such column.
    """
    if not definition.versioned:
        return None
    for column in definition.columns:
        if column.generation_expression == ROW_END:
            return column
    raise BadData("a system-versioned table has no column with the end of a row's time")


def is_current(ends: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Whether rows with these ends are current. An image that lacks its end has not changed it: only current rows are
    ever updated."""
    return pc.or_(ends.is_null(), pc.is_in(ends, value_set=_FOREVER))


def is_past(changes: pa.Table, definition: TableDefinition) -> pa.Array:
    """Whether changes are of rows of the past: never NULL.

    Args:
        changes: The column with the end of a row's time, as change tables call it, with that of the image before in
            `_before`; and `_op`.
        definition: The table's; of one that is not versioned, no row is of the past.

    Raises:
        BadData: See `column_of_end`.
    """
    end = end_column(definition)
    if end is None:
        return pa.repeat(pa.scalar(value=False), len(changes))
    before, after = _ends(changes, end)
    is_insert = pc.equal(changes["_op"].combine_chunks(), "insert")
    return pc.invert(is_current(pc.if_else(is_insert, after, before)))


def ends_rows(changes: pa.Table, definition: TableDefinition) -> pa.Array:
    """Whether changes are the updates with which current rows end: a DELETE of a versioned table. Never NULL; arguments
    and errors as in `is_past`."""
    end = end_column(definition)
    if end is None:
        return pa.repeat(pa.scalar(value=False), len(changes))
    _, after = _ends(changes, end)
    is_update = pc.equal(changes["_op"].combine_chunks(), "update")
    return pc.and_(is_update, pc.invert(is_current(after)))


def _ends(changes: pa.Table, end: str) -> tuple[pa.Array, pa.Array]:
    """The ends before and after changes."""
    images = changes[BEFORE].combine_chunks()
    before = images.field(images.type.get_field_index(end))
    return pc.if_else(images.is_valid(), before, None), changes[end].combine_chunks()
