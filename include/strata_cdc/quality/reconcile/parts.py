"""Rows of a large table in parts, by the hash of values that name them: each part is compared by itself, so that memory
is bounded whatever the table's size.
Not here: what is done with a part (`judge.py`, `verify_changes.py`), by which columns (`part_columns.py`).

Parts lie in one nameless file on this machine's disk. A change belongs to the part of the row that it found and to that
of the row that it left: played alone, a part may have rows of other parts at its end, which `RowPartition.own` leaves
out.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.changes.row_hashes import hash_rows
from strata_cdc.errors import Usage
from strata_cdc.files.scratch_file import ScratchFile
from strata_cdc.tables.layout import column_name, own_name
from strata_cdc.tables.state import lists_with
from strata_cdc.tables.values.constants import constant
from strata_cdc.tables.values.verbatim import constant_text
from strata_cdc.tables.verbatim import INVALID_COLUMN, column_of_verbatim, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from strata_cdc.quality.reconcile.part_columns import Defaults, Fill
    from strata_cdc.schema.model.definition import Column

    Numbers = NDArray[np.int64]
    Columns = Sequence[pa.ChunkedArray]

PARTS = 64
"""That rows are put into; one that is too large for memory is put into as many again."""
_MOST_PARTS = PARTS**3
_WAITING_BYTES = 48 << 20
"""Of rows that wait in memory to be put into the file."""


class RowPartition(Struct, frozen=True):
    """Which rows are of one part."""

    columns: tuple[str, ...]
    """The columns whose values identify rows."""
    parts: int
    number: int

    def own(self, rows: pa.Table) -> pa.Table:
        """Those of some rows that are of it."""
        return rows.filter(pa.array(self.has(rows)))

    def has(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Whether each of some rows is of it."""
        flags: NDArray[np.bool_] = self._numbers([rows[name] for name in self.columns], rows.num_rows) == self.number
        return flags

    def count_left(self, changes: pa.Table, defaults: Defaults) -> int:
        """How many of some changes left, or deleted, a row of it: each change counts in one part."""
        _, left = images_of(changes, self.columns, defaults)
        return int((self._numbers(left, changes.num_rows) == self.number).sum())

    def _numbers(self, columns: Columns, count: int) -> Numbers:
        return _parts_of(columns, count, self.parts)


class PartedRows:
    """Rows of one kind; they are read back once all are put.

    Args:
        columns: The columns whose values identify rows.
        within: The part that all of them are of; None where there are no parts yet.
    """

    def __init__(self, columns: Sequence[str], within: RowPartition | None = None) -> None:
        self.columns = tuple(columns)
        self._within = within or RowPartition(self.columns, 1, 0)
        self._file = ScratchFile("rows of a comparison", ", or compare a sample (--keys)")
        self._blocks: dict[int, list[tuple[int, int]]] = {}
        self._bytes = [0] * PARTS
        self._waiting: list[tuple[pa.Table, Numbers]] = []
        self._waiting_bytes = 0
        self._schema: pa.Schema | None = None
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the file."""
        self._file.close()

    def put(self, rows: pa.Table) -> None:
        """Takes rows.

        Raises:
            Usage: They have other columns than those before.
            LakeUnavailableError: The folder for temporary files is full.
        """
        self._put(rows, self._numbers([rows[name] for name in self.columns], rows.num_rows))

    def put_all(self, parts: Iterable[pa.Table]) -> Self:
        """Takes all of them."""
        for part in parts:
            self.put(part)
        return self

    def bytes_of(self, number: int) -> int:
        """Arrow memory of a part."""
        self._flush()
        return self._bytes[number]

    def part(self, number: int) -> pa.Table | None:
        """The rows of a part; None where nothing was ever put."""
        rows = list(self._read(number))
        if rows:
            return pa.concat_tables(rows)
        return None if self._schema is None else self._schema.empty_table()

    def part_of(self, number: int) -> RowPartition:
        """What its rows have in common."""
        within = self._within
        return RowPartition(self.columns, within.parts * PARTS, within.number + within.parts * number)

    def split(self, number: int) -> PartedRows:
        """A part in parts, some of its rows in memory at a time."""
        return self._like(self.part_of(number)).put_all(self._read(number))

    def _like(self, within: RowPartition) -> PartedRows:
        return PartedRows(self.columns, within)

    def _numbers(self, columns: Columns, count: int) -> Numbers:
        parts = self._within.parts
        return _parts_of(columns, count, parts * PARTS) // parts

    def _put(self, rows: pa.Table, parts: Numbers) -> None:
        if self._schema is not None and not self._schema.equals(rows.schema):
            raise Usage(
                "the change table is in several tables, as an older version of Strata left it",
                remedy="Publish any of its rows once more, which joins them.",
            )
        self._schema = rows.schema
        self._waiting.append((rows, parts))
        self._waiting_bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._waiting_bytes >= _WAITING_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables([batch for batch, _ in self._waiting])
        parts = np.concatenate([numbers for _, numbers in self._waiting])
        self._waiting, self._waiting_bytes = [], 0
        order = np.argsort(parts, kind="stable")
        ordered, bounds = rows.take(pa.array(order)), np.searchsorted(parts[order], np.arange(PARTS + 1)).tolist()
        for number in range(PARTS):
            if bounds[number + 1] > bounds[number]:
                self._write(number, ordered.slice(bounds[number], bounds[number + 1] - bounds[number]))

    def _write(self, number: int, rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(rows)
        content = sink.getvalue()
        self._blocks.setdefault(number, []).append((self._file.append(content), len(content)))
        self._bytes[number] += rows.nbytes

    def _read(self, number: int) -> Iterator[pa.Table]:
        self._flush()
        for begin, size in self._blocks.get(number, ()):
            yield pa.ipc.open_stream(self._file.read_range(begin, size)).read_all()


class PartedChanges(PartedRows):
    """Changes as they lie in a change table.

    Args:
        columns: The columns whose values identify rows.
        defaults: What inserts without a value of these columns have put there.
        within: The part that all of them are of.
    """

    def __init__(self, columns: Sequence[str], defaults: Defaults, within: RowPartition | None = None) -> None:
        super().__init__(columns, within)
        self._defaults = defaults

    def put(self, rows: pa.Table) -> None:
        """Takes changes, each in one part or in two."""
        images = images_of(rows, self.columns, self._defaults)
        after_parts, left = (self._numbers(image, rows.num_rows) for image in images)
        moved = pc.equal(rows["_op"], "update").to_numpy(zero_copy_only=False) & (left != after_parts)
        self._put(rows, left)
        if moved.any():
            self._put(rows.filter(pa.array(moved)), after_parts[moved])

    def _like(self, within: RowPartition) -> PartedRows:
        return PartedChanges(self.columns, self._defaults, within)


def parts_of(sides: Sequence[PartedRows], bound_bytes: int) -> Iterator[tuple[RowPartition, list[pa.Table | None]]]:
    """Each part of some kinds of rows that the same columns identify.

    Args:
        sides: The kinds.
        bound_bytes: Arrow memory of a part at most. Only rows that no value distinguishes can take more.
    """
    for number in range(PARTS):
        part, size = sides[0].part_of(number), sum(side.bytes_of(number) for side in sides)
        if size > bound_bytes and part.parts < _MOST_PARTS:
            with ExitStack() as files:
                yield from parts_of([files.enter_context(side.split(number)) for side in sides], bound_bytes)
        elif size:
            yield part, [side.part(number) for side in sides]


def gathered(
    batches: Iterable[pa.Table], most_bytes: int, make: Callable[[], PartedRows] | None
) -> list[pa.Table] | PartedRows:
    """Rows in memory, or in parts if they are more than so many bytes and can be put into parts."""
    held: list[pa.Table] = []
    size, coming = 0, iter(batches)
    for batch in coming:
        held.append(batch)
        size += batch.nbytes
        if make is not None and size > most_bytes:
            return make().put_all(chain(held, coming))
    return held


class ChosenKeys:
    """Some keys by their hashes: rows of a few others may come along."""

    def __init__(self, key: Sequence[str], keys: Sequence[pa.Table], defaults: Defaults) -> None:
        """Takes the keys.

        Args:
            key: The columns of the key.
            keys: Rows that have these columns.
            defaults: What inserts without a value of these columns have put there.
        """
        self._key, self._defaults = list(key), defaults
        hashes = [_hashes([rows[name] for name in key], rows.num_rows) for rows in keys]
        self._hashes = np.unique(np.concatenate([np.zeros(0, np.int64), *hashes]))

    def rows(self, rows: pa.Table) -> pa.Table:
        """Those that have one of the keys."""
        return rows.filter(pa.array(self._has([rows[name] for name in self._key], rows.num_rows)))

    def changes(self, changes: pa.Table) -> pa.Table:
        """Those that found or left a row with one of the keys, as they lie in a change table."""
        after_flags, left = (
            self._has(image, changes.num_rows) for image in images_of(changes, self._key, self._defaults)
        )
        return changes.filter(pa.array(after_flags | left))

    def _has(self, columns: Columns, count: int) -> NDArray[np.bool_]:
        return np.isin(_hashes(columns, count), self._hashes)


def images_of(
    changes: pa.Table, columns: Sequence[str], defaults: Defaults
) -> tuple[list[pa.ChunkedArray], list[pa.ChunkedArray]]:
    """Columns of the image before and the image after each change; of a delete, and of an insert, of its only image."""
    is_insert, is_delete = (pc.equal(changes["_op"], op) for op in ("insert", "delete"))
    after_images, left = [], []
    for name in columns:
        of = column_of_verbatim(name)
        lacks = _lacks(changes["_missing"], own_name(name) if of is None else of)
        image, after = _image_and_after(changes, name, of)
        if pc.any(pc.and_(lacks, is_insert)).as_py():
            fills = defaults.get(name if of is None else column_name(of), {})
            make = constant if of is None else constant_text
            after = _with_defaults(after, changes["_schema_version"], pc.and_(lacks, is_insert), fills, make)
        # What the partial image after an update lacks has stayed.
        is_old = pc.or_(is_delete, pc.and_not(lacks, is_insert))
        left.append(pc.if_else(is_old, image, after))
        after_images.append(pc.if_else(is_insert, after, image))
    return after_images, left


def _image_and_after(changes: pa.Table, name: str, of: str | None) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """A column of both images, or the texts of columns that an image lacks."""
    if of is None:
        return pc.struct_field(changes[BEFORE], [name]), changes[name]
    invalid, count = changes[INVALID_COLUMN], changes.num_rows
    return opened(invalid, [name], count, f"{BEFORE}.")[name], opened(invalid, [name], count)[name]


def _lacks(missing: pa.ChunkedArray, own: str) -> pa.Array:
    """Whether the image after each change lacks a column, by its own name."""
    lacks = np.zeros(len(missing), bool)
    lacks[lists_with(missing, own)] = True
    return pa.array(lacks)


def _with_defaults(
    values: pa.ChunkedArray,
    versions: pa.ChunkedArray,
    which: pa.Array,
    fills: Mapping[int, Fill],
    make: Callable[[Column, Any, int], pa.Array],
) -> pa.ChunkedArray:
    for version, (column, value) in fills.items():
        mine = pc.and_(pc.equal(versions, version), which)
        if pc.any(mine).as_py():
            values = pc.if_else(mine, make(column, value, 1)[0], values)
    return values


def _hashes(columns: Columns, count: int) -> Numbers:
    return hash_rows([_one(column) for column in columns], count)


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array that begins in the beginning of its memory."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays([values]) if values.offset else values


def _parts_of(columns: Columns, count: int, parts: int) -> Numbers:
    """For each row the number of its part."""
    numbers: Numbers = (_hashes(columns, count).view(np.uint64) % np.uint64(parts)).astype(np.int64)
    return numbers
