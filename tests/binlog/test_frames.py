from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes import frames
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.format import parse_format_description
from strata_cdc.binlog.bytes.frames import index_events, next_of_types, verify_checksums
from strata_cdc.binlog.kernels import status
from strata_cdc.binlog.kernels.crc import CRC_TABLES, crc32
from strata_cdc.binlog.kernels.end_positions import fill_end_positions
from strata_cdc.errors import ChecksumError, CorruptEventError, TruncatedEventError
from tests.binlog.binlogs import Binlog


def as_buffer(data: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(data), np.uint8)


def some_binlog(*, checksum: bool = True) -> tuple[np.ndarray, object, list[int]]:
    binlog = Binlog(checksum=checksum)
    positions = [4, binlog.previous()]
    for gno in range(1, 6):
        positions.append(binlog.gtid(gno))
        positions.append(binlog.query("BEGIN"))
        positions.append(binlog.table_map())
        positions.append(binlog.write([gno, gno]))
        positions.append(binlog.xid())
    data = bytes(binlog.data)
    length = int.from_bytes(data[13:17], "little")
    return as_buffer(data), parse_format_description(data[23 : 4 + length]), positions


@pytest.mark.parametrize("checksum", [True, False])
def test_the_index_holds_every_event(checksum):
    buffer, form, positions = some_binlog(checksum=checksum)
    index = index_events(buffer, 4, len(buffer), form)
    index.raise_fault()
    assert index.positions.tolist() == positions
    assert (index.positions + index.lengths).tolist() == [*positions[1:], len(buffer)]
    assert index.log_positions.tolist() == [*positions[1:], len(buffer)]
    assert index.types[:3].tolist() == [15, 35, 33]
    assert (index.status, index.next) == (status.DONE, len(buffer))
    if checksum:
        verify_checksums(buffer, index)


@pytest.mark.parametrize("room", [1, 2, 7])
def test_an_index_goes_on_where_its_room_ended(room):
    buffer, form, positions = some_binlog()
    found, at = [], 4
    while at < len(buffer):
        index = index_events(buffer, at, len(buffer), form, room)
        found += index.positions.tolist()
        at = index.next
    assert found == positions


def test_truncated_at_every_byte():
    buffer, form, positions = some_binlog()
    for end in range(4, len(buffer)):
        index = index_events(buffer, 4, end, form)
        whole = [at for at, behind in zip(positions, [*positions[1:], len(buffer)], strict=True) if behind <= end]
        assert index.positions.tolist() == whole
        if end in positions:
            index.raise_fault()
            continue
        with pytest.raises(TruncatedEventError) as caught:
            index.raise_fault()
        assert caught.value.offset == positions[len(whole)]


@pytest.mark.parametrize("length", [0, 1, 18, 22])
def test_a_length_below_the_least_is_corrupt(length):
    buffer, form, positions = some_binlog()
    buffer[positions[3] + 9 : positions[3] + 13] = np.frombuffer(length.to_bytes(4, "little"), np.uint8)
    index = index_events(buffer, 4, len(buffer), form)
    assert len(index) == 3
    with pytest.raises(CorruptEventError) as caught:
        index.raise_fault()
    assert caught.value.offset == positions[3]


def test_each_changed_byte_is_found():
    buffer, form, positions = some_binlog()
    index = index_events(buffer, 4, len(buffer), form)
    for at in range(positions[2], positions[5]):
        buffer[at] ^= 0x20
        with pytest.raises(ChecksumError) as caught:
            verify_checksums(buffer, index)
        assert caught.value.offset == max(position for position in positions if position <= at)
        buffer[at] ^= 0x20
    verify_checksums(buffer, index)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_crc_is_zlibs(data, cut):
    cut = min(cut, len(data))
    buffer = as_buffer(b"ab" + data + b"cd")
    assert crc32(CRC_TABLES, buffer, 2, 2 + len(data), 0) == zlib.crc32(data)
    first = crc32(CRC_TABLES, buffer, 2, 2 + cut, 0)
    assert crc32(CRC_TABLES, buffer, 2 + cut, 2 + len(data), first) == zlib.crc32(data)


def test_checksums_of_very_large_events(tmp_path):
    binlog = Binlog()
    offsets = [binlog.query(text) for text in ("a", "b" * 400, "c", "d" * 100, "e" * 201, "f")]
    (tmp_path / "x.1").write_bytes(binlog.data)
    with open_binlog(tmp_path / "x.1") as opened:
        index = index_events(opened.buffer, opened.first_event, len(opened.buffer), opened.format)
        assert frames.count_sound(opened.buffer, index, large_bytes=100) == len(index) == 7
    for number, offset in enumerate(offsets, 1):
        for at in (offset + 30, (*offsets, len(binlog.data))[number] - 1):
            damaged = bytearray(binlog.data)
            damaged[at] ^= 1
            assert frames.count_sound(np.frombuffer(damaged, np.uint8), index, large_bytes=100) == number


KINDS = st.sampled_from(["plain", "made", "lacking", "lacking"])


def filled_by_hand(lengths: list[int], headers: list[int], made: list[bool], end: int) -> list[int]:
    """Ends in the server's file, from those in headers, of events that begin at 4."""
    behind = [4 + sum(lengths[: number + 1]) for number in range(len(lengths))]
    shifts = {(header - own) % (1 << 32) for header, own in zip(headers, behind, strict=True) if header}
    if len(shifts) == 1 and not any(made):
        return [header or (own + min(shifts)) % (1 << 32) for header, own in zip(headers, behind, strict=True)]
    filled = []
    for length, header, is_made in zip(lengths, headers, made, strict=True):
        end = header or (end if end < 0 or is_made else (end + length) % (1 << 32))
        filled.append(-1 if is_made else end)
    return filled


@given(
    st.lists(st.tuples(st.integers(19, 90), KINDS), min_size=1, max_size=12),
    st.integers(0, 1 << 33),
    st.booleans(),
    st.none() | st.integers(0, 11),
)
def test_end_positions_that_the_server_leaves_out(events, begin, is_known, gap):
    """Events that were made for a connection are not in the server's file; others may be missing before the event
    `gap`."""
    lengths, made = [length for length, _ in events], [kind == "made" for _, kind in events]
    ends, at = [], begin
    for number, length in enumerate(lengths):
        at += (1000 if number == gap else 0) + (0 if made[number] else length)
        ends.append(at % (1 << 32))
    headers = [end if kind == "plain" else 0 for end, (_, kind) in zip(ends, events, strict=True)]
    positions = np.cumsum([4, *lengths])[:-1]
    end, filled = begin % (1 << 32) if is_known else -1, np.array(headers, np.int64)
    lacking = fill_end_positions(positions, np.array(lengths), np.array(made, np.uint8), end, filled)
    assert lacking == sum(kind != "plain" for _, kind in events)
    assert filled.tolist() == filled_by_hand(lengths, headers, made, end)
    if gap is None and is_known:
        assert filled.tolist() == [-1 if is_made else end for end, is_made in zip(ends, made, strict=True)]


@pytest.mark.parametrize("checksum", [True, False])
def test_the_next_event_of_some_types(checksum):
    buffer, form, positions = some_binlog(checksum=checksum)
    types = buffer[np.array(positions) + 4]
    for kind in sorted(set(types.tolist())):
        wanted = (np.arange(256) == kind).astype(np.uint8)
        for at, begin in enumerate(positions):
            found = [position for position, one in zip(positions[at:], types[at:], strict=True) if one == kind]
            assert next_of_types(buffer, begin, form, wanted) == (found[0] if found else len(buffer))
    nothing = np.zeros(256, np.uint8)
    for cut in range(positions[-2], len(buffer)):
        whole = max(end for end in [*positions, len(buffer)] if end <= cut)
        assert next_of_types(buffer[:cut], 4, form, nothing) == whole
