"""Rows that are set aside, each once: TiCDC writes them again as it does others.
Not here: why rows are set aside (`quadrants.py`), repeats of the others (`once.py`).

Their key may not be known, since the order of their columns may not be. So two of them are one change only if
everything is the same: timestamp, operation, and all of both images. Different images are no error here.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.ticdc.once import are_keyless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.errors import StrataError
    from strata_cdc.ticdc.history import SinkVersion


class AsideRows(Struct, frozen=True):
    """Rows of one file that are set aside."""

    version: SinkVersion
    """Under which they were written."""
    rows: pa.Table
    """With the columns of `rows.rows_schema` and `file`."""
    error: StrataError
    """Why they are set aside."""
    is_order_known: bool
    """Whether each value belongs to the column that it is in."""

    @property
    def is_keyless(self) -> bool:
        """Whether equal rows may be several."""
        return are_keyless(self.rows, self.version.definition.primary_key)


def aside_once(parts: Iterable[AsideRows], exact: Sequence[tuple[SinkVersion, pa.Table]]) -> Iterator[AsideRows]:
    """The rows without those that are equal to earlier ones, or to a row that was read exactly.

    Of a table without a key all remain: users may have written equal rows, and a row that is shown twice is found
    sooner than one that is missing.

    Args:
        parts: All rows of some timestamps that are set aside.
        exact: The rows of these timestamps that are not, by version.
    """
    groups: dict[tuple[str, str], list[AsideRows]] = defaultdict(list)
    for part in parts:
        if part.is_keyless:
            yield part
        else:
            groups[part.version.folder, part.version.definition.to_json()].append(part)
    for group in groups.values():
        of_folder = [(version, rows) for version, rows in exact if version.folder == group[0].version.folder]
        yield from _group_once(group, of_folder)


def _group_once(parts: list[AsideRows], exact: list[tuple[SinkVersion, pa.Table]]) -> Iterator[AsideRows]:
    """As `aside_once`, of one table and definition."""
    columns = [column.name for column in parts[0].version.definition.columns]
    is_first = _are_first(pa.concat_tables([_identity(part.rows, columns) for part in parts]))
    begin = 0
    for part in parts:
        kept = part.rows.filter(pa.array(is_first[begin : begin + part.rows.num_rows]))
        begin += part.rows.num_rows
        for version, rows in exact if part.is_order_known else []:
            kept = _not_among(kept, part.version, rows, version)
        if kept.num_rows:
            yield AsideRows(part.version, kept, part.error, part.is_order_known)


def _not_among(rows: pa.Table, version: SinkVersion, known: pa.Table, valid: SinkVersion) -> pa.Table:
    """The rows that are not among those of another version, in what both versions have."""
    key, types = version.definition.primary_key, {field.name: field.type for field in known["after"].type}
    common = [field.name for field in rows["after"].type if types.get(field.name) == field.type]
    if key != valid.definition.primary_key or not set(key) <= set(common):
        return rows
    both = [_identity(table, common, is_whole=False) for table in (known, rows)]
    return rows.filter(pa.array(_are_first(pa.concat_tables(both))[known.num_rows :]))


def _identity(rows: pa.Table, columns: Sequence[str], *, is_whole: bool = True) -> pa.Table:
    """What two rows have in common if they are one, as columns of simple types.

    Args:
        rows: The rows.
        columns: Which columns of the images count.
        is_whole: Whether these are all columns.
    """
    images = [rows[name].combine_chunks() for name in ("after", "before")]
    parts = [rows["ts"], rows["op"], rows["key"], _texts(rows["invalid"])]
    parts += [image.field(name) for image in images for name in columns]
    if is_whole:
        parts.append(_texts(rows["missing"]))
    return pa.table(parts, names=[str(at) for at in range(len(parts))])


def _texts(column: pa.ChunkedArray) -> pa.Array:
    """Lists or maps as texts; few rows have any."""
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())


def _are_first(rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each row whether no earlier one is equal to it; NULL is equal to NULL."""
    numbered = rows.append_column("at", pa.array(np.arange(rows.num_rows)))
    first = numbered.group_by(rows.column_names, use_threads=False).aggregate([("at", "min")])["at_min"]
    is_first = np.zeros(rows.num_rows, np.bool_)
    is_first[first.to_numpy()] = True
    return is_first
