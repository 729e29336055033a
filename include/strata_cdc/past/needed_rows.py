"""Which part of a table a query needs: columns, and values of some of them.
Not here: finding it in the query (`dialects/queries/ranges.py`), reading it (`query.py`, `row_versions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.dialects.queries.ranges import ColumnRanges, Ranges
    from strata_cdc.schema.model.definition import TableDefinition


class NeededRows(Struct, frozen=True):
    """The needed part of a table."""

    numbers: Sequence[int]
    """Of the columns that are read."""
    ranges: Sequence[ColumnRanges] = ()
    """Each needed row has values in all of them."""

    def within(self, definition: TableDefinition) -> dict[str, Ranges]:
        """The ranges by the names that the columns have in files; of several for a column, the last."""
        return {column_name(definition.columns[known.number].name): known.ranges for known in self.ranges}
