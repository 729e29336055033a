"""Rows of result sets in packets: what is whole is read, what is not ends in a status, whatever the bytes are."""

from __future__ import annotations

import random

import numpy as np
import pytest

from strata_cdc.binlog.kernels.packets import Packet
from strata_cdc.binlog.kernels.result_rows import (
    DATE,
    DECIMAL,
    DIGITS,
    EXACT,
    FIXED,
    IN_PIECES,
    MOMENT,
    ROWS,
    STATE_FIELDS,
    TEXT,
    TIME,
    USED,
    gather_16,
    walk_rows,
)
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from strata_cdc.changes.select.calendar import day_text, moment_text

FORMS = np.array(
    [(FIXED, 4), (TEXT, 0), (EXACT, 2), (DATE, 0), (MOMENT, 0), (TIME, 0), (DECIMAL, 2), (DIGITS, 0)], np.int64
)
CAPACITY = 4
VALUES = [
    b"\x01\x02\x03\x04",
    b"\x03abc",
    b"\x02\x01\x00",
    b"\x04\xe8\x07\x02\x1d",
    b"\x0b\xe8\x07\x02\x1d\x01\x02\x03\x04\x00\x00\x00",
    b"\x0c\x01\x01\x00\x00\x00\x02\x03\x04\x05\x00\x00\x00",
    b"\x06-12.34",
    b"\x06000.50",
]
CELLS = [
    b"\x01\x02\x03\x04",
    b"\x03\0\0\0abc",
    b"\x01\x00",
    (19782).to_bytes(4, "little"),
    (19782 * 86_400_000_000 + 3_723_000_004).to_bytes(8, "little"),
    (-(26 * 3600 + 3 * 60 + 4) * 1_000_000 - 5).to_bytes(8, "little", signed=True),
    (-1234).to_bytes(16, "little", signed=True),
    b"\x04\0\0\x000.50",
]


def packet(payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + b"\0" + payload


def row(values: list[bytes | None]) -> bytes:
    bits = sum(1 << (at + 2) for at, value in enumerate(values) if value is None)
    return packet(b"\0" + bits.to_bytes((len(values) + 9) >> 3, "little") + b"".join(value or b"" for value in values))


END = packet(b"\xfe\0\0\0\0")


def walk(data: bytes, *, room: int = 4096, forms: np.ndarray = FORMS) -> tuple[int, int, np.ndarray, np.ndarray, int]:
    cells = np.zeros(CAPACITY * len(forms), np.uint32)
    out, state = np.zeros(room, np.uint8), np.zeros(STATE_FIELDS, np.int64)
    state[USED] = 2
    given = np.frombuffer(data, np.uint8).copy() if data else np.zeros(0, np.uint8)
    status, at = walk_rows(given, 0, len(given), forms, cells, out, state)
    return int(status), int(at), cells.reshape(len(forms), CAPACITY), out, int(state[ROWS])


def test_values_of_each_form() -> None:
    status, at, cells, out, rows = walk(row(VALUES) + row([None] * len(VALUES)) + END)
    assert (status, rows) == (Packet.END_OF_STREAM, 2)
    assert at == len(row(VALUES)) + len(row([None] * len(VALUES)))
    places = [*cells[:, 0].tolist()]
    for place, cell in zip(places, CELLS, strict=True):
        assert out[place : place + len(cell)].tobytes() == cell
    assert not cells[:, 1].any()


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        (3, b"\0", "0000-00-00"),
        (3, b"\x04\xe8\x07\x02\x1e", "2024-02-30"),
        (3, b"\x04\x00\x00\x01\x01", "0000-01-01"),
        (4, b"\0", "0000-00-00 00:00:00.000000"),
        (4, b"\x04\x00\x00\x00\x00", "0000-00-00 00:00:00.000000"),
        (4, b"\x0b\xe8\x07\x00\x0f\x17\x3b\x3a\x3f\x42\x0f\x00", "2024-00-15 23:59:58.999999"),
    ],
)
def test_dates_of_no_calendar_keep_their_parts(column: int, value: bytes, shown: str) -> None:
    status, _, cells, out, rows = walk(row([*VALUES[:column], value, *VALUES[column + 1 :]]) + END)
    assert (status, rows) == (Packet.END_OF_STREAM, 1)
    place, size = int(cells[column, 0]), 4 if column == 3 else 8
    cell = int.from_bytes(out[place : place + size].tobytes(), "little", signed=True)
    assert (day_text(cell) if column == 3 else moment_text(cell, 6)) == shown


@pytest.mark.parametrize("text", ["0.00", "-0.01", "1" * 36 + ".25", "-" + "9" * 36 + ".99", "123456789.10"])
def test_decimals(text: str) -> None:
    value = bytes([len(text)]) + text.encode()
    _, _, cells, out, _ = walk(row([*VALUES[:6], value, VALUES[7]]) + END)
    found = np.zeros(2, np.int64)
    gather_16(out, 0, cells[6, :1].copy(), found)
    assert int.from_bytes(found.tobytes(), "little", signed=True) == int(text.replace(".", ""))


@pytest.mark.parametrize(("text", "shown"), [("000", "0"), ("-001", "-1"), ("0.5", "0.5"), ("-00.5", "-0.5"), ("", "")])
def test_digits_without_zerofill(text: str, shown: str) -> None:
    value = bytes([len(text)]) + text.encode()
    _, _, cells, out, _ = walk(row([*VALUES[:7], value]) + END)
    place = int(cells[7, 0])
    assert out[place : place + 4 + len(shown)].tobytes() == len(shown).to_bytes(4, "little") + shown.encode()


@pytest.mark.parametrize("length", [0, 250, 251, 65_535, 65_536])
def test_lengths_of_texts(length: int) -> None:
    if length < 251:
        prefix = bytes([length])
    elif length < 65_536:
        prefix = b"\xfc" + length.to_bytes(2, "little")
    else:
        prefix = b"\xfd" + length.to_bytes(3, "little")
    data = row([*VALUES[:1], prefix + b"x" * length, *VALUES[2:]])
    status, _, cells, out, _ = walk(data + END, room=200_000)
    place = int(cells[1, 0])
    assert status == Packet.END_OF_STREAM
    assert out[place : place + 4 + length].tobytes() == length.to_bytes(4, "little") + b"x" * length


def test_a_row_that_is_not_whole_waits() -> None:
    data = row(VALUES)
    for end in range(len(data)):
        assert walk(data + data[:end])[:2] == (Packet.MORE, len(data)), end


def test_a_batch_has_an_end() -> None:
    data = row(VALUES)
    assert walk(data * (CAPACITY + 1))[:2] == (FULL, CAPACITY * len(data))
    assert walk(data * 2, room=len(data) + 17 * len(VALUES))[0] == FULL
    assert walk(data, room=3)[:2] == (FULL, 0)


def test_what_is_no_row() -> None:
    assert walk(row(VALUES) + packet(b"\xff\x28\x04#42000no"))[:2] == (Packet.ERROR_PACKET, len(row(VALUES)))
    assert walk(b"\xff\xff\xff\0\0")[:2] == (IN_PIECES, 0)
    assert walk(packet(b"\x01abc"))[0] == CORRUPT
    assert walk(packet(b"") + b"more")[0] == CORRUPT


WRONG = {
    "too short": [*VALUES[:7], b"\x06000.5"],
    "too long": [*VALUES[:7], b"\x06000.50!"],
    "length beyond": [VALUES[0], b"\xfe" + b"\xff" * 8, *VALUES[2:]],
    "no length": [VALUES[0], b"\xfb", *VALUES[2:]],
    "bits of another size": [*VALUES[:2], b"\x01\x01", *VALUES[3:]],
    "date of another size": [*VALUES[:3], b"\x05\xe8\x07\x02\x1d\x00", *VALUES[4:]],
    "time of another size": [*VALUES[:5], b"\x01\x01", *VALUES[6:]],
    "another scale": [*VALUES[:6], b"\x03-12", VALUES[7]],
    "no digits": [*VALUES[:6], b"\x04a.25", VALUES[7]],
}


@pytest.mark.parametrize("name", WRONG)
def test_rows_that_contradict_themselves(name: str) -> None:
    assert walk(row(WRONG[name]) + END)[:2] == (CORRUPT, 0)


def test_damage_is_never_read_beyond() -> None:
    """With checked bounds, any access beyond an array raises."""
    draw = random.Random(5)
    data = row(VALUES) * 3 + END
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.choice([0, 1, 0x7F, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF])
        status, at, *_ = walk(bytes(damaged[: draw.randint(0, len(damaged))]), room=draw.choice([64, 256, 4096]))
        assert status in {DONE, Packet.MORE, FULL, IN_PIECES, Packet.END_OF_STREAM, Packet.ERROR_PACKET, CORRUPT}
        assert 0 <= at <= len(data)
