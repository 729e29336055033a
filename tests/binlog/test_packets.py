from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.layout import PacketState
from strata_cdc.binlog.kernels.packets import Packet, split_packets
from strata_cdc.binlog.kernels.records import records
from strata_cdc.binlog.kernels.status import CORRUPT
from tests.binlog.binlogs import Binlog

LARGEST = 0xFFFFFF
EOF_PACKET = b"\xfe\0\0\2\0"


def as_packets(payloads: list[bytes], number: int = 1) -> bytes:
    data = bytearray()
    for payload in payloads:
        left = payload
        while True:
            part, left = left[:LARGEST], left[LARGEST:]
            data += len(part).to_bytes(3, "little") + bytes([number & 255]) + part
            number += 1
            if len(part) < LARGEST:
                break
    return bytes(data)


def received(data: bytes, chunks: list[int]) -> tuple[bytes, list[bytes], int]:
    """Event bytes, control events and last status, if the socket gives the bytes in pieces of these sizes."""
    buffer, out = np.zeros(len(data) + 1, np.uint8), np.zeros(len(data) + 1, np.uint8)
    states = records(PacketState, 1)
    states[0].number, states[0].largest = 1, 1 << 30
    events, controls = bytearray(), []
    begin = end = 0
    status = Packet.MORE
    for size in [*chunks, len(data)]:
        piece = data[end : end + size]
        buffer[end : end + len(piece)] = np.frombuffer(piece, np.uint8)
        end += len(piece)
        while True:
            status, count, at = split_packets(buffer, begin, end, out, states)
            events += out[:count].tobytes()
            begin = int(at)
            if status != Packet.CONTROL:
                break
            length = int.from_bytes(buffer[begin : begin + 3].tobytes(), "little")
            controls.append(buffer[begin + 5 : begin + 4 + length].tobytes())
            begin += 4 + length
        if status != Packet.MORE:
            break
    return bytes(events), controls, int(status)


def events_of(binlog: Binlog) -> list[bytes]:
    data, at, found = bytes(binlog.data), 4, []
    while at < len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append(data[at : at + length])
        at += length
    return found


def some_events() -> list[bytes]:
    binlog = Binlog()
    binlog.previous()
    for gno in range(1, 4):
        binlog.insert(gno, [gno])
    binlog.event(4, b"\4" + bytes(7) + b"binlog.000002")
    return events_of(binlog)


@given(st.lists(st.integers(1, 90), max_size=40))
def test_however_the_bytes_arrive_the_events_are_the_same(chunks):
    events = some_events()
    stream = as_packets([b"\0" + event for event in events]) + as_packets([EOF_PACKET], len(events) + 1)
    found, controls, status = received(stream, chunks)
    assert status == Packet.END_OF_STREAM
    assert controls == [event for event in events if event[4] in (4, 15, 35)]
    assert found == b"".join(event for event in events if event[4] not in (4, 15, 35))


@pytest.mark.parametrize("size", [LARGEST - 2, LARGEST - 1, LARGEST, 2 * LARGEST - 1])
def test_events_over_sixteen_megabytes(size):
    binlog = Binlog(checksum=False)
    binlog.event(30, bytes(size - 19))
    binlog.xid()
    events = events_of(binlog)[1:]
    assert len(events[0]) == size
    stream = as_packets([b"\0" + event for event in events])
    found, _, status = received(stream, [4, 1, 18, 1_000_003, 16_000_000])
    assert (found == b"".join(events), status) == (True, Packet.MORE)


def test_an_error_waits_for_its_whole_packet():
    stream = as_packets([b"\xff\xd4\x04#HY000gone"])
    for size in range(len(stream)):
        assert received(stream[:size], [])[2] == Packet.MORE
    assert received(stream, [])[2] == Packet.ERROR_PACKET


@pytest.mark.parametrize(
    "stream",
    [
        as_packets([b"\0" + some_events()[2]], number=2),
        as_packets([b"\7" + some_events()[2]]),
        as_packets([b"\0" + some_events()[2][:10]]),
        as_packets([b"\0" + some_events()[2] + b"more"]),
        as_packets([b"\0" + some_events()[2][:-1], b"\0" + some_events()[2]]),
        as_packets([b"\0" + some_events()[0] + b"more"]),
    ],
    ids=["number", "status", "short", "longer than the event", "shorter than the event", "control"],
)
def test_what_breaks_the_protocol_is_refused(stream):
    assert received(stream, [])[2] == CORRUPT
