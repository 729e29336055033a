"""Dates and times of any bytes: what MySQL prints as a value, or as a text beside the row, or an error."""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.changes.faults import FaultKind, Faults
from strata_cdc.changes.gather import GatherTemporals
from strata_cdc.changes.invalid import temporal_text
from strata_cdc.changes.jsonl import time_text
from strata_cdc.changes.region import Region
from tests.kernels.cells import BASE, cells_of

WIDTHS = {
    FieldType.DATE: 3,
    FieldType.TIME: 3,
    FieldType.TIMESTAMP: 4,
    FieldType.DATETIME: 8,
    FieldType.TIME2: 3,
    FieldType.TIMESTAMP2: 4,
    FieldType.DATETIME2: 5,
}
FRACTIONAL = {FieldType.TIME2, FieldType.TIMESTAMP2, FieldType.DATETIME2}
HIRES = {
    FieldType.TIME: (4, 4, 5, 5, 5, 6),
    FieldType.TIMESTAMP: (5, 5, 6, 6, 7, 7),
    FieldType.DATETIME: (6, 6, 7, 7, 7, 8),
}
"""Bytes of MariaDB 5.3's forms by the number of digits after the second (sql/field.cc, `time_hires_bytes`)."""
LAST_MOMENT = ((9999 * 13 + 12) * 32 + 31) * 86_400
TIME = re.compile(r"-?(\d{2}|[1-7]\d{2}|8[0-2]\d|83[0-8]):[0-5]\d:[0-5]\d(\.\d+)?")


@st.composite
def hires_cells(draw: st.DrawFn) -> tuple[FieldType, int, bytes]:
    code, fsp = draw(st.sampled_from(list(HIRES))), draw(st.integers(1, 6))
    size = HIRES[code][fsp - 1]
    most = {FieldType.TIME: 2 * 839 * 3600 * 10**fsp, FieldType.DATETIME: LAST_MOMENT * 10**fsp}
    if code is FieldType.TIMESTAMP:
        fraction = draw(st.integers(0, min(10**fsp + 10, 256 ** (size - 4) - 1)))
        return code, fsp, draw(st.binary(min_size=4, max_size=4)) + fraction.to_bytes(size - 4, "big")
    limit = min(most[code] + 10, 256**size - 1)
    return code, fsp, draw(st.integers(0, limit) | st.integers(0, 256**size - 1)).to_bytes(size, "big")


@st.composite
def cells(draw: st.DrawFn) -> tuple[FieldType, int, bytes]:
    if draw(st.booleans()):
        return draw(hires_cells())
    code = draw(st.sampled_from(list(WIDTHS)))
    fsp = draw(st.integers(0, 6)) if code in FRACTIONAL else 0
    whole = draw(st.binary(min_size=WIDTHS[code], max_size=WIDTHS[code]))
    if code is FieldType.DATETIME and draw(st.booleans()):
        whole = draw(st.integers(0, 99991231235959)).to_bytes(8, "little")
    # Of any bytes hardly a fraction would be one.
    size = (fsp + 1) // 2
    fraction = draw(st.integers(0, min(100**size + 10, 256**size - 1))).to_bytes(size, "big")
    return code, fsp, whole + fraction


def is_sound(code: FieldType, fsp: int, text: str) -> bool:
    if len(text.partition(".")[2]) != fsp:
        return False
    if code in {FieldType.TIME, FieldType.TIME2}:
        return TIME.fullmatch(text) is not None
    try:
        datetime.fromisoformat(text.partition(".")[0])
    except ValueError:
        return False
    return True


def printed(code: FieldType, fsp: int, value: Any) -> str:
    if isinstance(value, int):
        return time_text(value, fsp)
    if code is FieldType.DATE:
        return str(value)
    return value.replace(tzinfo=None).isoformat(" ", "microseconds")[: 20 + fsp if fsp else 19]


@given(cells())
def test_any_bytes(cell: tuple[FieldType, int, bytes]):
    code, fsp, data = cell
    buffer, places = cells_of([data])
    faults = Faults()
    text = temporal_text(code, fsp, data)
    found = GatherTemporals(code, fsp, len(data))(Region(buffer, BASE), places, faults)
    if faults.found and faults.found[0].kind is FaultKind.UNREADABLE:
        assert not is_sound(code, fsp, text)
        assert (found.to_pylist(), b64decode(faults.found[0].verbatim)) == ([None], data)
        return
    if is_sound(code, fsp, text):
        assert faults.found == []
        assert printed(code, fsp, found[0].as_py()) == text
        return
    (fault,) = faults.found
    assert (found.to_pylist(), fault.verbatim, fault.kind) == ([None], text, FaultKind.INVALID)


def moment(year: int, month: int, day: int, clock: int = 0) -> bytes:
    return ((((year * 13 + month) << 5 | day) << 17 | clock) + 0x80_0000_0000).to_bytes(5, "big")


@pytest.mark.parametrize(
    ("code", "fsp", "data"),
    [
        (FieldType.DATETIME2, 0, moment(0, 0, 0)),
        (FieldType.DATETIME2, 6, moment(2024, 2, 31) + bytes(3)),
        (FieldType.DATETIME2, 1, moment(2024, 0, 31) + bytes([90])),
        (FieldType.TIMESTAMP2, 0, bytes(4)),
        (FieldType.DATE, 0, (2024 << 9 | 2 << 5 | 30).to_bytes(3, "little")),
    ],
)
def test_what_mysql_keeps_stays(code: FieldType, fsp: int, data: bytes):
    buffer, places = cells_of([data])
    faults = Faults()
    assert GatherTemporals(code, fsp, len(data))(Region(buffer, BASE), places, faults).to_pylist() == [None]
    assert [fault.kind for fault in faults.found] == [FaultKind.INVALID]


@pytest.mark.parametrize(
    ("code", "fsp", "data"),
    [
        (FieldType.DATETIME2, 0, moment(2024, 2, 1, 24 << 12)),
        (FieldType.DATETIME2, 6, moment(9999, 12, 31) + (10**6).to_bytes(3, "big")),
        (FieldType.DATETIME2, 3, moment(2024, 2, 1) + (1235).to_bytes(2, "big")),
        (FieldType.TIMESTAMP2, 2, bytes([0, 0, 0, 1, 100])),
        (FieldType.TIME2, 0, (0x800000 + (839 << 12)).to_bytes(3, "big")),
        (FieldType.DATE, 0, (2024 << 9 | 13 << 5 | 1).to_bytes(3, "little")),
    ],
)
def test_what_it_cannot_is_damage(code: FieldType, fsp: int, data: bytes):
    buffer, places = cells_of([data])
    faults = Faults()
    assert GatherTemporals(code, fsp, len(data))(Region(buffer, BASE), places, faults).to_pylist() == [None]
    (fault,) = faults.found
    assert (fault.kind, fault.reason) == (FaultKind.UNREADABLE, "no date or time that MySQL keeps")
    assert b64decode(fault.verbatim) == data
