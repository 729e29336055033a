from __future__ import annotations

import datetime as dt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels import temporal
from tests.kernels.cells import BASE, cells_of

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - MySQL's DATETIME has no zone
MICRO = dt.timedelta(microseconds=1)


def _run(kernel, values, *arguments, dtype=np.int64):
    buffer, cells = cells_of(values)
    out, bad = np.empty(len(cells), dtype), np.zeros(len(cells), np.uint8)
    count = kernel(buffer, BASE, cells, *arguments, out, bad)
    assert count == np.count_nonzero(bad)
    return [None if flag else int(value) for value, flag in zip(out, bad, strict=True)]


def _date(year: int, month: int, day: int) -> int | None:
    try:
        return dt.date(year, month, day).toordinal() - dt.date(1970, 1, 1).toordinal()
    except ValueError:
        return None


@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 15), st.integers(0, 31)), min_size=1))
def test_dates(parts):
    values = [(year << 9 | month << 5 | day).to_bytes(3, "little") for year, month, day in parts]
    assert _run(temporal.gather_dates, values, dtype=np.int32) == [_date(*part) for part in parts]


@given(st.integers(0, 6), st.lists(st.datetimes(), min_size=1))
def test_datetimes(fsp, moments):
    values, expected = [], []
    for moment in moments:
        micros = moment.microsecond // 10 ** (6 - fsp) * 10 ** (6 - fsp)
        size = (fsp + 1) // 2
        packed = ((moment.year * 13 + moment.month) << 5 | moment.day) << 17
        packed |= moment.hour << 12 | moment.minute << 6 | moment.second
        fraction = (micros // 10 ** (6 - 2 * size)).to_bytes(size, "big")
        values.append((packed + 0x8000000000).to_bytes(5, "big") + fraction)
        expected.append((moment.replace(microsecond=micros) - EPOCH) // MICRO)
    assert _run(temporal.gather_datetimes, values, fsp) == expected


@given(st.integers(0, 6), st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 999999)), min_size=1))
def test_timestamps(fsp, moments):
    size = (fsp + 1) // 2
    values, expected = [], []
    for seconds, fraction in moments:
        micros = fraction // 10 ** (6 - fsp) * 10 ** (6 - fsp)
        values.append(seconds.to_bytes(4, "big") + (micros // 10 ** (6 - 2 * size)).to_bytes(size, "big"))
        expected.append(seconds * 1_000_000 + micros or None)
    assert _run(temporal.gather_timestamps, values, fsp) == expected


@given(st.integers(0, 6), st.lists(st.integers(-3020399_000000, 3020399_000000), min_size=1))
def test_times(fsp, times):
    size = (fsp + 1) // 2
    values, expected = [], []
    for time in times:
        micros = abs(time) // 10 ** (6 - fsp) * 10 ** (6 - fsp)
        seconds, fraction = divmod(micros, 1_000_000)
        clock = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
        packed = clock << 8 * size | fraction // 10 ** (6 - 2 * size)
        packed = (0x800000 << 8 * size) + (-packed if time < 0 else packed)
        values.append(packed.to_bytes(3 + size, "big"))
        expected.append(-micros if time < 0 else micros)
    assert _run(temporal.gather_times, values, fsp) == expected


@given(st.lists(st.datetimes(), min_size=1), st.lists(st.integers(-838_59_59, 838_59_59), min_size=1))
def test_forms_before_5_6(moments, digits):
    whole = [moment.replace(microsecond=0) for moment in moments]
    values = [int(f"{moment:%m%d%H%M%S}") + moment.year * 10**10 for moment in whole]
    found = _run(temporal.gather_old_datetimes, [value.to_bytes(8, "little") for value in values])
    assert found == [(moment - EPOCH) // MICRO for moment in whole]
    assert _run(temporal.gather_old_timestamps, [b"\0\0\0\0", b"\1\0\0\0"]) == [None, 1_000_000]
    times = _run(temporal.gather_old_times, [value.to_bytes(3, "little", signed=True) for value in digits])
    for value, micros in zip(digits, times, strict=True):
        size = abs(value)
        if size // 100 % 100 > 59 or size % 100 > 59:
            assert micros is None
            continue
        seconds = size // 10000 * 3600 + size // 100 % 100 * 60 + size % 100
        assert micros == (-seconds if value < 0 else seconds) * 1_000_000


HIRES_BYTES = {"time": (4, 4, 5, 5, 5, 6), "datetime": (6, 6, 7, 7, 7, 8)}
"""By the number of digits after the second (MariaDB 11.8, sql/field.cc)."""
MOST_MICROS = 3020399_999999


@given(
    st.integers(1, 6),
    st.lists(st.datetimes(), min_size=1),
    st.lists(st.integers(-MOST_MICROS, MOST_MICROS), min_size=1),
    st.lists(st.integers(0, 2**32 * 1_000_000 - 1), min_size=1),
)
def test_forms_of_mariadb_5_3(digits, moments, times, stamps):
    unit = 10 ** (6 - digits)
    cells = []
    for one in moments:
        seconds = (((one.year * 13 + one.month) * 32 + one.day) * 24 + one.hour) * 3600 + one.minute * 60 + one.second
        value = (seconds * 1_000_000 + one.microsecond) // unit
        cells.append(value.to_bytes(HIRES_BYTES["datetime"][digits - 1], "big"))
    expected = [(one - EPOCH) // MICRO // unit * unit for one in moments]
    assert _run(temporal.gather_hires_datetimes, cells, digits) == expected
    whole = [(abs(one) // unit * unit) * (-1 if one < 0 else 1) for one in times]
    cells = [((one + 3020400_000000) // unit).to_bytes(HIRES_BYTES["time"][digits - 1], "big") for one in whole]
    assert _run(temporal.gather_hires_times, cells, digits) == whole
    cells = [
        (one // 1_000_000).to_bytes(4, "big") + (one % 1_000_000 // unit).to_bytes((digits + 1) // 2, "big")
        for one in stamps
    ]
    assert _run(temporal.gather_hires_timestamps, cells, digits) == [one // unit * unit or None for one in stamps]
