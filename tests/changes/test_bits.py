"""BIT of any width and bytes: a number or a boolean, or an error where a bit is set that the type does not have."""

from __future__ import annotations

from base64 import b64decode

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.changes.arrow import UNSIGNED_BIGINT
from strata_cdc.changes.faults import Faults
from strata_cdc.changes.gather import GatherBits
from strata_cdc.changes.region import Region
from tests.kernels.cells import BASE, cells_of


@given(st.integers(1, 64), st.data())
def test_any_bytes(bits: int, data: st.DataObject):
    size = (bits + 7) // 8
    values = data.draw(st.lists(st.none() | st.integers(0, 256**size - 1 if data.draw(st.booleans()) else 2**bits - 1)))
    buffer, cells = cells_of([None if value is None else value.to_bytes(size, "big") for value in values])
    kind = pa.bool_() if bits == 1 else UNSIGNED_BIGINT if bits == 64 else pa.int64()
    gather = GatherBits(kind, bits, size)
    beyond = [at for at, value in enumerate(values) if value is not None and value >> bits]
    expected = [None if value is None or value >> bits else bool(value) if bits == 1 else value for value in values]
    faults = Faults()
    assert gather(Region(buffer, BASE), cells, faults).to_pylist() == expected
    assert [(fault.row, b64decode(fault.verbatim)) for fault in faults.found] == [
        (at, values[at].to_bytes(size, "big")) for at in beyond
    ]
    assert all(fault.kind.quarantines and f"a BIT({bits}) has more bits" in fault.reason for fault in faults.found)
