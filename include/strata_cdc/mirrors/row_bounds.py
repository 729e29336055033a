"""Which row groups of a data file may have rows with some values, by the bounds that Parquet has of its columns.
Not here: reading them (`data_files.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    Ranges = tuple[tuple[int | None, int | None], ...]
    """The least and the greatest value of each range, both included; None: no bound."""


def row_groups_within(parquet: pq.ParquetFile, within: Mapping[str, Ranges]) -> list[int]:
    """The numbers of the row groups that may have rows with these values, ascending.

    Args:
        parquet: The file.
        within: Ranges by the names of integer columns in the file; a column that the file lacks, or has in another
            type, leaves nothing out.
    """
    metadata = parquet.metadata
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    numbers = {
        paths.index(name): ranges
        for name, ranges in within.items()
        if name in paths and pa.types.is_integer(parquet.schema_arrow.field(name).type)
    }
    return [
        group
        for group in range(metadata.num_row_groups)
        if all(_may_have(metadata.row_group(group).column(number), ranges) for number, ranges in numbers.items())
    ]


def _may_have(column: pq.ColumnChunkMetaData, ranges: Ranges) -> bool:
    known = column.statistics
    if known is None or not known.has_min_max:
        return True
    return any((low is None or low <= known.max) and (high is None or high >= known.min) for low, high in ranges)
