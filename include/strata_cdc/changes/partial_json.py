"""Partial updates of JSON: rebuilds the after image from the before image and the logged differences.
Not here: whole documents (`gather_json.py`).

Format: `sql-common/json_diff.cc` (8.0.3). Documents are rebuilt from their texts, so numbers and other scalars stay
as the server prints them.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from strata_cdc.arrow_columns import to_texts
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.binlog.kernels.layout import ABSENT_CELL, NULL_CELL
from strata_cdc.changes.faults import FaultKind, Faults
from strata_cdc.changes.gather_json import GatherJson
from strata_cdc.changes.region import MARGIN, Region
from strata_cdc.errors import CorruptEventError

if TYPE_CHECKING:
    import pyarrow as pa

    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Ints

_PREFIX_BYTES = 4
_UNFIT: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What is raised for a damaged difference, or for one whose path does not exist in its document."""
_LEG = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\[]+)|\[(?:(\d+)|last(?:-(\d+))?)\]')


class _DiffOperation(IntEnum):
    REPLACE = 0
    INSERT = 1
    REMOVE = 2


class _NumberText(str):
    """A number, as it is printed."""

    __slots__ = ()


class JsonDiff(Struct, frozen=True):
    """One change of a document."""

    operation: _DiffOperation
    path: str
    value: str | None
    """JSON text; None for a removal."""


class GatherPartialJson(Struct, frozen=True, eq=False):
    """The JSON column number `ordinal` of a batch in which some rows are partial updates.

    A partial value cannot be rebuilt if the before image lacks the column: it is NULL, and a fault has its differences
    as text. If it has no differences, it did not change, and its cell is marked as absent.
    """

    ordinal: int
    before: Cells
    partial: Ints
    """Per row the offset of the partial bits in the region's buffer; 0 if there are none."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        rows = self._partial_rows(region, cells)
        lost = self.before[rows] == ABSENT_CELL
        whole = cells.copy()
        whole[rows] = NULL_CELL
        unread = np.zeros(len(cells), np.uint8)
        for row in rows[lost].tolist():
            diffs = self._differences(region, cells, row, unread)
            if diffs:
                faults.add(row, differences_text(diffs), FaultKind.INVALID, "the log has only what changed")
            elif not unread[row]:
                cells[row] = ABSENT_CELL
        texts = GatherJson(_PREFIX_BYTES)(region, whole, faults).to_pylist()
        rows = rows[~lost]
        # Their faults are noted for the before image.
        olds = GatherJson(_PREFIX_BYTES)(region, self.before[rows], Faults()).to_pylist()
        unfit = np.zeros(len(cells), np.uint8)
        for row, old in zip(rows.tolist(), olds, strict=True):
            diffs = self._differences(region, cells, row, unread)
            try:
                texts[row] = rebuilt(old, diffs)
            except _UNFIT:
                unfit[row] = 1 - unread[row]
        for bad, reason in ((unread, "cannot be read"), (unfit, "does not fit its document")):
            faults.add_cells(region, cells, bad, -_PREFIX_BYTES, f"a partial update of JSON {reason}")
        return to_texts(texts)

    @staticmethod
    def _differences(region: Region, cells: Cells, row: int, unread: Bytes) -> list[JsonDiff]:
        """The differences of a row; none if they cannot be read, which is marked in `unread`."""
        try:
            return _differences(region, int(cells[row]))
        except (CorruptEventError, *_UNFIT):
            unread[row] = 1
            return []

    def _partial_rows(self, region: Region, cells: Cells) -> np.ndarray[Any, np.dtype[np.intp]]:
        rows = np.flatnonzero((self.partial > 0) & (cells > ABSENT_CELL))
        bits = region.buffer[self.partial[rows] + (self.ordinal >> 3)] >> (self.ordinal & 7) & 1
        return np.asarray(rows[bits == 1])


def _differences(region: Region, cell: int) -> list[JsonDiff]:
    size = int.from_bytes(region.cell(cell, _PREFIX_BYTES), "little")
    cursor = ByteCursor(region.cell(cell + _PREFIX_BYTES, size))
    differences = []
    while cursor.left():
        operation = _DiffOperation(cursor.uint(1))
        path = cursor.text(cursor.lenenc())
        value = None if operation == _DiffOperation.REMOVE else _text(cursor.next_bytes(cursor.lenenc()))
        differences.append(JsonDiff(operation, path, value))
    return differences


def _text(binary: bytes) -> str:
    """The text of one document.

    Raises:
        ValueError: The document cannot be read.
    """
    cell = len(binary).to_bytes(_PREFIX_BYTES, "little") + binary
    region = Region(np.frombuffer(bytearray(cell), np.uint8), -MARGIN)
    faults = Faults()
    text = GatherJson(_PREFIX_BYTES)(region, np.array([MARGIN], np.uint32), faults)[0].as_py()
    if faults.found:
        raise ValueError(faults.found[0].reason)
    return str(text)


def differences_text(differences: list[JsonDiff]) -> str:
    """Differences as in `_invalid`: `[{"op": "replace", "path": "$.a", "value": 1}]`, with MySQL's paths, in order."""
    parts = (
        f'{{"op": "{_DiffOperation(each.operation).name.lower()}", "path": {json.dumps(each.path, ensure_ascii=False)}'
        + (f', "value": {each.value}}}' if each.value is not None else "}")
        for each in differences
    )
    return f"[{', '.join(parts)}]"


def differences_of(text: str) -> list[JsonDiff]:
    """Reads the text that `differences_text` has written."""
    return [
        JsonDiff(_DiffOperation[each["op"].upper()], each["path"], _dumps(each["value"]) if "value" in each else None)
        for each in _loads(text)
    ]


def rebuilt(document: str, differences: list[JsonDiff]) -> str:
    """A document's text after its differences have been applied in order.

    Raises:
        LookupError: A path does not exist.
        ValueError: A path cannot be parsed.
        TypeError: A path continues into a value that is not a container.
    """
    root = [_loads(document)]
    for difference in differences:
        _apply(root, difference)
    return _dumps(root[0])


def _apply(root: list[Any], difference: JsonDiff) -> None:
    parent: Any = root
    leg: int | str = 0
    for following in _legs(difference.path):
        child = parent[leg]
        # `[0]` or `[last]` of a value that is not an array means the value itself (Json_path_leg::is_autowrap).
        if isinstance(following, int) and not isinstance(child, list):
            if following not in {0, -1}:
                raise LookupError(f"path {difference.path}")
            continue
        parent, leg = child, following
    if difference.operation == _DiffOperation.REMOVE:
        del parent[leg]
    elif difference.operation == _DiffOperation.INSERT:
        if isinstance(parent, list):
            parent.insert(int(leg), _loads(difference.value or ""))
        else:
            parent[leg] = _loads(difference.value or "")
    else:
        _ = parent[leg]
        parent[leg] = _loads(difference.value or "")


def _legs(path: str) -> list[int | str]:
    """Names of members, and indexes; indexes from the end are below 0, as in Python."""
    legs: list[int | str] = []
    at = 1
    while at < len(path):
        leg = _LEG.match(path, at)
        if leg is None:
            raise ValueError(f"path {path}")
        name, index, from_last = leg.groups()
        if name is not None:
            legs.append(json.loads(name) if name.startswith('"') else name)
        else:
            legs.append(int(index) if index is not None else -1 - int(from_last or 0))
        at = leg.end()
    return legs


def _loads(text: str) -> Any:
    return json.loads(text, parse_int=_NumberText, parse_float=_NumberText, strict=False)


def _dumps(value: Any) -> str:
    if isinstance(value, _NumberText):
        return str(value)
    if isinstance(value, dict):
        # Stored objects are ordered by the length of the key in bytes, then by its bytes (Json_key_comparator).
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        members = (f"{json.dumps(key, ensure_ascii=False)}: {_dumps(value[key])}" for key in keys)
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_dumps(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
