"""Finds the row of a key: its data file, and its number in it. A cache, made from the key columns of the files.
Not here: which keys change (`reduce.py`), which rows are dead (`vectors.py`).

A data file never changes, so what is known of it stays true. A key of one integer is its own code; other keys are
hashed to codes of 64 bits. No row is lost if two keys have the same hash: the number of live rows with a hash is
compared with the number of rows that are needed, and if these differ, the keys themselves are read and compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyroaring import BitMap

from strata_cdc.changes.row_hashes import hash_rows
from strata_cdc.errors import MirrorDivergedError
from strata_cdc.mirrors.data_files import names_of, read_file_rows, read_some_rows
from strata_cdc.mirrors.known_files import KnownFiles
from strata_cdc.mirrors.made_again import MADE_AGAIN
from strata_cdc.mirrors.vectors import read_vector
from strata_cdc.schema.history.shell_words import pattern_word
from strata_cdc.tables.distinct import distinct
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.verbatim import column_of_verbatim

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata_cdc.mirrors.actions import LiveFile
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.mirrors.vectors import StoredVector

    Ints = NDArray[np.int64]

BOUND_BYTES: Final = 384 << 20
"""Bound of the memory of an index."""
_NO_ROWS: Final = np.empty(0, np.int64)


class KeyLookup(Struct, frozen=True):
    """Keys that are looked up; each once."""

    keys: pa.Table
    counts: Ints
    """How many rows each key must have: 0 if there must be none."""
    exact: bool
    """Whether more rows are an error."""


class KeyIndex:
    """Finds rows of one mirror by the values of some columns. Its content may be lost at any time.

    Args:
        columns: The columns, in order.
        schema: The columns of the mirror.
        bound_bytes: Bound of its memory.
    """

    def __init__(self, columns: tuple[str, ...], schema: pa.Schema, bound_bytes: int = BOUND_BYTES) -> None:
        self._schema = names_of(schema, columns)
        self._known = KnownFiles(bound_bytes)
        self._dead: dict[str, tuple[StoredVector, BitMap]] = {}

    def find(self, mirror: Mirror, wanted: KeyLookup) -> dict[str, BitMap]:
        """The rows with these keys, by data file.

        Raises:
            MirrorDivergedError: A key has too few rows, or too many.
            DamagedFileError: A file is gone or damaged.
            LakeUnavailableError: The storage does not answer.
        """
        if wanted.keys.num_rows == 0:
            return {}
        codes = self.codes(wanted.keys)
        requested, of_key, needed = _together(codes, wanted.counts)
        files = list(mirror.snapshot.files.values())
        matched = self._candidates(mirror, files, requested)
        there = np.bincount(matched[0], minlength=len(requested))
        if (short := np.flatnonzero(there < needed)).size:
            raise _missing(mirror, wanted, of_key, int(short[0]))
        if (many := np.flatnonzero(there > needed)).size:
            matched = self._compared(mirror, wanted, files, matched, of_key, many)
        self._keep_live(mirror)
        return _by_file(files, matched)

    def find_known(self, mirror: Mirror, keys: pa.Table) -> dict[str, BitMap]:
        """The mirror's rows that have one of the keys, by data file; rows of other keys may be among them."""
        requested = distinct(self.codes(keys))
        files = list(mirror.snapshot.files.values())
        return _by_file(files, self._candidates(mirror, files, requested))

    def codes(self, keys: pa.Table) -> Ints:
        """A code for each key: the key itself, or its hash."""
        columns = [keys[name].combine_chunks() for name in self._schema.names]
        if len(columns) == 1 and pa.types.is_integer(columns[0].type) and columns[0].null_count == 0:
            return np.asarray(columns[0].cast(pa.int64()).to_numpy(zero_copy_only=False))
        return hash_rows([pa.concat_arrays([column]) if column.offset else column for column in columns], keys.num_rows)

    def remember(self, file: LiveFile, keys: pa.Table) -> None:
        """Takes the keys of a file that was just written, so that they need not be read."""
        self._known.hold(file.path, self.codes(keys))

    def dead(self, mirror: Mirror, file: LiveFile) -> BitMap:
        """Numbers of a file's dead rows; the caller must not change them."""
        if file.vector is None:
            return BitMap()
        known = self._dead.get(file.path)
        if known is None or known[0] != file.vector:
            known = self._dead[file.path] = file.vector, read_vector(mirror.url, file.vector)
        return known[1]

    def learn_dead(self, path: str, vector: StoredVector, dead: BitMap) -> None:
        """Takes a vector that was just written."""
        self._dead[path] = vector, dead

    def _candidates(self, mirror: Mirror, files: list[LiveFile], requested: Ints) -> Ints:
        """Live rows with one of the codes: index of the code in `requested`, numbers of the file and of the row."""
        numbers = {file.path: at for at, file in enumerate(files)}
        parts = [np.empty((3, 0), np.int64)]
        searched: set[str] = set()
        for file in files:
            if file.path not in searched:
                # The segment may be dropped when the next one is loaded: it is searched at once.
                segment = self._known.get(file.path) or self._known.hold(file.path, self._read(mirror, file))
                parts.append(
                    segment.find(requested, [-1 if p in searched else numbers.get(p, -1) for p in segment.paths])
                )
                searched.update(segment.paths)
        matched = np.concatenate(parts, axis=1)
        is_live = matched[1] >= 0
        for at in np.flatnonzero(np.bincount(matched[1][is_live])):
            file, of_file = files[at], matched[1] == at
            dead = BitMap(matched[2][of_file].astype(np.uint32)) & self.dead(mirror, file) if file.vector else None
            if dead:
                is_live[of_file] &= ~np.isin(matched[2][of_file], np.asarray(dead.to_array(), np.int64))
        return matched[:, is_live]

    def _read(self, mirror: Mirror, file: LiveFile) -> Ints:
        parts = read_file_rows(mirror.url, file, self._schema, _NO_ROWS)
        return np.concatenate([_NO_ROWS, *(self.codes(part) for part in parts)])

    def _keep_live(self, mirror: Mirror) -> None:
        self._known.keep(mirror.snapshot.files.keys())
        for path in self._dead.keys() - mirror.snapshot.files.keys():
            del self._dead[path]

    def _compared(
        self, mirror: Mirror, wanted: KeyLookup, files: list[LiveFile], matched: Ints, of_key: Ints, many: Ints
    ) -> Ints:
        """The rows, without those that only share a key's hash, and without more equal rows than needed."""
        is_open = np.isin(matched[0], many)
        open_rows, requested = matched[:, is_open], np.flatnonzero(np.isin(of_key, many))
        order = np.argsort(open_rows[1], kind="stable")
        open_rows = open_rows[:, order]
        parts = [
            wanted.keys.select(self._schema.names).take(pa.array(requested)),
            *(
                read_some_rows(mirror.url, files[at], self._schema, open_rows[2][open_rows[1] == at])
                for at in np.flatnonzero(np.bincount(open_rows[1]))
            ),
        ]
        exact = row_codes(pa.concat_tables(parts))
        of_requested, of_rows = exact[: len(requested)], exact[len(requested) :]
        needed = np.zeros(exact.max() + 1, np.int64)
        needed[of_requested] = wanted.counts[requested]
        is_requested = np.zeros(len(needed), bool)
        is_requested[of_requested] = True
        there = np.bincount(of_rows, minlength=len(needed))
        wrong = is_requested & ((there > needed) if wanted.exact else (there < needed))
        wrong |= is_requested & (there < needed)
        if wrong.any():
            raise _wrong(mirror, wanted.keys, int(requested[np.flatnonzero(wrong[of_requested])[0]]))
        # Of equal rows, the first ones are deleted.
        by_code = np.argsort(of_rows, kind="stable")
        starts = np.searchsorted(of_rows[by_code], of_rows[by_code], side="left")
        rank = np.empty(len(of_rows), np.int64)
        rank[by_code] = np.arange(len(of_rows)) - starts
        return np.concatenate([matched[:, ~is_open], open_rows[:, rank < needed[of_rows]]], axis=1)


def _together(codes: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Each code once, ascending; for each key the index of its code; how many rows each code must have."""
    if np.all(codes[1:] > codes[:-1]):
        return codes, np.arange(len(codes)), counts
    codes_once, of_key = np.unique(codes, return_inverse=True)
    return codes_once, of_key, np.bincount(of_key, counts, len(codes_once)).astype(np.int64)


def _by_file(files: list[LiveFile], matched: Ints) -> dict[str, BitMap]:
    order = np.argsort(matched[1], kind="stable")
    numbers, rows = matched[1][order], matched[2][order].astype(np.uint32)
    which = np.flatnonzero(np.bincount(numbers))
    starts, ends = (np.searchsorted(numbers, which, side=side) for side in ("left", "right"))
    return {
        files[at].path: BitMap(rows[start:end]) for at, start, end in zip(which.tolist(), starts, ends, strict=True)
    }


def _missing(mirror: Mirror, wanted: KeyLookup, of_key: Ints, code: int) -> MirrorDivergedError:
    requested = np.flatnonzero((of_key == code) & (wanted.counts > 0))
    return _wrong(mirror, wanted.keys, int(requested[0]))


def _wrong(mirror: Mirror, keys: pa.Table, at: int) -> MirrorDivergedError:
    own = [name for name in keys.schema.names if column_of_verbatim(name) is None]
    texts = {column_of_verbatim(name): keys[name][at].as_py() for name in keys.schema.names}
    shown = ", ".join(f"{name} = {str(texts.get(name) or keys[name][at])[:40]}" for name in own[:4])
    return MirrorDivergedError(
        f"a change does not fit the mirror's rows at {shown}",
        source=mirror.source,
        table=str(mirror.table),
        file=mirror.url,
        remedy=f"`strata mirror verify --source {mirror.source} --table {pattern_word(mirror.table)}` compares it. To "
        f"have it right, {MADE_AGAIN}",
    )
