from __future__ import annotations

import struct

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import CorruptEventError, StrataError, UnsupportedEventError
from strata.wire.format import FormatDescription
from strata.wire.payload import read_payload

FORM = FormatDescription(4, "9.7.4", (0,) * 42, has_checksum=True)


def inner(size: int) -> bytes:
    return struct.pack("<IBIIIH", 0, 29, 1, 19 + size, 0, 0) + bytes(range(256)) * (size // 256) + bytes(size % 256)


def field(number: int, value: int) -> bytes:
    return bytes([number, 9, 254]) + value.to_bytes(8, "little")


def event(packed: bytes, unpacked: int | None = None, *, compression: int = 0, size: int | None = None) -> np.ndarray:
    head = field(2, compression) + field(1, len(packed) if size is None else size)
    head += field(3, unpacked) if unpacked is not None else b""
    body = head + b"\0" + packed
    data = struct.pack("<IBIIIH", 0, 40, 1, 23 + len(body), 0, 0) + body + b"crc!"
    return np.frombuffer(bytearray(data), np.uint8)


def read(buffer: np.ndarray, chunk_bytes: int = 1000) -> bytes:
    return b"".join(chunk.buffer.tobytes() for chunk in read_payload(buffer, 0, len(buffer), FORM, chunk_bytes))


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=20), st.integers(50, 5000), st.sampled_from([0, 255]))
def test_inner_events_come_whole(sizes, chunk_bytes, compression):
    events = b"".join(inner(size) for size in sizes)
    packed = zstandard.compress(events) if compression == 0 else events
    buffer = event(packed, compression=compression, unpacked=len(events))
    done = 0
    for chunk in read_payload(buffer, 0, len(buffer), FORM, chunk_bytes):
        assert chunk.begin == done
        at = 0
        while at < len(chunk.buffer):
            at += int.from_bytes(chunk.buffer[at + 9 : at + 13].tobytes(), "little")
        assert at == len(chunk.buffer)
        done += at
    assert read(buffer, chunk_bytes) == events


def test_several_frames():
    packed = zstandard.compress(inner(100)) + zstandard.compress(inner(200))
    assert read(event(packed, 338)) == inner(100) + inner(200)


@pytest.mark.parametrize(
    ("buffer", "error"),
    [
        (event(zstandard.compress(inner(100)), 119, size=10_000), CorruptEventError),
        (event(zstandard.compress(inner(100)), 119, compression=1), UnsupportedEventError),
        (event(zstandard.compress(inner(100)), 7), CorruptEventError),
        (event(zstandard.compress(inner(100))), CorruptEventError),
        (event(b"not zstd at all", 119), CorruptEventError),
        (event(zstandard.compress(inner(100)[:-1]), 119), CorruptEventError),
        (event(zstandard.compress(bytes(100)), 100), CorruptEventError),
        (event(zstandard.compress(inner(5000))[:-30], 5019), CorruptEventError),
    ],
    ids=["too long", "unknown", "other size", "no size", "garbage", "part of an event", "no length", "cut"],
)
def test_damage_is_an_error(buffer, error):
    with pytest.raises(error):
        read(buffer)


def test_any_changed_byte_is_an_error_of_ours_or_nothing():
    good = event(zstandard.compress(inner(60)), unpacked=79)
    for at in range(19, len(good) - 4):
        changed = good.copy()
        changed[at] ^= 0x40
        try:
            read(changed)
        except StrataError:
            continue
