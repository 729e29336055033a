"""Extracts events from the packets of the client protocol.
Not here: the socket (`binlog/protocol/replication.py`), what is in the events."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import copy_bytes
from strata_cdc.binlog.kernels.scan import HEADER_BYTES, read_u16, read_u32
from strata_cdc.binlog.kernels.status import CORRUPT, DONE

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int
    from strata_cdc.binlog.kernels.layout import PacketState
    from strata_cdc.binlog.kernels.records import Records


class Packet(IntEnum):
    """Why `split_packets` stops, besides the codes of `status.py`."""

    MORE = 30
    """All input was used, except the beginning of a packet; read more."""
    CONTROL = 31
    """A whole event that comes between transactions (`CONTROLS`), which was not copied."""
    END_OF_STREAM = 32
    """The server has sent everything (EOF packet)."""
    ERROR_PACKET = 33
    """The server ended the stream with an error; the whole packet is there."""
    TOO_LARGE = 34
    """By its header, an event has more bytes than `PacketState.largest`; nothing of it was copied."""


UNNUMBERED = -(1 << 62)
"""For the compressed protocol: there, numbers jump with each outer packet (`net_flush`)."""

PACKET_HEADER_BYTES = 4
_LARGEST = 0xFFFFFF
"""A packet of this length is continued in the next one (manual, "Sending More Than 16Mb")."""
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_LOG_POSITION = 13
"""Offset in an event's header of its end position, four bytes."""
CONTROLS = (4, 15, 27, 35, 41, 161, 163, 164)
"""ROTATE, FORMAT_DESCRIPTION, HEARTBEAT, PREVIOUS_GTIDS, HEARTBEAT_V2; of MariaDB BINLOG_CHECKPOINT, GTID_LIST and
START_ENCRYPTION."""


@part
def _copy_piece(data: Bytes, at: Int, end: Int, out: Bytes, count: Int, state: PacketState) -> tuple[Int, Int]:
    """Copies the available bytes of the open packet; DONE, MORE or CORRUPT, and the number of bytes."""
    size = min(state.left, end - at)
    if size == 0:
        return np.int64(Packet.MORE), np.int64(0)
    if size > state.event_left:
        return np.int64(CORRUPT), np.int64(0)
    copy_bytes(data, at, out, count, size)
    state.left -= size
    state.event_left -= size
    return np.int64(DONE), np.int64(size)


@part
def _begin_event(data: Bytes, event: Int, length: Int, whole: bool, state: PacketState) -> Int:  # noqa: FBT001 - of a kernel
    """What to do with the event that a packet of `length` bytes begins: DONE to copy it, CONTROL, or a fault."""
    size = read_u32(data, event + 9)
    if data[event + 4] in CONTROLS:
        if length == _LARGEST or size != length - 1:
            return np.int64(CORRUPT)
        if not whole:
            return np.int64(Packet.MORE)
        state.number += 1
        return np.int64(Packet.CONTROL)
    if size > state.largest:
        return np.int64(Packet.TOO_LARGE)
    if state.log_pos > 0:
        state.log_pos += size
        for byte in range(4):
            data[event + _LOG_POSITION + byte] = (state.log_pos >> (8 * byte)) & 255
    state.event_left = size
    return np.int64(DONE)


@part
def _begin_packet(data: Bytes, at: Int, end: Int, length: Int, state: PacketState) -> Int:
    """As `_begin_event`, for a packet that does not continue an event; also END_OF_STREAM and ERROR_PACKET."""
    first = data[at + PACKET_HEADER_BYTES]
    whole = end - at >= PACKET_HEADER_BYTES + length
    if first == _ERROR or (first == _EOF and length < 9):
        if not whole:
            return np.int64(Packet.MORE)
        return np.int64(Packet.ERROR_PACKET if first == _ERROR else Packet.END_OF_STREAM)
    if state.event_left != 0 or first != _OK or length < 1 + HEADER_BYTES:
        return np.int64(CORRUPT)
    if end - at < PACKET_HEADER_BYTES + 1 + HEADER_BYTES:
        return np.int64(Packet.MORE)
    return _begin_event(data, at + PACKET_HEADER_BYTES + 1, length, whole, state)


@kernel
def split_packets(data: Bytes, begin: Int, end: Int, out: Bytes, states: Records[PacketState]) -> tuple[Int, Int, Int]:
    """Copies the bytes of events, without those of the packets around them, to the beginning of `out`.

    An event is copied as it arrives, so neither buffer must have space for a whole event, except for those of CONTROL.

    Args:
        data: The bytes that were read from the socket; the end positions of events are changed if `PacketState.log_pos`
            is set.
        begin: The first byte that was not used yet.
        end: Offset after the last byte.
        out: At least as long as `data`.
        states: One record, which is kept from call to call.

    Returns:
        Status, bytes in `out`, and the first byte that was not used. With CONTROL, END_OF_STREAM and ERROR_PACKET, that
        byte is where the packet begins; the caller continues after the packet.
    """
    state = states[0]
    at = np.int64(begin)
    count = np.int64(0)
    while True:
        if state.left > 0:
            status, size = _copy_piece(data, at, end, out, count, state)
            if status != DONE:
                return status, count, at
            at += size
            count += size
            continue
        if end - at < PACKET_HEADER_BYTES + 1 and not (end - at == PACKET_HEADER_BYTES and state.continues):
            return np.int64(Packet.MORE), count, at
        length = read_u16(data, at) | (np.int64(data[at + 2]) << 16)
        if state.number >= 0 and np.int64(data[at + 3]) != state.number & 255:
            return np.int64(CORRUPT), count, at
        status_byte = np.int64(0)
        if not state.continues:
            status = _begin_packet(data, at, end, length, state)
            if status != DONE:
                return status, count, at
            status_byte = np.int64(1)
        state.left = length - status_byte
        state.continues = 1 if length == _LARGEST else 0
        state.number += 1
        at += PACKET_HEADER_BYTES + status_byte
