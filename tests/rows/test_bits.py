"""BIT of any width and bytes: a number or a boolean, or an error where a bit is set that the type does not have."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.rows.arrow import UNSIGNED_BIGINT
from strata.rows.faults import CorruptCell, Faults
from strata.rows.gather import GatherBits
from strata.rows.region import Region
from tests.kernels.cells import BASE, cells_of


@given(st.integers(1, 64), st.data())
def test_any_bytes(bits: int, data: st.DataObject):
    size = (bits + 7) // 8
    values = data.draw(st.lists(st.none() | st.integers(0, 256**size - 1 if data.draw(st.booleans()) else 2**bits - 1)))
    buffer, cells = cells_of([None if value is None else value.to_bytes(size, "big") for value in values])
    kind = pa.bool_() if bits == 1 else UNSIGNED_BIGINT if bits == 64 else pa.int64()
    gather = GatherBits(kind, bits, size)
    beyond = [at for at, value in enumerate(values) if value is not None and value >> bits]
    if beyond:
        with pytest.raises(CorruptCell, match=rf"a BIT\({bits}\) has more bits") as caught:
            gather(Region(buffer, BASE), cells, Faults())
        assert caught.value.row == beyond[0]
        return
    expected = values if bits > 1 else [None if value is None else bool(value) for value in values]
    assert gather(Region(buffer, BASE), cells, Faults()).to_pylist() == expected
