"""Whether some files of a change table have the same rows as others, in whatever files and row groups they are.
Not here: what follows from it (`commit.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.tables.layout import INTERVAL
from strata_cdc.tables.ordered_rows import ordered_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq


def same_rows(some: Sequence[pq.ParquetFile], others: Sequence[pq.ParquetFile]) -> bool:
    """Whether files have the same rows, apart from `_interval`. A column that a file does not have is NULL in its rows.

    Rows are compared in the order of the stream, a row group of each side at a time. If a transaction lies in several
    row groups that are not in its order, the answer may be no where it is yes.

    Raises:
        OSError: A file cannot be read.
        pyarrow.ArrowException: A file is damaged.
    """
    if sum(file.metadata.num_rows for file in some) != sum(file.metadata.num_rows for file in others):
        return False
    left, right = _UncomparedRows(some), _UncomparedRows(others)
    while True:
        count = min(left.fill(), right.fill())
        if not count:
            return True
        if not _are_equal(left.take_first(count), right.take_first(count)):
            return False


class _UncomparedRows:
    """Rows of one side that are still to be compared."""

    def __init__(self, files: Sequence[pq.ParquetFile]) -> None:
        footers = [file.metadata for file in files]
        self._groups: Iterator[tuple[int, pa.Table]] = ordered_groups(footers, files.__getitem__)
        self._held: pa.Table | None = None

    def fill(self) -> int:
        """Reads on if nothing is held; the number of rows that are held, 0 at the end."""
        while not self._held:
            group = next(self._groups, None)
            if group is None:
                return 0
            self._held = group[1]
        return len(self._held)

    def take_first(self, count: int) -> pa.Table:
        """The first of the rows that are held."""
        held = self._held
        assert held is not None  # noqa: S101  `fill` has returned a number
        self._held = held.slice(count)
        return held.slice(0, count)


def _are_equal(table: pa.Table, other: pa.Table) -> bool:
    return all(
        _equal_columns(_column(table, name), _column(other, name))
        for name in {*table.column_names, *other.column_names} - {INTERVAL}
    )


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray | None:
    return rows[name] if name in rows.column_names else None


def _equal_columns(column: pa.ChunkedArray | None, other: pa.ChunkedArray | None) -> bool:
    if column is None or other is None:
        present = column if other is None else other
        return present is None or present.null_count == len(present)
    return column.type == other.type and bool(column.equals(other))
