"""Whether rows got other keys by changes whose images lack the rest of the row (MINIMAL): only then views follow rows
through changes of their keys, which costs about as much again.
Not here: how they are followed (`dialects/moved_rows.py`)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.tables.state import lists_with

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from strata_cdc.dialects.view_source import Branch, ColumnSource, ViewSource
    from strata_cdc.tables.made_values import TableWithValues

_OP, _MISSING, _VERSION, _SEQ = "_op", "_missing", "_schema_version", "_seq"
_KIND: Final = (_OP, _MISSING, _VERSION, _SEQ)


def stages_with_moves(source: ViewSource, tables: Mapping[str, TableWithValues]) -> frozenset[int]:
    """The stages in which a row got another key by a change whose image lacks columns.

    Args:
        source: The parts of a view.
        tables: Its change tables, by the names of its relations.
    """
    stages: set[int] = set()
    for branch in source.branches:
        if branch.stage not in source.without_key | stages and branch.relation in tables:
            keys = [
                column_source
                for column, column_source in zip(source.columns, branch.column_sources, strict=True)
                if column.is_key and column.stage == branch.stage and column_source.physical
            ]
            if _has_moves(tables[branch.relation], branch, keys, source.removed_until):
                stages.add(branch.stage)
    return frozenset(stages)


def _has_moves(table: TableWithValues, branch: Branch, keys: list[ColumnSource], removed_until: int) -> bool:
    # Most tables have no such images: the keys are read only of those that have.
    if not any(len(_partial(batch, branch, removed_until)) for batch in table.batches(_KIND)):
        return False
    columns = sorted({name for column_source in keys for name in column_source.physical})
    batches = table.batches([*columns, BEFORE, *_KIND])
    return any(np.any(_moves(_partial(batch, branch, removed_until), keys)) for batch in batches)


def _partial(rows: pa.Table, branch: Branch, removed_until: int) -> pa.Table:
    """The updates of a branch whose images lack columns."""
    is_own = pc.is_in(rows[_VERSION], pa.array(branch.versions, rows[_VERSION].type))
    lacks = pc.greater(pc.fill_null(pc.list_value_length(rows[_MISSING]), 0), 0)
    conditions = [is_own, lacks, pc.equal(rows[_OP], "update"), pc.greater(rows[_SEQ], removed_until)]
    return rows.filter(reduce(pc.and_, conditions))


def _moves(rows: pa.Table, keys: list[ColumnSource]) -> NDArray[np.bool_]:
    """Which of these updates changed the key; zero dates may be all NULL, and are taken for different."""
    before = rows[BEFORE].combine_chunks()
    moves = np.zeros(len(rows), np.bool_)
    for column_source in keys:
        is_there = np.ones(len(rows), np.bool_)
        is_there[lists_with(rows[_MISSING], column_source.missing)] = False
        for name in column_source.physical:
            differs = pc.not_equal(rows[name].combine_chunks(), pc.struct_field(before, [name]))
            moves |= is_there & pc.fill_null(differs, len(column_source.physical) == 1).to_numpy(zero_copy_only=False)
    return moves
