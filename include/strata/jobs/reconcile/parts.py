"""Rows of a large table in parts, by the hash of their key: each part is compared by itself, so that memory is bounded.
Not here: what is done with a part (`judge.py`).

A part is a file on this machine's disk. A change belongs to the part of the key that it found and to that of the key
that it left: played alone, a part may have rows of other parts' keys at its end, which `own` leaves out.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa  # noqa: TID253  only those who compare import this module
import pyarrow.compute as pc  # noqa: TID253  see above

from strata.errors import LakeUnavailableError, Usage
from strata.rows.arrow import BEFORE, arrow_type
from strata.rows.row_hashes import hash_rows
from strata.schema.model.folding import fold_name
from strata.tables.layout import column_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from strata.jobs.reconcile.past import TablePast
    from strata.schema.model.definition import TableDefinition

    Numbers = NDArray[np.int64]

PARTS = 64
_ROWS_AT_ONCE = 500_000
"""That wait in memory to be put into the files."""


class Parted:
    """Rows of one kind; a part is read back once all are put."""

    def __init__(self, key: Sequence[str], count: int = PARTS) -> None:
        """Makes a folder for temporary files, which goes with `close`.

        Args:
            key: The columns of the key.
            count: How many parts there are.
        """
        self._key, self._count = list(key), count
        self._folder = tempfile.TemporaryDirectory(prefix="strata-")
        self._writers: dict[int, Any] = {}
        self._waiting: list[tuple[pa.Table, Numbers]] = []
        self._schema: pa.Schema | None = None
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the files."""
        for writer in self._writers.values():
            writer.close()
        self._folder.cleanup()

    def put(self, rows: pa.Table) -> None:
        """Rows that have a key."""
        self._put(rows, part_of([rows[name] for name in self._key], rows.num_rows, self._count))

    def put_changes(self, changes: pa.Table) -> None:
        """Changes as they lie in a change table."""
        of_found, of_left = (part_of(one, changes.num_rows, self._count) for one in _keys_of_images(changes, self._key))
        moved = pc.equal(changes["_op"], "update").to_numpy(zero_copy_only=False) & (of_left != of_found)
        self._put(changes, of_left)
        if moved.any():
            self._put(changes.filter(pa.array(moved)), of_found[moved])

    def part(self, number: int) -> list[pa.Table]:
        """The rows of one part: one table, or none if there are none at all."""
        self._flush()
        writer = self._writers.pop(number, None)
        if writer is not None:
            writer.close()
        path = self._path(number)
        if path.exists():
            with pa.memory_map(str(path)) as file:
                return [pa.ipc.open_stream(file).read_all()]
        return [] if self._schema is None else [self._schema.empty_table()]

    def own(self, rows: pa.Table, number: int) -> pa.Table:
        """Those of some rows that are of a part."""
        return rows.filter(pa.array(part_of([rows[name] for name in self._key], rows.num_rows, self._count) == number))

    def _put(self, rows: pa.Table, parts: Numbers) -> None:
        if self._schema is not None and not self._schema.equals(rows.schema):
            raise Usage(
                "the change table is in several pieces, as an older version of Strata left it",
                remedy="Publish any of its rows once more, which makes it one.",
            )
        self._schema = rows.schema
        self._waiting.append((rows, parts))
        self.rows += rows.num_rows
        if sum(one.num_rows for one, _ in self._waiting) >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables([one for one, _ in self._waiting])
        parts = np.concatenate([one for _, one in self._waiting])
        self._waiting = []
        order = np.argsort(parts, kind="stable")
        ordered = rows.take(pa.array(order))
        bounds = np.searchsorted(parts[order], np.arange(self._count + 1))
        for number in range(self._count):
            begin, end = int(bounds[number]), int(bounds[number + 1])
            if end > begin:
                self._write(number, ordered.slice(begin, end - begin))

    def _write(self, number: int, rows: pa.Table) -> None:
        try:
            if number not in self._writers:
                options = pa.ipc.IpcWriteOptions(compression="zstd")
                self._writers[number] = pa.ipc.new_stream(str(self._path(number)), rows.schema, options=options)
            self._writers[number].write_table(rows)
        except OSError as error:
            raise LakeUnavailableError(
                f"the folder for temporary files takes no more rows of a comparison: {error}",
                remedy="Make room there, name another one by TMPDIR, or compare a sample (--keys).",
            ) from error

    def _path(self, number: int) -> Path:
        return Path(self._folder.name) / f"{number}.arrow"


class Chosen:
    """Some keys by their hashes: rows of a few others may come along."""

    def __init__(self, key: Sequence[str], keys: Sequence[pa.Table]) -> None:
        """Takes the keys.

        Args:
            key: The columns of the key.
            keys: Rows that have these columns.
        """
        self._key = list(key)
        hashes = [_hashes([rows[name] for name in key], rows.num_rows) for rows in keys]
        self._hashes = np.unique(np.concatenate([np.zeros(0, np.int64), *hashes]))

    def rows(self, rows: pa.Table) -> pa.Table:
        """Those that have one of the keys."""
        return rows.filter(pa.array(self._has([rows[name] for name in self._key], rows.num_rows)))

    def changes(self, changes: pa.Table) -> pa.Table:
        """Those that found or left a row with one of the keys, as they lie in a change table."""
        found, left = (self._has(one, changes.num_rows) for one in _keys_of_images(changes, self._key))
        return changes.filter(pa.array(found | left))

    def _has(self, columns: Sequence[pa.ChunkedArray], count: int) -> NDArray[np.bool_]:
        return np.isin(_hashes(columns, count), self._hashes)


def _keys_of_images(changes: pa.Table, key: Sequence[str]) -> tuple[list[pa.ChunkedArray], list[pa.ChunkedArray]]:
    """What each change found, and what it left."""
    found = [pc.struct_field(changes[BEFORE], [name]) for name in key]
    # A partial image may lack its key, which it has kept; a delete leaves none.
    left = [pc.coalesce(changes[name], old) for name, old in zip(key, found, strict=True)]
    return found, left


def _hashes(columns: Sequence[pa.ChunkedArray], count: int) -> Numbers:
    return hash_rows([column.combine_chunks() for column in columns], count)


def part_of(columns: Sequence[pa.ChunkedArray], count: int, parts: int) -> Numbers:
    """For each row the number of its part."""
    found: Numbers = (_hashes(columns, count).view(np.uint64) % np.uint64(parts)).astype(np.int64)
    return found


def can_be_parted(past: TablePast, definition: TableDefinition) -> bool:
    """Whether the key had the same columns, in the same types, in all versions: then equal keys have equal hashes."""
    key = _key_types(definition)
    names = {name for name, _ in key}
    known = [turn for turn in past.turns if turn.definition is not None]
    return bool(key) and all(
        turn.definition is not None
        and _key_types(turn.definition) == key
        and (number == 0 or not names & {fold_name(name) for name in turn.added_columns})
        for number, turn in enumerate(known)
    )


def _key_types(definition: TableDefinition) -> list[tuple[str, pa.DataType]]:
    columns = [definition.column(name) for name in definition.primary_key]
    return [(fold_name(column_name(column.name)), arrow_type(column)) for column in columns if column is not None]
