from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.doubles import LONGEST_DOUBLE, POWERS, write_double
from strata_cdc.binlog.kernels.json_values import BASE64
from strata_cdc.binlog.kernels.jsonb import FRAME_FIELDS, MOST_DEPTH, gather_json
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from tests.kernels.cells import BASE, cells_of, prefixed
from tests.naive.decoder import json_double, json_text


def _gather(values: list[bytes | None], room: int = 100_000):
    buffer, cells = cells_of(prefixed(values, 4))
    offsets, out = np.zeros(len(cells) + 1, np.int32), np.empty(room, np.uint8)
    frames = np.empty((MOST_DEPTH, FRAME_FIELDS), np.int64)
    status, row = gather_json(POWERS, BASE64, buffer, BASE, cells, 4, 0, frames, offsets, out)
    texts = [out[offsets[at] : offsets[at + 1]].tobytes().decode("utf-8", "replace") for at in range(row)]
    return status, row, texts


SCALARS = (
    st.sampled_from([b"\x04\x00", b"\x04\x01", b"\x04\x02"])
    | st.integers(-(2**15), 2**15 - 1).map(lambda n: b"\x05" + struct.pack("<h", n))
    | st.integers(0, 2**16 - 1).map(lambda n: b"\x06" + struct.pack("<H", n))
    | st.integers(-(2**31), 2**31 - 1).map(lambda n: b"\x07" + struct.pack("<i", n))
    | st.integers(0, 2**32 - 1).map(lambda n: b"\x08" + struct.pack("<I", n))
    | st.integers(-(2**63), 2**63 - 1).map(lambda n: b"\x09" + struct.pack("<q", n))
    | st.integers(0, 2**64 - 1).map(lambda n: b"\x0a" + struct.pack("<Q", n))
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda d: b"\x0b" + struct.pack("<d", d))
    | st.text(max_size=100).map(lambda s: b"\x0c" + _length(len(s.encode())) + s.encode())
    | st.binary(max_size=150).map(lambda b: b"\x0f\xfc" + _length(len(b)) + b)
)


def _length(size: int) -> bytes:
    found = bytearray()
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes([*found, size])


def _container(members: list[tuple[str | None, bytes]], large: bool) -> bytes:
    width, is_object = (4 if large else 2), bool(members) and members[0][0] is not None
    head = 2 * width + len(members) * (width + 1 + (width + 2 if is_object else 0))
    keys = b"".join((key or "").encode() for key, _ in members) if is_object else b""
    key_entries, value_entries, body, key_at = b"", b"", keys, head
    for key, value in members:
        if is_object:
            size = len((key or "").encode())
            key_entries += key_at.to_bytes(width, "little") + size.to_bytes(2, "little")
            key_at += size
        inline = value[0] in (4, 5, 6) or (large and value[0] in (7, 8))
        if inline:
            value_entries += value[:1] + value[1:].ljust(width, b"\0")
        else:
            value_entries += value[:1] + (head + len(body)).to_bytes(width, "little")
            body += value[1:]
    size = head + len(body)
    kind = (1 if large else 0) if is_object else (3 if large else 2)
    data = len(members).to_bytes(width, "little") + size.to_bytes(width, "little")
    return bytes([kind]) + data + key_entries + value_entries + body


DOCUMENTS = st.recursive(
    SCALARS,
    lambda values: (
        st.tuples(st.lists(values, max_size=5), st.booleans()).map(
            lambda given: _container([(None, value) for value in given[0]], given[1])
        )
        | st.tuples(st.dictionaries(st.text(max_size=9), values, max_size=5), st.booleans()).map(
            lambda given: _container(list(given[0].items()), given[1])
        )
    ),
    max_leaves=20,
).filter(lambda document: len(document) < 60_000)


@given(st.lists(st.none() | DOCUMENTS, min_size=1, max_size=5))
def test_texts_are_those_of_the_naive_decoder(values):
    status, row, texts = _gather(values)
    assert (status, row) == (DONE, len(values))
    assert texts == ["" if value is None else json_text(value) for value in values]


def test_escapes_are_seen_at_every_position():
    """Text is looked at eight bytes at a time, and what lies after it needs escapes, too."""
    specials = ["\x00", "\x1f", " ", "!", '"', "#", "[", "\\", "]", "\x7f", "\u00a2", "\u0722", "\U0001f622"]
    texts = ["x" * at + special + "y" * after for special in specials for at in range(18) for after in (0, 1, 7, 8)]
    values: list[bytes | None] = [b"\x0c" + _length(len(text.encode())) + text.encode() for text in texts]
    assert _gather(values)[2] == [json_text(value) for value in values]


@given(DOCUMENTS, st.integers(0, 300))
def test_a_short_buffer_is_full_and_never_overrun(document, room):
    status, row, _ = _gather([document], room)
    assert (status, row) in ((DONE, 1), (FULL, 0))


@given(DOCUMENTS, st.randoms(use_true_random=False))
def test_damage_is_found_or_harmless(document, dice):
    damaged = bytearray(document)
    for _ in range(3):
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
    for value in (bytes(damaged), document[: dice.randrange(len(document) + 1)]):
        assert _gather([value])[0] in (DONE, CORRUPT, FULL)


def test_values_that_are_used_again_and_again_end():
    inner = _container([(None, b"\x04\x00")] * 3, large=False)
    for _ in range(30):
        # Every entry points to the same child: 3 ** 30 values in some hundred bytes.
        body = inner[1:]
        entries = (inner[:1] + (13).to_bytes(2, "little")) * 3
        inner = b"\x02" + (3).to_bytes(2, "little") + (13 + len(body)).to_bytes(2, "little") + entries + body
    assert _gather([inner])[:2] == (CORRUPT, 0)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_the_shortest_that_read_back(number):
    out = np.empty(LONGEST_DOUBLE, np.uint8)
    bits = struct.unpack("<q", struct.pack("<d", number))[0]
    text = out[: write_double(POWERS, bits, out, 0)].tobytes().decode()
    assert float(text) == number
    assert text == json_double(number)
