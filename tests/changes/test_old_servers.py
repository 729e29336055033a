"""Files of servers before 5.6: row events of version 1, no checksums, no GTIDs, times in their older packing.
Sources of the packing: `Field_time`, `Field_datetime`, `Field_timestamp` of MySQL 5.5 (sql/field.cc)."""

from __future__ import annotations

import struct

import pytest

from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from tests.binlog.binlogs import Binlog
from tests.changes.live import changes

# INT, TIMESTAMP, TIME, DATETIME, DATE, VARCHAR(20): binlog type codes before 5.6, with the metadata that they have.
TYPES = bytes([3, 7, 11, 12, 10, 15])
METADATA = struct.pack("<H", 60)
COLUMNS = TableDefinition(
    (
        Column("id", "int", False, None),
        Column("at", "timestamp", True, None),
        Column("span", "time", True, None),
        Column("moment", "datetime", True, None),
        Column("day", "date", True, None),
        Column("name", "varchar(20)", True, "utf8mb3"),
    )
)
WRITE, UPDATE, DELETE = 23, 24, 25


def table_map(binlog):
    body = (7).to_bytes(6, "little") + b"\1\0" + b"\1d\0" + b"\1t\0"
    binlog.event(19, body + bytes([len(TYPES)]) + TYPES + bytes([len(METADATA)]) + METADATA + b"\x3e")


def image(number, seconds, span, moment, day, name):
    date = None if day is None else day[0] << 9 | day[1] << 5 | day[2]
    nulls = sum(1 << at for at, value in enumerate((number, seconds, span, moment, date, name)) if value is None)
    cells = number.to_bytes(4, "little") + (b"" if seconds is None else seconds.to_bytes(4, "little"))
    cells += b"" if span is None else (span & 0xFFFFFF).to_bytes(3, "little")
    cells += b"" if moment is None else moment.to_bytes(8, "little")
    cells += b"" if date is None else date.to_bytes(3, "little")
    return bytes([nulls]) + cells + (b"" if name is None else bytes([len(name)]) + name)


def rows(binlog, kind, *images, last=True):
    present = b"\x3f" * (2 if kind == UPDATE else 1)
    body = (7).to_bytes(6, "little") + struct.pack("<H", int(last)) + bytes([len(TYPES)]) + present
    binlog.event(kind, body + b"".join(images))


FIRST = image(1, 1_300_000_000, 123456, 20110313070640, (2011, 3, 13), "é".encode())
SECOND = image(2, None, -8385959, 0, None, None)


@pytest.fixture
def found(tmp_path, request):
    binlog = Binlog(version="5.5.62", checksum=False, lengths=Binlog.__init__.__kwdefaults__["lengths"][:27])
    binlog.query("BEGIN", seconds=100)
    table_map(binlog)
    rows(binlog, WRITE, FIRST, SECOND)
    table_map(binlog)
    rows(binlog, UPDATE, FIRST, image(1, 1, -1, 99991231235959, (9999, 12, 31), b"x"))
    table_map(binlog)
    rows(binlog, DELETE, SECOND)
    binlog.xid(seconds=101)
    path = tmp_path / "mysql-bin.000001"
    path.write_bytes(binlog.data)
    return changes(path, {TableName("d", "t"): COLUMNS}), changes(path, None)


def test_rows_are_read_by_their_version_and_by_their_map(found):
    first = {
        "id": 1,
        "at": "2011-03-13 07:06:40",
        "span": "12:34:56",
        "moment": "2011-03-13 07:06:40",
        "day": "2011-03-13",
        "name": "é",
    }
    second = {"id": 2, "at": None, "span": "-838:59:59", "moment": "0000-00-00 00:00:00", "day": None, "name": None}
    third = {
        "id": 1,
        "at": "1970-01-01 00:00:01",
        "span": "-00:00:01",
        "moment": "9999-12-31 23:59:59",
        "day": "9999-12-31",
        "name": "x",
    }
    versioned, physical = found
    assert [(change["op"], change["before"], change["after"]) for change in versioned] == [
        ("insert", None, first),
        ("insert", None, second),
        ("update", first, third),
        ("delete", second, None),
    ]
    assert [change["gtid"] for change in versioned] == [None] * 4
    names = [f"@{at + 1}" for at in range(len(TYPES))]
    assert [list((change["after"] or change["before"]).keys()) for change in physical] == [names] * 4
    assert [list((change["after"] or change["before"]).values())[:5] for change in physical] == [
        list((change["after"] or change["before"]).values())[:5] for change in versioned
    ]
