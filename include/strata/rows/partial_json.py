"""Partial updates of JSON: the after image rebuilt from the before image and the logged differences.
Not here: whole documents (`gather_json.py`).

Format: `sql-common/json_diff.cc` (8.0.3). Documents are rebuilt from their texts: numbers and other scalars stay as the
server prints them.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from strata.errors import CorruptEventError
from strata.events.arrow_columns import to_texts
from strata.kernels.layout import ABSENT_CELL, NULL_CELL
from strata.rows.faults import CorruptCell, FaultKind, Faults
from strata.rows.gather_json import GatherJson
from strata.rows.region import MARGIN, Region
from strata.wire.cursor import Cursor

if TYPE_CHECKING:
    import pyarrow as pa

    from strata.kernels.arrays import Cells, Ints

_PREFIX_BYTES = 4
_LEG = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\[]+)|\[(\d+)\]')


class _Operation(IntEnum):
    REPLACE = 0
    INSERT = 1
    REMOVE = 2


class _Number(str):
    """A number as it is printed."""

    __slots__ = ()


class Difference(Struct, frozen=True):
    """One change of a document."""

    operation: _Operation
    path: str
    value: str | None
    """JSON text; None for a removal."""


class GatherPartialJson(Struct, frozen=True, eq=False):
    """The JSON column number `ordinal` of a batch in which some rows are partial updates.

    A partial value whose before image lacks the column cannot be rebuilt: it is NULL, and a fault has its differences
    as text. Where there are none, it did not change, and its cell is marked as absent.
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
        for row in rows[lost].tolist():
            found = self._differences(region, cells, row)
            if found:
                faults.add(row, differences_text(found), FaultKind.INVALID, "the log has only what changed")
            else:
                cells[row] = ABSENT_CELL
        texts = GatherJson(_PREFIX_BYTES)(region, whole, faults).to_pylist()
        rows = rows[~lost]
        olds = GatherJson(_PREFIX_BYTES)(region, self.before[rows], faults).to_pylist()
        for row, old in zip(rows.tolist(), olds, strict=True):
            found = self._differences(region, cells, row)
            try:
                texts[row] = rebuilt(old, found)
            except (LookupError, ValueError, TypeError):
                raise CorruptCell(row, "a partial update of JSON does not fit its document") from None
        return to_texts(texts)

    def _differences(self, region: Region, cells: Cells, row: int) -> list[Difference]:
        try:
            return _differences(region, int(cells[row]))
        except (CorruptEventError, LookupError, ValueError, TypeError):
            raise CorruptCell(row, "a partial update of JSON cannot be read") from None

    def _partial_rows(self, region: Region, cells: Cells) -> np.ndarray[Any, np.dtype[np.intp]]:
        rows = np.flatnonzero((self.partial > 0) & (cells > ABSENT_CELL))
        bits = region.buffer[self.partial[rows] + (self.ordinal >> 3)] >> (self.ordinal & 7) & 1
        return np.asarray(rows[bits == 1])


def _differences(region: Region, cell: int) -> list[Difference]:
    size = int.from_bytes(region.cell(cell, _PREFIX_BYTES), "little")
    cursor = Cursor(region.cell(cell + _PREFIX_BYTES, size))
    found = []
    while cursor.left():
        operation = _Operation(cursor.uint(1))
        path = cursor.text(cursor.lenenc())
        value = None if operation == _Operation.REMOVE else _text(cursor.take(cursor.lenenc()))
        found.append(Difference(operation, path, value))
    return found


def _text(binary: bytes) -> str:
    """The text of one document."""
    cell = len(binary).to_bytes(_PREFIX_BYTES, "little") + binary
    region = Region(np.frombuffer(bytearray(cell), np.uint8), -MARGIN)
    return str(GatherJson(_PREFIX_BYTES)(region, np.array([MARGIN], np.uint32), Faults())[0].as_py())


def differences_text(differences: list[Difference]) -> str:
    """As `_invalid` has them: `[{"op": "replace", "path": "$.a", "value": 1}]`, with MySQL's paths, in order."""
    parts = (
        f'{{"op": "{_Operation(each.operation).name.lower()}", "path": {json.dumps(each.path, ensure_ascii=False)}'
        + (f', "value": {each.value}}}' if each.value is not None else "}")
        for each in differences
    )
    return f"[{', '.join(parts)}]"


def differences_of(text: str) -> list[Difference]:
    """What `differences_text` has written."""
    return [
        Difference(_Operation[each["op"].upper()], each["path"], _dumps(each["value"]) if "value" in each else None)
        for each in _loads(text)
    ]


def rebuilt(document: str, differences: list[Difference]) -> str:
    """A document's text after its differences have been applied in order.

    Raises:
        LookupError: A path leads nowhere.
        ValueError: A path is not understood.
        TypeError: A path goes on where there is no container.
    """
    root = [_loads(document)]
    for difference in differences:
        _apply(root, difference)
    return _dumps(root[0])


def _apply(root: list[Any], difference: Difference) -> None:
    parent: Any = root
    leg: int | str = 0
    for following in _legs(difference.path):
        child = parent[leg]
        # `[0]` of what is no array means the value itself (sql-common/json_dom.cc, auto-wrapping).
        if isinstance(following, int) and not isinstance(child, list):
            if following != 0:
                raise LookupError(f"path {difference.path}")
            continue
        parent, leg = child, following
    if difference.operation == _Operation.REMOVE:
        del parent[leg]
    elif difference.operation == _Operation.INSERT:
        if isinstance(parent, list):
            parent.insert(int(leg), _loads(difference.value or ""))
        else:
            parent[leg] = _loads(difference.value or "")
    else:
        _ = parent[leg]
        parent[leg] = _loads(difference.value or "")


def _legs(path: str) -> list[int | str]:
    found: list[int | str] = []
    at = 1
    while at < len(path):
        leg = _LEG.match(path, at)
        if leg is None:
            raise ValueError(f"path {path}")
        name, index = leg.groups()
        if index is not None:
            found.append(int(index))
        else:
            found.append(json.loads(name) if name.startswith('"') else name)
        at = leg.end()
    return found


def _loads(text: str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number, strict=False)


def _dumps(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        # Stored objects are ordered by the length of the key in bytes, then by its bytes (Json_key_comparator).
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        members = (f"{json.dumps(key, ensure_ascii=False)}: {_dumps(value[key])}" for key in keys)
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_dumps(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
