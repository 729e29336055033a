"""Row events of MariaDB that are logged in fragments: what a server has written, cut by a writer of this file, gives
the same rows; a file of them may end at every byte."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.errors import BadData, StrataError
from tests.changes.test_damage import read_until_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).with_name("recorded") / "mariadb.binlog"
ROWS = (23, 24, 25, 166, 167, 168)
FRAGMENT = 172


def events_of(data: bytes) -> Iterator[bytes]:
    """Each event without its checksum."""
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        yield data[at : at + size - 4]
        at += size


def written(event: bytes, at: int) -> bytes:
    """An event at an offset, with its length, its end position if it had one, and its checksum."""
    length = len(event) + 4
    end = at + length if event[13:17] != bytes(4) else 0
    whole = event[:9] + struct.pack("<II", length, end) + event[17:]
    return whole + zlib.crc32(whole).to_bytes(4, "little")


def fragments_of(event: bytes, dice: random.Random) -> list[bytes]:
    """A row event in one fragment or several, of any sizes."""
    whole = event[:9] + struct.pack("<II", len(event), 0) + event[17:]
    cuts = sorted(dice.randint(0, len(whole)) for _ in range(dice.choice((0, 1, 1, 2, 5))))
    chunks = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    head = event[:4] + bytes([FRAGMENT]) + event[5:9]
    found = []
    for number, chunk in enumerate(chunks, start=1):
        size = struct.pack("<Q", len(whole)) if number == 1 else b""
        body = struct.pack("<IIB", len(chunks), number, number == 1) + size + chunk
        found.append(head + bytes(8) + event[17:19] + body)
    return found


def in_fragments(data: bytes, seed: int) -> bytes:
    """A file whose row events are in fragments."""
    dice, made = random.Random(seed), bytearray(data[:4])
    for event in events_of(data):
        for part in fragments_of(event, dice) if event[4] in ROWS else [event]:
            made += written(part, len(made))
    return bytes(made)


@pytest.mark.parametrize("seed", range(5))
def test_fragments_give_the_rows_of_the_event(seed, tmp_path):
    whole, fault = read_until_fault(RECORDED)
    assert fault is None
    path = tmp_path / "binlog.000001"
    path.write_bytes(in_fragments(RECORDED.read_bytes(), seed))
    assert read_until_fault(path) == (whole, None)
    with open_binlog(path) as cut, open_binlog(RECORDED) as recorded:
        assert [
            [(table.database, table.table, table.rows) for table in record.tables] for record in read_transactions(cut)
        ] == [
            [(table.database, table.table, table.rows) for table in record.tables]
            for record in read_transactions(recorded)
        ]


def test_a_split_point_is_before_the_first_fragment(tmp_path):
    data = in_fragments(RECORDED.read_bytes(), 0)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    with open_binlog(path) as binlog:
        scanner = TransactionScanner(binlog.format, chain=chain_of(binlog, 4), binlog_file="", split_bytes=1)
        index = index_events(binlog.buffer, 4, len(data), binlog.format, 1 << 20)
        batches = list(scanner.scan(binlog.buffer, index))
    numbers = [
        int.from_bytes(data[at + 23 : at + 27], "little")
        for batch in batches
        for at in batch.split_offsets.tolist()
        if data[at + 4] == FRAGMENT
    ]
    assert numbers
    assert set(numbers) == {1}


def test_a_file_may_end_at_every_byte_of_a_transaction(tmp_path):
    data = in_fragments(RECORDED.read_bytes(), 1)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    with open_binlog(path) as binlog:
        records = list(read_transactions(binlog))
        rows = [record for record in records if any(table.rows for table in record.tables)]
        chosen = min(rows, key=lambda record: record.end - record.begin)
        offsets = index_events(binlog.buffer, 4, len(data), binlog.format, 1 << 20).positions.tolist()
    whole, _ = read_until_fault(path)
    ends = {at + int.from_bytes(data[at + 9 : at + 13], "little") for at in offsets}
    before = sum(record.end <= chosen.begin for record in records)
    for cut in range(chosen.begin + 1, chosen.end):
        path.write_bytes(data[:cut])
        found, fault = read_until_fault(path)
        assert isinstance(fault, BadData) or cut in ends, cut
        assert found == whole[: len(found)], cut
        done = []
        with open_binlog(path) as binlog, pytest.raises(StrataError):
            done.extend(read_transactions(binlog))
        assert len(done) <= before, cut
