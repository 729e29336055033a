"""Gathers JSON cells: binary JSON to the server's text.
Not here: the format (`binlog/kernels/jsonb.py`), partial updates (`partial_json.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.binlog.kernels import strings
from strata_cdc.binlog.kernels.doubles import POWERS
from strata_cdc.binlog.kernels.json_values import BASE64
from strata_cdc.binlog.kernels.jsonb import FRAME_FIELDS, MOST_DEPTH, gather_json
from strata_cdc.binlog.kernels.status import CORRUPT, FULL
from strata_cdc.changes.faults import CorruptCell, Faults
from strata_cdc.changes.gather import LONGEST_DATA
from strata_cdc.changes.gather_text import text_array, without

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Offsets
    from strata_cdc.changes.region import Region

_ROOM = 256
"""A text first gets twice the bytes of the binary form, plus these."""


class GatherJson(Struct, frozen=True):
    """JSON as the text that the server prints."""

    prefix: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        bad = np.zeros(len(cells), np.uint8)
        offsets, data = self._texts(region, cells, bad)
        faults.add_cells(region, cells, bad, -self.prefix, "a JSON document contradicts itself")
        if not strings.all_ascii(data):
            ill_formed = np.zeros(len(cells), np.uint8)
            if strings.find_bad_utf8(data, offsets, ill_formed):
                faults.add_cells(region, cells, ill_formed, -self.prefix, "a JSON document has text that is not UTF-8")
                offsets, data = without(offsets, data, ill_formed)
                bad |= ill_formed
        return text_array(pa.string(), cells, offsets, data, bad if bad.any() else None)

    def _texts(self, region: Region, cells: Cells, bad: Bytes) -> tuple[Offsets, Bytes]:
        """The texts and where they begin; texts of documents that are marked in `bad` are empty."""
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
                bad[row] = 1
                offsets[row + 1] = offsets[row]
                row += 1
                continue
            if status != FULL:
                return offsets, out[: offsets[len(cells)]]
            if len(out) > LONGEST_DATA:
                raise CorruptCell(int(row), "the JSON of one batch has more than 2 GiB of text")
            longer = np.empty(2 * len(out), np.uint8)
            longer[: offsets[row]] = out[: offsets[row]]
            out = longer
