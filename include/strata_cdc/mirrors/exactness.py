"""The columns of a mirror by an older version of Strata that may have lost values which they do not hold.
Not here: what happens to such a mirror (`mirrors/follow/mirror_updater.py`), its rows (`table.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import has_many_forms, is_calendar, is_labelled, may_be_invalid
from strata_cdc.tables.values.verbatim import has_other_forms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.schema.model.definition import Column, TableDefinition

_PROPERTY: Final = "strata.exact"
EXACT: Final = {_PROPERTY: "2"}
"""The property of a mirror that has lost nothing. Before number 2, texts of several forms had no second column."""


def doubtful_columns(definition: TableDefinition, properties: Mapping[str, str]) -> list[Column]:
    """Columns in which a mirror with these properties may have lost values that they do not hold."""
    exact = properties.get(_PROPERTY)
    if exact == EXACT[_PROPERTY]:
        return []
    return [column for column in definition.columns if (may_be_invalid if exact is None else has_many_forms)(column)]


def can_tell(column: Column) -> bool:
    """Whether the column's values show what was lost: a NULL may be a lost date, or NULL."""
    return not column.nullable or not is_calendar(column)


def has_lost(values: pa.ChunkedArray, column: Column) -> bool:
    """Whether one of the values may be a lost one: a NULL in a column without NULLs; an empty label if two numbers
    have it; a text of a charset that has several forms of it."""
    if has_many_forms(column):
        return has_other_forms(values, column)
    return bool(pc.any(pc.equal(values, "")).as_py()) if is_labelled(column) else values.null_count > 0
