from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels import strings
from tests.kernels.cells import BASE, cells_of, prefixed

BLOBS = st.lists(st.none() | st.binary(max_size=60), min_size=1, max_size=30)


def _texts(offsets, data) -> list[bytes]:
    return [bytes(data[offsets[at] : offsets[at + 1]]) for at in range(len(offsets) - 1)]


@given(BLOBS, st.integers(1, 4))
def test_bytes_are_copied(values, prefix):
    buffer, cells = cells_of(prefixed(values, prefix))
    offsets = np.empty(len(cells) + 1, np.int32)
    total = strings.string_offsets(buffer, BASE, cells, prefix, 0, offsets)
    data = np.empty(total, np.uint8)
    strings.copy_strings(buffer, BASE, cells, prefix, 0, offsets, data)
    assert _texts(offsets, data) == [value or b"" for value in values]


@given(BLOBS)
def test_binary_is_padded(values):
    buffer, cells = cells_of(prefixed(values, 1))
    offsets, data = np.empty(len(cells) + 1, np.int32), np.empty(60 * len(cells), np.uint8)
    bad = np.zeros(len(cells), np.uint8)
    assert strings.copy_padded(buffer, BASE, cells, 1, 60, offsets, data, bad) == 0
    assert _texts(offsets, data) == [b"" if value is None else value.ljust(60, b"\0") for value in values]
    longer = [value is not None and len(value) > 10 for value in values]
    assert strings.copy_padded(buffer, BASE, cells, 1, 10, offsets, data, bad) == sum(longer)
    assert bad.astype(bool).tolist() == longer
    kept = [
        b"" if value is None or is_long else value.ljust(10, b"\0")
        for value, is_long in zip(values, longer, strict=True)
    ]
    assert _texts(offsets, data) == kept


@given(st.lists(st.binary(max_size=8) | st.text(max_size=20).map(str.encode), min_size=1, max_size=20))
def test_utf8_is_what_python_says(values):
    data = np.frombuffer(bytearray(b"".join(values) or b" "), np.uint8)
    offsets = np.concatenate(([0], np.cumsum([len(value) for value in values]))).astype(np.int32)
    bad = np.zeros(len(values), np.uint8)
    count = strings.find_bad_utf8(data, offsets, bad)
    expected = [not _is_utf8(value) for value in values]
    assert bad.astype(bool).tolist() == expected
    assert count == sum(expected)
    assert bool(strings.all_ascii(data)) == b"".join(values).isascii()


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _members(labels):
    """A comma before each label that does not begin the text, as the server does it: `''` and `b` are `b`."""
    text = b""
    for label in labels:
        text += (b"," if text else b"") + label
    return text


LABELS = st.lists(st.text(max_size=6).map(str.encode), min_size=1, max_size=12)


@given(LABELS, st.data())
def test_labels_and_sets(labels, data):
    starts = np.concatenate(([0], np.cumsum([len(label) for label in labels]))).astype(np.int64)
    text = np.frombuffer(bytearray(b"".join(labels) or b" "), np.uint8)
    numbers = np.array(data.draw(st.lists(st.integers(0, 1 << len(labels)), min_size=1, max_size=20)), np.int64)
    cells = np.full(len(numbers), 2, np.uint32)
    count = len(labels)
    enums = [b"" if n == 0 or n > count else labels[n - 1] for n in numbers]
    sets = [b"" if n >> count else _members(label for k, label in enumerate(labels) if n >> k & 1) for n in numbers]
    cases = ((strings.label_offsets, strings.copy_labels, enums, numbers > count),
             (strings.set_offsets, strings.copy_sets, sets, numbers >> count != 0))  # fmt: skip
    for measure, copy, expected, wrong in cases:
        offsets, bad = np.empty(len(numbers) + 1, np.int32), np.zeros(len(numbers), np.uint8)
        out = np.empty(measure(numbers, cells, starts, offsets, bad), np.uint8)
        copy(numbers, starts, text, offsets, out)
        assert _texts(offsets, out) == expected
        assert bad.astype(bool).tolist() == wrong.tolist()


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 2**63 - 1)), min_size=1, max_size=20))
def test_gtid_texts(rows):
    names = (b"server:", b"other:tag:")
    starts, text = np.array([0, 7, 17], np.int64), np.frombuffer(bytearray(b"".join(names)), np.uint8)
    rows = rows + rows[-1:]
    sids, gnos = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    offsets, out = np.empty(len(rows) + 1, np.int32), np.empty(len(rows) * 30, np.uint8)
    strings.gtid_texts(sids, gnos, starts, text, offsets, out)
    assert _texts(offsets, out) == [b"" if sid < 0 else names[sid] + str(gno).encode() for sid, gno in rows]
