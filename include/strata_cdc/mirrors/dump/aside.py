"""Stores rows in a dump's folder by the hash of their key. Later, all rows of one key are read together again, one part
of all keys at a time: this takes the memory of one part, however many rows there are.
Not here: which rows, and what happens to them (`exact.py`), the folder (`folder.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from strata_cdc.changes.row_hashes import hash_rows
from strata_cdc.mirrors.dump.folder import ASIDE, CHUNK_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from strata_cdc.mirrors.dump.folder import DumpFolder
    from strata_cdc.mirrors.dump.limits import DumpLimits

    Ints = NDArray[np.int64]


def hashes_of(columns: Sequence[pa.ChunkedArray], count: int) -> Ints:
    """A hash for each row of some columns."""
    return hash_rows([column.combine_chunks() for column in columns], count)


def parts_of(hashes: Ints, parts: int) -> Ints:
    """The part of each hash, for this number of parts."""
    return hashes & (parts - 1)


class Aside:
    """Rows of one schema, in files that have a batch for each part.

    Args:
        folder: Where the rows are stored.
        kind: Distinguishes them from other rows there.
        limits: Number of parts, and how much is gathered for a file.
    """

    def __init__(self, folder: DumpFolder, kind: str, limits: DumpLimits) -> None:
        self._folder, self._kind, self._limits = folder, kind, limits
        self._files: list[str] = []
        self._held: list[tuple[pa.Table, Ints]] = []
        self._held_bytes = 0

    def put(self, rows: pa.Table, hashes: Ints) -> None:
        """Stores rows, each in the part of its hash; within a part they stay in order.

        Raises:
            LakeUnavailableError: The storage refuses, or is full.
        """
        self._held.append((rows, hashes))
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._limits.aside_bytes:
            self.close()

    def close(self) -> None:
        """Ends the writing.

        Raises:
            LakeUnavailableError: The storage refuses, or is full.
        """
        if not self._held:
            return
        rows = pa.concat_tables([rows_of for rows_of, _ in self._held])
        parts = parts_of(np.concatenate([hashes for _, hashes in self._held]), self._limits.parts)
        self._held, self._held_bytes = [], 0
        order = np.argsort(parts, kind="stable")
        borders = np.searchsorted(parts[order], np.arange(self._limits.parts + 1)).tolist()
        ordered = rows.take(pa.array(order)).combine_chunks()
        name = f"{ASIDE}{self._kind}-{len(self._files):06}{CHUNK_SUFFIX}"
        self._folder.write(
            name, rows.schema, (_as_batch(ordered.slice(low, high - low)) for low, high in pairwise(borders))
        )
        self._files.append(name)

    def part(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part, in the order in which they were stored.

        Raises:
            DamagedFileError: A file is gone, or not complete.
            LakeUnavailableError: The storage does not answer.
        """
        for name in self._files:
            batch = self._folder.read_one(name, number)
            if batch.num_rows:
                yield batch


def _as_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


class HashMarks:
    """Remembers hashes in bounded memory; it may report a hash that was never added."""

    def __init__(self, count: int) -> None:
        """Args:
        count: Bytes of memory, a power of two.
        """
        self._marked = np.zeros(count, bool)

    def add(self, hashes: Ints) -> None:
        """Adds hashes."""
        self._marked[hashes & (len(self._marked) - 1)] = True

    def has(self, hashes: Ints) -> NDArray[np.bool_]:
        """Which of these hashes may have been added."""
        flags: NDArray[np.bool_] = self._marked[hashes & (len(self._marked) - 1)]
        return flags
