from __future__ import annotations

import resource
import struct
import tracemalloc

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.bytes.payload import read_payload
from strata_cdc.cli.main import run
from strata_cdc.errors import CorruptEventError, StrataError, UnsupportedEventError
from tests.binlog.binlogs import Binlog

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


def bomb(size: int, claim: int, *, header: int | None = None) -> np.ndarray:
    """An inner event that says it has `header` bytes and has `size`, in a transaction that says it has `claim`."""
    head = struct.pack("<IBIIIH", 0, 29, 1, size if header is None else header, 0, 0)
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(head)
    for _ in range(0, size, 1 << 20):
        packed += packer.compress(bytes(1 << 20))
    return event(packed + packer.flush(), claim)


@pytest.mark.parametrize(
    ("size", "claim", "header"),
    [
        (256 << 20, 100, 119),
        (256 << 20, 1 << 20, 256 << 20),
        (256 << 20, 1 << 20, 1 << 19),
        (256 << 20, 0, 256 << 20),
        (256 << 20, 256 << 20, 0xFFFFFFFF),
        (256 << 20, 1 << 40, 0xFFFFFFFF),
    ],
    ids=[
        "no claim",
        "event beyond the claim",
        "more than the claim",
        "none",
        "longer than all",
        "than any replica takes",
    ],
)
def test_a_bomb_does_not_go_off(size, claim, header):
    buffer = bomb(size, claim, header=header)
    assert len(buffer) < 100_000
    tracemalloc.start()
    with pytest.raises((CorruptEventError, UnsupportedEventError)):
        read(buffer)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20


def test_no_command_inflates_beyond_the_claim(tmp_path, capfd):
    binlog = Binlog()
    binlog.previous()
    binlog.insert(1, [1])
    binlog.gtid(2)
    binlog.event(40, bomb(512 << 20, 500, header=0xFFFFFFFF)[19:-4].tobytes())
    binlog.insert(3, [3])
    file = tmp_path / "binlog.000001"
    file.write_bytes(binlog.data)
    for arguments, rows in (
        (["decode", str(file), "--out", "-", "--physical"], 1),
        (["decode", str(file), "--out", "-", "--physical", "--skip-corrupt"], 2),
        (["track", str(file), "--source", "s", "--store", "sqlite://"], 0),
    ):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert run(arguments) == 1
        # KiB; whoever believes the event needs 524,288 of them.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000
        said = capfd.readouterr()
        assert "more than the 500 bytes that it claims" in said.err
        assert sum(line.startswith("{") for line in said.out.splitlines()) == rows
