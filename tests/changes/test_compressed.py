"""Compressed columns of MariaDB: values in each of their forms, and damaged ones."""

from __future__ import annotations

import zlib
from base64 import b64decode

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.kernels.layout import Has
from strata_cdc.changes.block_parts import parts_of
from strata_cdc.changes.blocks import RowBlock
from strata_cdc.changes.column_plans import ColumnPlan
from strata_cdc.changes.decode_plans import DecodePlan
from strata_cdc.changes.faults import FaultKind, Faults
from strata_cdc.changes.gather_compressed import INFLATED_PREFIX, GatherCompressed, inflated_value
from strata_cdc.changes.gather_text import GatherBytes
from strata_cdc.changes.region import Region
from strata_cdc.changes.row_buffers import BufferedRows
from strata_cdc.schema.model.definition import TableDefinition, TableName
from tests.kernels.cells import BASE, cells_of, prefixed

LONGEST = 1 << 16


@st.composite
def written(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A value and how a server writes it."""
    value = draw(st.binary(max_size=200) | st.integers(0, 3000).map(lambda size: b"ab" * size))
    if not value:
        return value, b""
    if draw(st.booleans()):
        return value, b"\0" + value
    is_raw, size = draw(st.booleans()), draw(st.integers((len(value).bit_length() + 7) // 8, 7))
    stream = zlib.compressobj(draw(st.integers(0, 9)), wbits=-15 if is_raw else 15)
    head = bytes([0x80 | size | (8 if is_raw else 0)]) + len(value).to_bytes(size, "big")
    return value, head + stream.compress(value) + stream.flush()


@given(st.lists(st.none() | written(), min_size=1, max_size=20), st.integers(2, 4))
def test_each_form_is_inflated(values, prefix):
    buffer, cells = cells_of(prefixed([None if one is None else one[1] for one in values], prefix))
    faults = Faults()
    gather = GatherCompressed(prefix, LONGEST, GatherBytes(INFLATED_PREFIX))
    found = gather(Region(buffer, BASE), cells, faults)
    found.validate(full=True)
    assert found.to_pylist() == [None if one is None else one[0] for one in values]
    assert faults.found == []


@given(written(), st.data())
def test_a_damaged_value_is_its_own_or_none(pair, data):
    """Whatever was changed, no more is inflated than the column may have."""
    value, cell = pair
    at = data.draw(st.integers(0, max(0, len(cell) - 1)))
    damaged = cell[:at] + data.draw(st.binary(max_size=2)) + cell[at + data.draw(st.integers(0, 2)) :]
    found = inflated_value(damaged, LONGEST)
    assert found is None or len(found) <= max(LONGEST, len(damaged))
    if damaged == cell:
        assert found == value


def test_a_value_that_no_server_writes_is_a_fault():
    whole = b"\x82\x01\x2c" + zlib.compress(b"a" * 300)
    longer = b"\x82\x01\x2b" + zlib.compress(b"a" * 300)
    cells = [whole, whole[:-1], whole + b"x", longer, b"\x90ab", b"\x87\xff" + bytes(6), b"\x83\x02\0\0"]
    buffer, places = cells_of(prefixed(cells, 2))
    faults = Faults()
    found = GatherCompressed(2, LONGEST, GatherBytes(INFLATED_PREFIX))(Region(buffer, BASE), places, faults)
    assert found.to_pylist() == [b"a" * 300, None, None, None, None, None, None]
    assert [(fault.row, fault.kind) for fault in faults.found] == [(at, FaultKind.UNREADABLE) for at in range(1, 7)]
    assert [b64decode(fault.verbatim) for fault in faults.found] == cells[1:]


@given(st.lists(st.none() | written(), min_size=1, max_size=20), st.integers(2, 4))
def test_sizes_are_known_before_anything_is_inflated(values, prefix):
    buffer, cells = cells_of(prefixed([None if one is None else one[1] for one in values], prefix))
    sizes = GatherCompressed(prefix, LONGEST, GatherBytes(INFLATED_PREFIX)).sizes(Region(buffer, BASE), cells)
    for one, size in zip(values, sizes.tolist(), strict=True):
        value, cell = one or (b"", b"")
        assert len(value) <= size <= max(len(value), len(cell))


@given(st.lists(st.none() | written(), min_size=1, max_size=20), st.integers(1, 3000))
def test_blocks_are_cut_into_parts_that_fit(values, most_bytes):
    buffer, cells = cells_of(prefixed([None if one is None else one[1] for one in values], 2))
    gather = GatherCompressed(2, LONGEST, GatherBytes(INFLATED_PREFIX))
    column = ColumnPlan("c", 0, FieldType.BLOB_COMPRESSED, 0, pa.binary(), gather)
    plan = DecodePlan(TableName("d", "t"), 1, TableDefinition(()), (column,), None, None, None, None)
    rows = BufferedRows(len(cells), Has.AFTER, (cells,), (), (np.arange(len(cells)),))
    parts = list(parts_of(RowBlock(plan, rows, Region(buffer, BASE), ()), most_bytes))
    assert np.concatenate([part.rows.facts[0] for part in parts]).tolist() == list(range(len(cells)))
    for part in parts:
        [after] = part.rows.after
        assert part.rows.count == len(after) == 1 or gather.sizes(part.region, after).sum() <= most_bytes
