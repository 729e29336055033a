"""The rows of tables that the index cannot count: those with times in the format of MariaDB 5.3, of which only a schema
version has the lengths of cells.
Not here: the counts of the index (`landing/count_rows.py`), cutting and decoding (`changes/`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.changes.binlog_changes import read_slice
from strata_cdc.changes.port import ChangeBatch, Hole
from strata_cdc.errors import BadData
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from strata_cdc.changes.plan import Slice


def recounted_rows(slices: Iterable[Slice], uncounted: Collection[TableName]) -> Counter[TableName]:
    """How many rows slices have of some tables, by decoding them.

    Where a slice cannot be decoded, rows are missing here; the decoder finds the same, and none of the table's rows in
    this interval are published then.

    Args:
        slices: Those of an interval.
        uncounted: Tables of which the index has the number of row events.
    """
    rows: Counter[TableName] = Counter()
    for entry in slices:
        tables = tuple(table for table in entry.tables if TableName(table.database, table.table) in uncounted)
        if tables:
            _add_rows(rows, replace(entry, tables=tables))
    return rows


def _add_rows(rows: Counter[TableName], entry: Slice) -> None:
    try:
        for step in read_slice(entry):
            if not isinstance(step, Hole):
                rows[step.table] += (step.batch if isinstance(step, ChangeBatch) else step.rows).num_rows
    except BadData:
        return  # reported where it is decoded
