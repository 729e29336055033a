"""Gathers cells of text and bytes: each class fills one Arrow array from a column's cells.
Not here: numbers (`gather.py`), JSON (`gather_json.py`), tables of charsets (`charset.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.binlog.kernels import strings
from strata_cdc.binlog.kernels.charsets import ALIASED, BAD, MOST_GROWTH, UCS2, transcode
from strata_cdc.binlog.kernels.layout import ABSENT_CELL, NULL_CELL
from strata_cdc.binlog.kernels.numbers import gather_4, gather_little_endian
from strata_cdc.changes.arrow import GEOMETRY, VECTOR
from strata_cdc.changes.faults import CorruptCell, FaultKind, Faults
from strata_cdc.changes.gather import LONGEST_DATA, validity

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, CodePoints, Ints, Offsets
    from strata_cdc.changes.region import Region


_SOME_CELL = 2
"""A cell that is neither NULL nor absent."""
_SRID_BYTES = 4


def text_array(kind: pa.DataType, cells: Cells, offsets: Offsets, data: Bytes, bad: Bytes | None = None) -> pa.Array:
    """An array of variable width."""
    bitmap, nulls = validity(cells, bad)
    return pa.Array.from_buffers(kind, len(cells), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def checked_length(total: int) -> int:
    """Returns `total`, the bytes of an array's data, if an array allows so many.

    Raises:
        CorruptCell: The data is larger than 2 GiB.
    """
    if total > LONGEST_DATA:
        raise CorruptCell(0, "one column of one batch has more than 2 GiB of data")
    return total


def copied(region: Region, cells: Cells, prefix: int, skip: int = 0) -> tuple[Offsets, Bytes]:
    """Offsets and bytes of values as they are, without their first `skip` bytes."""
    offsets = np.empty(len(cells) + 1, np.int32)
    total = checked_length(int(strings.string_offsets(region.buffer, region.base, cells, prefix, skip, offsets)))
    data = np.empty(total, np.uint8)
    strings.copy_strings(region.buffer, region.base, cells, prefix, skip, offsets, data)
    return offsets, data


class GatherBytes(Struct, frozen=True):
    """VARBINARY and BLOB."""

    prefix: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`."""
        return text_array(pa.binary(), cells, *copied(region, cells, self.prefix))


class GatherPadded(Struct, frozen=True):
    """BINARY(width)."""

    prefix: int
    width: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        data = np.empty(checked_length(self.width * len(cells)), np.uint8)
        offsets = np.empty(len(cells) + 1, np.int32)
        bad = np.zeros(len(cells), np.uint8)
        wrong = strings.copy_padded(region.buffer, region.base, cells, self.prefix, self.width, offsets, data, bad)
        if wrong:
            faults.add_cells(region, cells, bad, -self.prefix, f"a BINARY({self.width}) is longer than that")
        return text_array(pa.binary(), cells, offsets, data, bad if wrong else None)


class GatherFixedBytes(Struct, frozen=True):
    """UUID, INET4 and INET6 of MariaDB, a BINARY(width) of which a SELECT gives a text."""

    prefix: int
    width: int
    longest: int
    """Bytes of the longest text."""
    texts: Callable[[Bytes, Offsets, Offsets, Bytes], int]

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        values = GatherPadded(self.prefix, self.width)(region, cells, faults)
        _, sizes, data = values.buffers()
        count = len(cells)
        offsets, out = np.empty(count + 1, np.int32), np.empty(checked_length(self.longest * count), np.uint8)
        used = self.texts(np.frombuffer(data, np.uint8), np.frombuffer(sizes, np.int32), offsets, out)
        bitmap = values.buffers()[0]
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(out[:used])]
        return pa.Array.from_buffers(pa.string(), count, buffers, values.null_count)


class GatherUtf8(Struct, frozen=True):
    """Text in UTF-8."""

    prefix: int
    charset: str

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        offsets, data = copied(region, cells, self.prefix)
        bad: Bytes | None = None
        if not strings.all_ascii(data):
            marks = np.zeros(len(cells), np.uint8)
            if strings.find_bad_utf8(data, offsets, marks):
                bad = marks
                _note_undecodable(region, cells, bad, self.prefix, faults, self.charset)
                offsets, data = without(offsets, data, bad)
        return text_array(pa.string(), cells, offsets, data, bad)


def _note_undecodable(region: Region, cells: Cells, bad: Bytes, prefix: int, faults: Faults, charset: str) -> None:
    faults.add_cells(region, cells, bad, -prefix, f"not text in {charset}", FaultKind.UNDECODABLE)


def without(offsets: Offsets, data: Bytes, bad: Bytes) -> tuple[Offsets, Bytes]:
    """Offsets and bytes, without the values that are marked in `bad`: Arrow requires well-formed text also where a
    value is NULL."""
    sizes = np.diff(offsets)
    kept = np.repeat(bad == 0, sizes)
    sizes[bad != 0] = 0
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int32), data[kept]


class GatherText(Struct, frozen=True, eq=False):
    """Text in any other charset."""

    prefix: int
    charset: str
    family: int
    table: CodePoints

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`; the bytes of a text that is not in its usual form are noted in `faults`."""
        offsets, data = copied(region, cells, self.prefix)
        if self._has_ascii and strings.all_ascii(data):
            return text_array(pa.string(), cells, offsets, data)
        data = np.empty(checked_length(len(data) * MOST_GROWTH), np.uint8)
        marks = np.zeros(len(cells), np.uint8)
        charset = (self.family, self.table)
        used = transcode(region.buffer, region.base, cells, self.prefix, charset, offsets, data, marks)
        if not marks.any():
            return text_array(pa.string(), cells, offsets, data[:used])
        faults.add_forms(region, cells, marks == ALIASED, -self.prefix)
        bad = (marks == BAD).astype(np.uint8)
        _note_undecodable(region, cells, bad, self.prefix, faults, self.charset)
        return text_array(pa.string(), cells, offsets, data[:used], bad)

    @property
    def _has_ascii(self) -> bool:
        """Whether bytes below 0x80 are ASCII, and no byte below 0x80 begins a longer character."""
        return self.family < UCS2 and bool((self.table[:128] == np.arange(128)).all())


class Labels(Struct, frozen=True, eq=False):
    """Texts that are selected by number."""

    starts: Ints
    text: Bytes

    @classmethod
    def from_labels(cls, labels: tuple[str, ...]) -> Labels:
        """Packs labels."""
        encoded = [label.encode() for label in labels]
        starts = np.concatenate(([0], np.cumsum([len(label) for label in encoded], dtype=np.int64)))
        return cls(starts.astype(np.int64), np.frombuffer(bytearray(b"".join(encoded)), np.uint8))

    def chosen(self, numbers: Ints) -> pa.Array:
        """The texts with these numbers, counted from 1; 0 is the empty text."""
        # Without Arrow's functions: the first one that gets a NumPy array imports pandas.
        count = len(numbers)
        offsets = np.empty(count + 1, np.int32)
        there = np.full(count, _SOME_CELL, np.uint32)
        size = strings.label_offsets(numbers, there, self.starts, offsets, np.zeros(count, np.uint8))
        data = np.empty(int(size), np.uint8)
        strings.copy_labels(numbers, self.starts, self.text, offsets, data)
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)


class GatherLabels(Struct, frozen=True, eq=False):
    """ENUM and SET, by the labels of the schema version."""

    size: int
    labels: Labels
    measure: Callable[[Ints, Cells, Ints, Offsets, Bytes], int]
    copy: Callable[[Ints, Ints, Bytes, Offsets, Bytes], None]
    ambiguous: Callable[[Ints], NDArray[np.bool_]] | None = None
    """Which numbers have the same text as another number; None if there are none."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`; a number with the text of another number keeps its text, and is noted in `faults`."""
        values = np.empty(len(cells), np.int64)
        gather_little_endian(region.buffer, region.base, cells, self.size, values)
        offsets = np.empty(len(cells) + 1, np.int32)
        bad = np.zeros(len(cells), np.uint8)
        starts = self.labels.starts
        data = np.empty(checked_length(int(self.measure(values, cells, starts, offsets, bad))), np.uint8)
        self.copy(values, starts, self.labels.text, offsets, data)
        if self.ambiguous is not None:
            for at in np.flatnonzero(self.ambiguous(values) & (cells > ABSENT_CELL) & (bad == 0)).tolist():
                faults.add(at, str(values[at]), FaultKind.INVALID, "a number whose text another one has")
        if not bad.any():
            return text_array(pa.string(), cells, offsets, data)
        for row in np.flatnonzero(bad):
            reason = f"a number that none of the {len(starts) - 1} labels has"
            faults.add(int(row), str(values[row]), FaultKind.UNDECODABLE, reason)
        return text_array(pa.string(), cells, offsets, data, bad)


def gather_enum(size: int, labels: tuple[str, ...]) -> GatherLabels:
    """ENUM in `size` bytes: the number of a label, 0 for the empty text of an invalid value."""
    same = _same_texts(labels)
    numbers = np.array([*([0] if "" in labels else []), *(at + 1 for at in same)], np.int64)
    ambiguous = (lambda values: np.isin(values, numbers)) if len(numbers) else None
    return GatherLabels(size, Labels.from_labels(labels), strings.label_offsets, strings.copy_labels, ambiguous)


def gather_set(size: int, labels: tuple[str, ...]) -> GatherLabels:
    """SET in `size` bytes: a bit for each label."""
    # Its number has 64 bits, and is signed here.
    members = np.uint64(sum(1 << at for at in _same_texts(labels))).astype(np.int64)
    has_empty = "" in labels
    empty = np.uint64(1 << labels.index("") if has_empty else 0).astype(np.int64)

    def ambiguous(values: Ints) -> NDArray[np.bool_]:
        # An empty label before all others shows nothing, nor do no labels.
        is_hidden = ((values & -values) == empty) & (values != empty)
        mask: NDArray[np.bool_] = ((values & members) != 0) | ((values == 0) & has_empty) | is_hidden
        return mask

    is_needed = bool(members) or has_empty
    return GatherLabels(
        size, Labels.from_labels(labels), strings.set_offsets, strings.copy_sets, ambiguous if is_needed else None
    )


def _same_texts(labels: tuple[str, ...]) -> list[int]:
    """Positions of the labels that are equal to an earlier label: without strict mode a table may have such labels."""
    return [at for at, label in enumerate(labels) if labels.index(label) < at]


class GatherGeometry(Struct, frozen=True):
    """GEOMETRY and its subtypes: four bytes of SRID, then WKB."""

    prefix: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        sizes = np.empty(len(cells) + 1, np.int32)
        strings.string_offsets(region.buffer, region.base, cells, self.prefix, 0, sizes)
        bad = ((np.diff(sizes) < _SRID_BYTES) & (cells > ABSENT_CELL)).astype(np.uint8)
        if bad.any():
            faults.add_cells(region, cells, bad, -self.prefix, "a GEOMETRY is too short")
            cells = np.where(bad != 0, np.uint32(NULL_CELL), cells)
        offsets, data = copied(region, cells, self.prefix, skip=_SRID_BYTES)
        wkb = text_array(pa.binary(), cells, offsets, data)
        srids = np.zeros(len(cells), np.int32)
        there = np.where(cells > 1, cells + np.uint32(self.prefix), cells)
        gather_4(region.buffer, region.base, there, 0x80000000, srids)
        bitmap, nulls = validity(cells)
        srid = pa.Array.from_buffers(pa.int32(), len(cells), [bitmap, pa.py_buffer(srids)], nulls)
        return pa.Array.from_buffers(GEOMETRY, len(cells), [bitmap], nulls, children=[srid, wkb])


class GatherVector(Struct, frozen=True):
    """VECTOR: 32-bit floats in little-endian order."""

    prefix: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        offsets, data = copied(region, cells, self.prefix)
        bad: Bytes | None = None
        if (offsets & 3).any():
            bad = (np.diff(offsets) & 3 != 0).astype(np.uint8)
            faults.add_cells(region, cells, bad, -self.prefix, "a VECTOR is not made of whole floats")
            offsets, data = without(offsets, data, bad)
        floats = pa.Array.from_buffers(pa.float32(), len(data) >> 2, [None, pa.py_buffer(data)], 0)
        bitmap, nulls = validity(cells, bad)
        return pa.Array.from_buffers(VECTOR, len(cells), [bitmap, pa.py_buffer(offsets >> 2)], nulls, children=[floats])
