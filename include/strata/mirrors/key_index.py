"""Where the row of a key lies: in which data file, at which number. A cache, made from the key columns of the files.
Not here: which keys change (`reduce.py`), which rows are dead (`vectors.py`).

A data file never changes, so what is known of it holds for ever. A key of one integer stands for itself; others are
hashed to 64 bits. Two keys with one hash cannot lose a row: the number of live rows with a hash is held against the
number of keys that are looked for, and where they differ the keys themselves are read and compared.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyroaring import BitMap

from strata.errors import MirrorDivergedError
from strata.mirrors.data_files import names_of, read_file_rows, read_some_rows
from strata.mirrors.vectors import read_vector
from strata.rows.row_hashes import hash_rows
from strata.tables.state import row_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata.mirrors.actions import LiveFile
    from strata.mirrors.table import Mirror
    from strata.mirrors.vectors import Vector

    Ints = NDArray[np.int64]

BOUND_BYTES: Final = 384 << 20
"""Of memory that an index holds at most."""
_NO_ROWS: Final = np.empty(0, np.int64)


class Wanted(Struct, frozen=True):
    """Keys that are looked for; each once."""

    keys: pa.Table
    counts: Ints
    """How many rows with each there have to be: 0 where there must be none."""
    exact: bool
    """Whether there must not be more."""


class KeyIndex:
    """Finds rows of one mirror by the values of some columns. What it holds is bounded, and can be lost at any time.

    Args:
        columns: The columns, in order.
        schema: The columns of the mirror.
        bound_bytes: Of memory, at most.
    """

    def __init__(self, columns: tuple[str, ...], schema: pa.Schema, bound_bytes: int = BOUND_BYTES) -> None:
        self._schema = names_of(schema, columns)
        self._bound = bound_bytes
        self._files: OrderedDict[str, _FileIndex] = OrderedDict()
        self._dead: dict[str, tuple[Vector, BitMap]] = {}
        self.held_bytes = 0

    def find(self, mirror: Mirror, wanted: Wanted) -> dict[str, BitMap]:
        """The rows of these keys, by data file.

        Raises:
            MirrorDivergedError: A key has fewer rows than it must have, or more.
            DamagedFileError: A file is gone or damaged.
            LakeUnavailableError: The storage does not answer.
        """
        if wanted.keys.num_rows == 0:
            return {}
        codes = self.codes(wanted.keys)
        asked, of_key = np.unique(codes, return_inverse=True)
        needed = np.zeros(len(asked), np.int64)
        np.add.at(needed, of_key, wanted.counts)
        files = list(mirror.snapshot.files.values())
        places = [self._candidates(mirror, at, file, asked) for at, file in enumerate(files)]
        found = np.concatenate(places, axis=1) if places else np.empty((3, 0), np.int64)
        there = np.bincount(found[0], minlength=len(asked))
        if (short := np.flatnonzero(there < needed)).size:
            raise _missing(mirror, wanted, of_key, int(short[0]))
        if (many := np.flatnonzero(there > needed)).size:
            found = self._compared(mirror, wanted, files, found, of_key, many)
        self._keep_live(mirror)
        return {files[at].path: BitMap(found[2][found[1] == at].astype(np.uint32)) for at in np.unique(found[1])}

    def find_known(self, mirror: Mirror, keys: pa.Table) -> dict[str, BitMap]:
        """The rows under those of the keys that the mirror has, by data file; rows of other keys may be among them."""
        asked = np.unique(self.codes(keys))
        found = {}
        for at, file in enumerate(mirror.snapshot.files.values()):
            rows = self._candidates(mirror, at, file, asked)[2]
            if rows.size:
                found[file.path] = BitMap(rows.astype(np.uint32))
        return found

    def codes(self, keys: pa.Table) -> Ints:
        """A number for each key: itself, or its hash."""
        columns = [keys[name].combine_chunks() for name in self._schema.names]
        if len(columns) == 1 and pa.types.is_integer(columns[0].type) and columns[0].null_count == 0:
            return np.asarray(columns[0].cast(pa.int64()).to_numpy(zero_copy_only=False))
        return hash_rows([pa.concat_arrays([one]) if one.offset else one for one in columns], keys.num_rows)

    def remember(self, file: LiveFile, keys: pa.Table) -> None:
        """Takes the keys of a file that was just written, which then need not be read."""
        self._hold(file.path, _FileIndex(self.codes(keys)))

    def dead(self, mirror: Mirror, file: LiveFile) -> BitMap:
        """Numbers of a file's dead rows; not to be changed."""
        if file.vector is None:
            return BitMap()
        known = self._dead.get(file.path)
        if known is None or known[0] != file.vector:
            known = self._dead[file.path] = file.vector, read_vector(mirror.url, file.vector)
        return known[1]

    def learn_dead(self, path: str, vector: Vector, dead: BitMap) -> None:
        """Takes a vector that was just written."""
        self._dead[path] = vector, dead

    def _candidates(self, mirror: Mirror, at: int, file: LiveFile, asked: Ints) -> Ints:
        """Live rows with one of the codes: the code's place in `asked`, the file's number, the row's number."""
        which, rows = self._file(mirror, file).find(asked)
        if file.vector is not None and rows.size:
            dead = BitMap(rows.astype(np.uint32)) & self.dead(mirror, file)
            if dead:
                alive = ~np.isin(rows, np.asarray(dead.to_array(), np.int64))
                which, rows = which[alive], rows[alive]
        return np.stack([which, np.full(len(rows), at, np.int64), rows])

    def _file(self, mirror: Mirror, file: LiveFile) -> _FileIndex:
        found = self._files.get(file.path)
        if found is None:
            parts = read_file_rows(mirror.url, file, self._schema, _NO_ROWS)
            codes = [self.codes(part) for part in parts]
            found = _FileIndex(np.concatenate(codes) if codes else _NO_ROWS)
            self._hold(file.path, found)
        else:
            self._files.move_to_end(file.path)
        return found

    def _hold(self, path: str, index: _FileIndex) -> None:
        if path in self._files:
            self.held_bytes -= self._files.pop(path).nbytes
        self._files[path] = index
        self.held_bytes += index.nbytes
        while self.held_bytes > self._bound and len(self._files) > 1:
            self.held_bytes -= self._files.popitem(last=False)[1].nbytes

    def _keep_live(self, mirror: Mirror) -> None:
        for path in self._files.keys() - mirror.snapshot.files.keys():
            self.held_bytes -= self._files.pop(path).nbytes
        for path in self._dead.keys() - mirror.snapshot.files.keys():
            del self._dead[path]

    def _compared(
        self, mirror: Mirror, wanted: Wanted, files: list[LiveFile], found: Ints, of_key: Ints, many: Ints
    ) -> Ints:
        """The rows without those that have the hash of a key, or more of the same, than are looked for."""
        is_open = np.isin(found[0], many)
        open_rows, asked = found[:, is_open], np.flatnonzero(np.isin(of_key, many))
        order = np.argsort(open_rows[1], kind="stable")
        open_rows = open_rows[:, order]
        parts = [
            wanted.keys.select(self._schema.names).take(pa.array(asked)),
            *(
                read_some_rows(mirror.url, files[at], self._schema, open_rows[2][open_rows[1] == at])
                for at in np.unique(open_rows[1])
            ),
        ]
        exact = row_codes(pa.concat_tables(parts))
        of_asked, of_rows = exact[: len(asked)], exact[len(asked) :]
        needed = np.zeros(exact.max() + 1, np.int64)
        needed[of_asked] = wanted.counts[asked]
        is_asked = np.zeros(len(needed), bool)
        is_asked[of_asked] = True
        there = np.bincount(of_rows, minlength=len(needed))
        wrong = is_asked & ((there > needed) if wanted.exact else (there < needed))
        wrong |= is_asked & (there < needed)
        if wrong.any():
            raise _wrong(mirror, wanted.keys, int(asked[np.flatnonzero(wrong[of_asked])[0]]))
        # Of equal rows those that come first die.
        by_code = np.argsort(of_rows, kind="stable")
        starts = np.searchsorted(of_rows[by_code], of_rows[by_code], side="left")
        rank = np.empty(len(of_rows), np.int64)
        rank[by_code] = np.arange(len(of_rows)) - starts
        return np.concatenate([found[:, ~is_open], open_rows[:, rank < needed[of_rows]]], axis=1)


class _FileIndex:
    """The codes of one file's keys, sorted, and the numbers of their rows."""

    def __init__(self, codes: Ints) -> None:
        ascending = bool(np.all(codes[:-1] <= codes[1:]))
        self._rows: NDArray[np.uint32] | None = None
        if not ascending:
            order = np.argsort(codes, kind="stable")
            codes, self._rows = codes[order], order.astype(np.uint32)
        self._codes = codes

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + (0 if self._rows is None else self._rows.nbytes)

    def find(self, asked: Ints) -> tuple[Ints, Ints]:
        """For codes in order: their places in `asked`, and numbers of rows, several for a code if there are."""
        if not len(self._codes):
            return _NO_ROWS, _NO_ROWS
        first, last = np.searchsorted(asked, [self._codes[0], self._codes[-1]])
        last += int(last < len(asked) and asked[last] == self._codes[-1])
        near = asked[first:last]
        low = np.searchsorted(self._codes, near, side="left")
        is_there = self._codes[np.minimum(low, len(self._codes) - 1)] == near
        which, low = np.flatnonzero(is_there), low[is_there]
        size = np.searchsorted(self._codes, near[which], side="right") - low
        if size.size and size.max() > 1:
            which, begin = np.repeat(which, size), np.repeat(low, size)
            ends = np.cumsum(size)
            low = begin + np.arange(len(begin)) - np.repeat(ends - size, size)
        rows = low if self._rows is None else self._rows[low].astype(np.int64)
        return which + first, rows


def _missing(mirror: Mirror, wanted: Wanted, of_key: Ints, code: int) -> MirrorDivergedError:
    asked = np.flatnonzero((of_key == code) & (wanted.counts > 0))
    return _wrong(mirror, wanted.keys, int(asked[0]))


def _wrong(mirror: Mirror, keys: pa.Table, at: int) -> MirrorDivergedError:
    shown = ", ".join(f"{name} = {str(keys[name][at])[:40]}" for name in keys.schema.names[:4])
    return MirrorDivergedError(
        f"a change does not fit the mirror's rows at {shown}",
        source=mirror.source,
        table=str(mirror.table),
        file=mirror.url,
        remedy=f"`strata mirror verify --source {mirror.source} --table {mirror.table}` compares it; `strata dump` "
        "reads the table again.",
    )
