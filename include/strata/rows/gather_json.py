"""Gathers JSON cells: binary JSON to the server's text.
Not here: the format (`kernels/jsonb.py`), partial updates (`partial_json.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata.kernels import strings
from strata.kernels.doubles import POWERS
from strata.kernels.json_values import BASE64
from strata.kernels.jsonb import FRAME_FIELDS, MOST_DEPTH, gather_json
from strata.kernels.status import CORRUPT, FULL
from strata.rows.faults import CorruptCell, Faults
from strata.rows.gather import LONGEST_DATA
from strata.rows.gather_text import text_array

if TYPE_CHECKING:
    from strata.kernels.arrays import Cells
    from strata.rows.region import Region

_ROOM = 256
"""Bytes above twice the binary form that a text gets at first."""


class GatherJson(Struct, frozen=True):
    """JSON as the text that the server prints."""

    prefix: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`."""
        offsets = np.empty(len(cells) + 1, np.int32)
        binary = int(strings.string_offsets(region.buffer, region.base, cells, self.prefix, 0, offsets))
        out = np.empty(2 * binary + _ROOM, np.uint8)
        frames = np.empty((MOST_DEPTH, FRAME_FIELDS), np.int64)
        row = 0
        while True:
            status, row = gather_json(
                POWERS, BASE64, region.buffer, region.base, cells, self.prefix, int(row), frames, offsets, out
            )
            if status == CORRUPT:
                raise CorruptCell(int(row), "a JSON document contradicts itself")
            if status != FULL:
                break
            if len(out) > LONGEST_DATA:
                raise CorruptCell(int(row), "the JSON of one batch has more than 2 GiB of text")
            longer = np.empty(2 * len(out), np.uint8)
            longer[: offsets[row]] = out[: offsets[row]]
            out = longer
        data = out[: offsets[len(cells)]]
        if not strings.all_ascii(data):
            bad = np.zeros(len(cells), np.uint8)
            if strings.find_bad_utf8(data, offsets, bad):
                raise CorruptCell(int(np.flatnonzero(bad)[0]), "a JSON document has text that is not UTF-8")
        return text_array(pa.string(), cells, offsets, data)
