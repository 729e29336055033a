"""Values of every type, through both protocols, are those of the same change in a binlog's JSON lines."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import Usage
from strata_cdc.schema.model.types import Family, TypeKind, kinds_of
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.encodings import BinaryForm
from strata_cdc.ticdc.values import FROM_TEXT
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.reading import read

if TYPE_CHECKING:
    from pathlib import Path

ID = SinkColumn("id", pk=True, nullable=False)
TYPES: tuple[tuple[SinkColumn, Any, Any], ...] = (
    # column, as TiCDC has it, as a line has it
    (SinkColumn("ti", "TINYINT", precision="4"), -128, -128),
    (SinkColumn("tu", "TINYINT UNSIGNED"), 255, 255),
    (SinkColumn("si", "SMALLINT"), -32768, -32768),
    (SinkColumn("mu", "MEDIUMINT UNSIGNED"), 16777215, 16777215),
    (SinkColumn("iu", "INT UNSIGNED"), 4294967295, 4294967295),
    (SinkColumn("big", "BIGINT UNSIGNED"), 18446744073709551615, 18446744073709551615),
    (SinkColumn("de", "DECIMAL", precision="30", scale="9"), "1234567890.000000001", "1234567890.000000001"),
    (SinkColumn("dl", "DECIMAL", precision="65", scale="2"), "1" * 63 + ".25", "1" * 63 + ".25"),
    (SinkColumn("fl", "FLOAT", precision="12"), "1e+06", 1000000.0),
    (SinkColumn("do", "DOUBLE", precision="22"), "0.1", 0.1),
    (SinkColumn("b1", "BIT", precision="1"), 1, 1),
    (SinkColumn("bt", "BIT", precision="64"), 2**64 - 1, 2**64 - 1),
    (SinkColumn("ch", "CHAR", precision="3"), "a\\N", "a\\N"),
    (SinkColumn("vs", "VAR_STRING", precision="9"), '"\r\n,', '"\r\n,'),
    (SinkColumn("tx", "LONGTEXT", precision="4294967295"), "😀", "😀"),
    (SinkColumn("vb", "VARBINARY", precision="9"), b"\x00\xff\xc3", "AP/D"),
    (SinkColumn("lb", "LONGBLOB"), b"", ""),
    (SinkColumn("en", "ENUM", elems=("x", "y,z")), "y,z", "y,z"),
    (SinkColumn("se", "SET", elems=("p", "q")), "p,q", "p,q"),
    (SinkColumn("s0", "SET", elems=("p", "q")), "", ""),
    (SinkColumn("da", "DATE"), "1969-12-31", "1969-12-31"),
    (SinkColumn("dz", "DATE"), "0000-00-00", "0000-00-00"),
    (SinkColumn("dx", "DATE"), "2023-02-29", "2023-02-29"),
    (SinkColumn("dt", "DATETIME", scale="6"), "2026-02-03 04:05:06.789012", "2026-02-03 04:05:06.789012"),
    (SinkColumn("ts", "TIMESTAMP", scale="3"), "2001-01-01 00:00:01.500", "2001-01-01 00:00:01.500"),
    (SinkColumn("tm", "TIME", scale="2"), "-12:34:56.78", "-12:34:56.78"),
    (SinkColumn("ye", "YEAR", precision="4"), 1999, 1999),
    (SinkColumn("js", "JSON"), '{"k": [1, null]}', '{"k": [1, null]}'),
    (SinkColumn("ve", "VECTOR"), "[1,2.5]", [1.0, 2.5]),
)
FORMS = {
    "csv": FeedForm(),
    "hex": FeedForm(binary="hex", quote="", delimiter="@@"),
    "canal": FeedForm(protocol="canal-json"),
}


@pytest.mark.parametrize("form", FORMS)
def test_values(tmp_path: Path, form: str) -> None:
    feed = Feed(tmp_path, FORMS[form])
    table = feed.table("t", (ID, *(column for column, _, _ in TYPES)))
    names = [column.name for column, _, _ in TYPES]
    given = {"id": 1, **{column.name: value for column, value, _ in TYPES}}
    feed.write(
        table, [Row(START + 1, given), Row(START + 2, {"id": 2, **dict.fromkeys(names)}), Row(START + 3, old=given)]
    )
    feed.checkpoint(START + 9)
    got = read(tmp_path, CsvSettings(binary=BinaryForm(FORMS[form].binary), time_zone="UTC"))
    assert got.error is None
    expected = {"id": 1, **{column.name: value for column, _, value in TYPES}}
    (_, _, _, _, first), (_, _, _, _, nulls), (_, _, _, gone, _) = got.rows
    assert json.loads(json.dumps(first)) == expected
    assert nulls == {"id": 2, **dict.fromkeys(names)}
    assert json.loads(json.dumps(gone)) == expected


def test_every_type_of_tidb_is_read() -> None:
    absent = kinds_of(Family.GEOMETRY, Family.FIXED_BYTES) | {TypeKind.XMLTYPE}
    assert set(TypeKind) - set(FROM_TEXT) <= absent


WRONG = (
    (SinkColumn("c", "TINYINT"), 128),
    (SinkColumn("c", "INT UNSIGNED"), -1),
    (SinkColumn("c", "MEDIUMINT"), 8388608),
    (SinkColumn("c", "DECIMAL", precision="4", scale="2"), "1.255"),
    (SinkColumn("c", "BIT", precision="1"), 2),
    (SinkColumn("c", "DATE"), "2023-13-01"),
    (SinkColumn("c", "DATETIME"), "yesterday"),
    (SinkColumn("c", "TIME"), "1:2"),
    (SinkColumn("c", "VARBINARY", precision="9"), "&&&&"),
    (SinkColumn("c", "VECTOR"), "1,2"),
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong[0].type} {wrong[1]}")
def test_what_is_no_value_is_refused_after_the_rows_before_it(tmp_path: Path, wrong: tuple[SinkColumn, Any]) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", (ID, wrong[0]))
    rows = [Row(START + at, {"id": at, "c": wrong[1] if at == 30 else None}) for at in range(1, 40)]
    path = feed.write(table, rows)
    feed.checkpoint(START + 99)
    got = read(tmp_path)
    assert [row[0] - START for row in got.rows] == list(range(1, 29))
    assert got.error is not None
    assert got.error.message.startswith("row 30 of the file")
    ending = got.error.message.partition("a value is no ")[2]
    assert ending.startswith(wrong[0].type.split()[0].lower())
    assert path.name in str(got.error)
    # A value may be a secret.
    assert got.error.message.endswith(f"column c: a value is no {ending}")


def test_timestamps_need_a_time_zone(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", (ID, SinkColumn("ts", "TIMESTAMP")))
    feed.write(table, [Row(START + 1, {"id": 1, "ts": "2026-07-01 12:00:00"})])
    feed.checkpoint(START + 9)
    got = read(tmp_path, CsvSettings())
    assert isinstance(got.error, Usage)
    assert "--time-zone" in str(got.error)
    for zone, hour in (("UTC", 12), ("+08:00", 4), ("Europe/Berlin", 10)):
        (row,) = read(tmp_path, CsvSettings(time_zone=zone)).rows
        assert row[4]["ts"] == f"2026-07-01 {hour:02}:00:00"


def test_a_time_zone_that_there_is_not(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.write(feed.table("t", (ID, SinkColumn("ts", "TIMESTAMP"))), [Row(START + 1, {"id": 1, "ts": None})])
    feed.checkpoint(START + 9)
    assert "'Nowhere' is no time zone" in str(read(tmp_path, CsvSettings(time_zone="Nowhere")).error)


def test_a_local_time_that_there_is_twice_is_refused(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", (ID, SinkColumn("ts", "TIMESTAMP")))
    feed.write(table, [Row(START + 1, {"id": 1, "ts": "2026-10-25 02:30:00"})])
    feed.checkpoint(START + 9)
    assert "column ts" in str(read(tmp_path, CsvSettings(time_zone="Europe/Berlin")).error)


def test_numbers_of_labels_need_the_labels(tmp_path: Path) -> None:
    feed = Feed(tmp_path, FeedForm(protocol="canal-json"))
    column = SinkColumn("e", "ENUM", elems=("x",))
    table = feed.table("t", (ID, replace(column, elems=())))
    table.versions[START] = (ID, column)
    feed.write(table, [Row(START + 1, {"id": 1, "e": "x"})])
    feed.checkpoint(START + 9)
    assert "no labels" in str(read(tmp_path).error)


def test_other_types_are_refused_by_name_unless_they_are_excluded(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.table("g", (ID, SinkColumn("g", "GEOMETRY")))
    feed.checkpoint(START + 9)
    with pytest.raises(Exception, match="column g has the type GEOMETRY"):
        read(tmp_path)
    assert read(tmp_path, wanted=lambda name: name.table != "g").error is None
