"""Columns through their names: what those of one version are called in a later one, by their ids.
Not here: which column is which (`identified_tables.py`), tables through their names (`lineage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from strata_cdc.schema.history.identified_tables import Identified

Renames = dict[str, str]
"""From the name of a column, folded, to its later name as it is written. A column that keeps its name is not in it."""


def renames_between(before: Identified | None, after: Identified | None) -> Renames:
    """The columns that have another name afterwards; none where one of the two is not there."""
    if before is None or after is None:
        return {}
    later = dict(zip(after.columns.ids, after.names, strict=True))
    pairs = ((name, later.get(column)) for column, name in zip(before.columns.ids, before.names, strict=True))
    return {fold_name(old): new for old, new in pairs if new is not None and fold_name(old) != fold_name(new)}
