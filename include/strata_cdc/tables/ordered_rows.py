"""The rows of some files of one change table in the order of the stream, a row group at a time.
Not here: which files (`merge_files.py`, `same_rows.py`); order within a row group, which is that of the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq


File = TypeVar("File", int, str)
"""How a caller names a file: by its number, or by its path."""


class RowGroup(Struct, Generic[File], frozen=True, order=True):
    """A row group of a file of a change table, in the order of its rows."""

    low: int
    """Bounds of `_seq`."""
    high: int
    first_row: int
    """Bounds of `_row`: the order of the row groups of one transaction."""
    last_row: int
    file: File
    group: int


def ordered_groups(
    metadata: Sequence[pq.FileMetaData], opened: Callable[[int], pq.ParquetFile]
) -> Iterator[tuple[int, pa.Table]]:
    """The row groups of files, each with the number of its file.

    Args:
        metadata: The footer of each file.
        opened: Opens the file with a number.
    """
    groups = (group for number, footer in enumerate(metadata) for group in row_groups_of(footer, number))
    for group in sorted(groups):
        yield group.file, opened(group.file).read_row_group(group.group, use_threads=False)


def row_groups_of(footer: pq.FileMetaData, file: File) -> Iterator[RowGroup[File]]:
    """The row groups of a file, by its footer."""
    leaves = range(footer.num_columns if footer.num_row_groups else 0)
    names = {footer.row_group(0).column(leaf).path_in_schema: leaf for leaf in leaves}
    for group in range(footer.num_row_groups):
        seqs, rows = (footer.row_group(group).column(names[name]).statistics for name in ("_seq", "_row"))
        yield RowGroup(seqs.min, seqs.max, rows.min, rows.max, file, group)
