"""The order of a table's rows, each once: TiCDC writes rows again after a restart, and when a table moves.
Not here: rows of other versions (`quadrants.py`), which rows come together (`windows.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.errors import DamagedFileError
from strata_cdc.ticdc.rows import OPERATIONS, Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import TableName

_KEYS = "key_"
"""Begins the names of the columns that identify a row, which the table's own names do not reach."""


def are_keyless(rows: pa.Table, key: tuple[str, ...]) -> bool:
    """Whether rows look like their repeats, as `each_once` takes them."""
    return not key and rows["key"].null_count > 0


def keyless_remedy(table: TableName) -> str:
    """What can be done about a table whose rows have no key."""
    return (
        f'Leave the table out (`exclude = ["{table}"]` of the source, or --table where a folder is decoded), give it a '
        "primary key, or let the changefeed write canal-json with `output-row-key`."
    )


def each_once(rows: pa.Table, table: TableName, key: tuple[str, ...], files: Sequence[str]) -> tuple[pa.Table, int]:
    """The rows of a table by commit timestamp, without repeats; and how many repeats there were.

    A row is a repeat if timestamp, operation and key are those of another. TiKV keeps one change of a key per
    timestamp, so that no other rows have these in common. Within a timestamp the deletes are first, since an update of
    a key may have been split; else rows keep the order of their files.

    Args:
        rows: With the columns of `rows.rows_schema` and `file`, the ordinal of the file. All rows of a timestamp.
        table: The table.
        key: The columns of its primary key; empty if it has none, then the rows' own keys are used.
        files: The paths of the files, by ordinal.

    Raises:
        DamagedFileError: The table has no key, and neither have its rows; or repeats of a row differ.
    """
    # Whole rows are moved only where they have to be: few are repeats.
    placed = rows.select(["ts", "op", "file", "number"])
    keys = _keys(rows, table, key, files)
    keyed = placed
    for name, column in keys.items():
        keyed = keyed.append_column(name, column)
    order = pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in ("ts", "op", *keys, "file", "number")])
    is_repeat = _same_as_before(keyed.take(order), ("ts", "op", *keys))
    repeats = pc.sum(is_repeat).as_py() or 0
    if repeats:
        rows = rows.take(order)
        _check_repeats(rows, is_repeat, table, files)
        rows = rows.filter(pc.invert(is_repeat))
        placed = rows.select(placed.column_names)
    rank = pc.not_equal(placed["op"], int(Operation.DELETE))
    ranked = placed.append_column("rank", rank.cast(pa.int8()))
    stream = pc.sort_indices(ranked, sort_keys=[(name, "ascending") for name in ("ts", "rank", "file", "number")])
    return rows.take(stream), repeats


def _keys(rows: pa.Table, table: TableName, key: tuple[str, ...], files: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    if not key:
        if are_keyless(rows, key):
            at = pc.index(rows["key"].is_null(), value=True).as_py()
            raise DamagedFileError(
                f"row {rows['number'][at].as_py():,} of the file: the table has no primary key; a row "
                "which was written again looks like another row",
                table=str(table),
                file=files[rows["file"][at].as_py()],
                remedy=keyless_remedy(table),
            )
        return {_KEYS: rows["key"]}
    is_delete = pc.equal(rows["op"], int(Operation.DELETE))
    images = [pc.struct_field(rows[name], [part]) for part in key for name in ("before", "after")]
    pairs = zip(images[::2], images[1::2], strict=True)
    return {f"{_KEYS}{at}": pc.if_else(is_delete, before, after) for at, (before, after) in enumerate(pairs)}


def _same_as_before(rows: pa.Table, names: tuple[str, ...]) -> pa.ChunkedArray:
    """For each row whether some columns have the values of the row before it."""
    count = rows.num_rows
    same = pa.array([True]).take(pa.nulls(count - 1, pa.int8()).fill_null(0))
    for name in names:
        column = rows[name].combine_chunks()
        same = pc.and_(same, pc.fill_null(pc.equal(column.slice(1), column.slice(0, count - 1)), fill_value=False))
    return pa.concat_arrays([pa.array([False]), same])


def _check_repeats(rows: pa.Table, is_repeat: pa.Array, table: TableName, files: Sequence[str]) -> None:
    again = pc.indices_nonzero(is_repeat)
    images = rows.select(["after", "before"])
    first = images.take(pc.subtract(again, pa.scalar(1, again.type)))
    if images.take(again).equals(first):
        return
    for at in again.to_pylist():
        prior, repeat = (rows.slice(row, 1) for row in (at - 1, at))
        if not prior.select(["after", "before"]).equals(repeat.select(["after", "before"])):
            places = " and ".join(
                f"{files[row['file'][0].as_py()]} row {row['number'][0].as_py():,}" for row in (prior, repeat)
            )
            raise DamagedFileError(
                f"the same {OPERATIONS[prior['op'][0].as_py()]} at {prior['ts'][0].as_py()} has other values: {places}",
                table=str(table),
                remedy="TiCDC wrote other values for a row that it wrote again. Compare both with TiDB's row.",
            )
