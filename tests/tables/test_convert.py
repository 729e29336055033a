"""What an ALTER makes of rows that are there."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from strata_cdc.errors import ReadAgainError, Usage
from strata_cdc.schema.history.effects import effect_of_columns
from strata_cdc.schema.model.definition import Column, TableDefinition
from strata_cdc.schema.model.row_effects import EffectKind, RowEffect, ZeroedDate
from strata_cdc.tables.convert import convert_exact_rows, convert_rows, exact_schema, state_schema
from tests.tables.changes import definition


def altered(
    rows: pa.Table, before: TableDefinition, after: TableDefinition, origins: list[int | None] | None = None
) -> pa.Table:
    return convert_rows(rows, before, after, effect_of_columns(before, after, origins=origins))


def exactly_altered(rows: pa.Table, before: TableDefinition, after: TableDefinition) -> pa.Table:
    return convert_exact_rows(rows, before, after, effect_of_columns(before, after))


def convert(old: str, new: str, values: list[Any]) -> list[Any]:
    before, after = definition({"c": old}, key=()), definition({"c": new}, key=())
    rows = pa.table({"c": values}, schema=state_schema(before))
    return altered(rows, before, after)["c"].to_pylist()


@pytest.mark.parametrize(
    ("old", "new", "values", "wanted"),
    [
        ("int", "bigint", [1, None], [1, None]),
        ("int unsigned", "smallint", [7], [7]),
        ("smallint unsigned", "decimal(9,3)", [9, None], [Decimal("9.000"), None]),
        ("bigint unsigned", "decimal(38,2)", [Decimal(2**64 - 1)], [Decimal("18446744073709551615.00")]),
        ("decimal(10,2)", "decimal(14,4)", [Decimal("-1.25")], [Decimal("-1.2500")]),
        ("decimal(10,2)", "decimal(10,1)", [Decimal("-1.25"), Decimal("1.35")], [Decimal("-1.3"), Decimal("1.4")]),
        ("decimal(10,2)", "int", [Decimal("2.50"), Decimal("-2.50")], [3, -3]),
        ("int", "varchar(20)", [-5, None], ["-5", None]),
        ("decimal(10,2)", "varchar(20)", [Decimal("1.50")], ["1.50"]),
        ("varchar(20)", "int", ["12"], [12]),
        ("enum('a','b')", "enum('b','a','c')", ["a"], ["a"]),
        ("enum('a','b')", "varchar(3)", ["a"], ["a"]),
        ("varchar(9)", "char(9)", ["a  "], ["a"]),
        ("date", "datetime", [date(2020, 1, 2)], [datetime(2020, 1, 2)]),  # noqa: DTZ001  DATETIME has no zone
        (
            "datetime(6)",
            "datetime(1)",
            [datetime(2020, 1, 2, 0, 0, 0, 250000), datetime(2020, 1, 2, 0, 0, 59, 990000)],  # noqa: DTZ001  as above
            [datetime(2020, 1, 2, 0, 0, 0, 300000), datetime(2020, 1, 2, 0, 1)],  # noqa: DTZ001  as above
        ),
        ("float", "double", [1.5], [1.5]),
    ],
)
def test_values_as_the_server_converts_them(old: str, new: str, values: list[Any], wanted: list[Any]) -> None:
    assert convert(old, new, values) == wanted


UTF8, LATIN1, ASCII = "utf8mb4", "latin1", "ascii"


def in_charsets(old: str, charset: str, new: str, after: str, values: list[Any]) -> list[Any]:
    before = TableDefinition((Column("c", old, character_set=charset, collation=f"{charset}_bin"),))
    changed = TableDefinition((Column("c", new, character_set=after, collation=f"{after}_bin"),))
    rows = pa.table({"c": values}, schema=state_schema(before))
    return altered(rows, before, changed)["c"].to_pylist()


@pytest.mark.parametrize(
    ("old", "new", "values", "wanted"),
    [
        ("bigint", "double", [2**53 + 1], [2.0**53]),
        ("decimal(5,2)", "varchar(9)", [Decimal("-0.05"), Decimal("0.00")], ["-0.05", "0.00"]),
        ("decimal(12,8)", "varchar(20)", [Decimal("0.00000010")], ["0.00000010"]),
        ("decimal(65,2)", "decimal(10,1)", ["-12345.65"], [Decimal("-12345.7")]),
        ("decimal(10,1)", "decimal(65,2)", [Decimal("-0.5"), None], ["-0.50", None]),
        ("double", "decimal(10,2)", [1.005, 0.125, -2.5, 1e-300], [Decimal(n) for n in ("1.01", "0.13", "-2.50", "0")]),
        ("double", "int", [2.5, -2.5, 3.5], [2, -2, 4]),
        ("double", "varchar(30)", [1e20, 0.1, 123456.0], ["1e20", "0.1", "123456"]),
        ("bit(8)", "int", [200], [200]),
        ("int", "bit(1)", [1, 0], [True, False]),
        ("int(5) zerofill", "varchar(9)", [42], ["00042"]),
        ("year", "varchar(9)", [0, 2020], ["0000", "2020"]),
        ("int", "enum('a','b')", [2, None], ["b", None]),
        ("enum('a','b')", "int", ["b", ""], [2, 0]),
        ("set('a','b','c')", "set('c','b','a')", ["a,c"], ["c,a"]),
        ("set('a','b','c')", "int", ["a,c", ""], [5, 0]),
        ("varchar(9)", "set('b','a')", ["a,b,a"], ["b,a"]),
        ("varchar(9)", "varchar(2)", ["ab   "], ["ab"]),
        ("varchar(9)", "decimal(5,1)", ["-1.25"], [Decimal("-1.3")]),
        ("varchar(9)", "time(1)", ["-10:11:12"], [-36672000000]),
        ("time(2)", "varchar(12)", [-1500000, 3020399990000], ["-00:00:01.50", "838:59:59.99"]),
        ("time(2)", "int", [45296_500000], [123457]),
        ("time(1)", "time", [-500000], [-1000000]),
        ("date", "int", [date(2020, 1, 2)], [20200102]),
        ("datetime(1)", "date", [datetime(2020, 1, 2, 23, 59, 59, 500000)], [date(2020, 1, 3)]),  # noqa: DTZ001  as above
        ("datetime(1)", "varchar(30)", [datetime(2020, 1, 2)], ["2020-01-02 00:00:00.0"]),  # noqa: DTZ001  as above
        ("binary(2)", "binary(4)", [b"ab"], [b"ab\0\0"]),
        ("point", "blob", [{"srid": 1, "wkb": b"w"}], [b"\1\0\0\0w"]),
        ("geometry", "blob", [{"srid": 0, "wkb": b""}, None], [b"", None]),
    ],
)
def test_values_between_kinds_of_types(old: str, new: str, values: list[Any], wanted: list[Any]) -> None:
    assert convert(old, new, values) == wanted


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("int", "tinyint", [128]),
        ("int", "int unsigned", [-1]),
        ("decimal(10,2)", "decimal(4,1)", [Decimal("999.95")]),
        ("double", "float", [1e300]),
        ("double", "bigint", [9.3e18]),
        ("varchar(9)", "varchar(2)", ["abc"]),
        ("varchar(9)", "int", ["12a"]),
        ("varchar(9)", "date", ["2020-02-30"]),
        ("varchar(9)", "enum('a')", ["A"]),
        ("enum('a','b')", "enum('a')", ["b"]),
        ("set('a','b')", "set('a')", ["a,b"]),
        ("blob", "varbinary(1)", [b"ab"]),
        ("varbinary(3)", "varchar(3)", [b"\xff"]),
        ("date", "varchar(10)", [None]),
        ("datetime(1)", "datetime", [datetime(9999, 12, 31, 23, 59, 59, 500000)]),  # noqa: DTZ001  DATETIME has no zone
        ("datetime", "timestamp", [datetime(2020, 1, 2)]),  # noqa: DTZ001  as above
        ("varchar(9)", "json", ["1"]),
        ("bit(8)", "varchar(3)", [65]),
    ],
)
def test_values_that_the_server_changes_in_ways_of_its_own_are_refused(old: str, new: str, values: list[Any]) -> None:
    with pytest.raises(ReadAgainError, match=r"not known here|time zone"):
        convert(old, new, values)
    assert convert(old, new, []) == []


def test_charsets_keep_texts_that_they_have() -> None:
    assert in_charsets("varchar(9)", UTF8, "varchar(9)", LATIN1, ["é€\x81"]) == ["é€\x81"]
    assert in_charsets("varchar(9)", LATIN1, "text", UTF8, ["é"]) == ["é"]
    assert in_charsets("varchar(9)", LATIN1, "varbinary(9)", ASCII, ["é€\x81"]) == [b"\xe9\x80\x81"]
    for charset in (LATIN1, ASCII, "utf8mb3", "gbk"):
        with pytest.raises(ReadAgainError, match="lack"):
            in_charsets("varchar(9)", UTF8, "varchar(9)", charset, ["a", "😀"])


@pytest.mark.parametrize(
    ("old", "new", "text", "form", "wanted"),
    [
        (("varchar(9)", "cp932"), ("text", "cp932"), "\u7e8a", "0xED40", "0xED40"),
        (("varchar(9)", "cp932"), ("varchar(9)", "cp932"), "\u7e8a", None, None),
        (("varchar(9)", "cp932"), ("varchar(9)", "utf8mb4"), "\u7e8a", "0xED40", "gone"),
        (("varchar(9)", "utf8mb4"), ("varchar(9)", "sjis"), "ab", None, None),
        (("varchar(9)", "utf8mb4"), ("varchar(9)", "sjis"), "a\\", None, "refused"),
        (("varchar(9)", "cp932"), ("char(9)", "cp932"), "\u7e8a ", "0xED4020", "refused"),
        (("varchar(9)", "cp932"), ("varbinary(9)", None), "\u7e8a", None, "refused"),
        (("varchar(9)", "cp932"), ("varbinary(9)", None), "ab", None, "gone"),
        (("int", None), ("varchar(9)", "armscii8"), 12, None, None),
        (("decimal(3,1)", None), ("varchar(9)", "armscii8"), Decimal("1.2"), None, "refused"),
    ],
)
def test_bytes_of_texts_stay_or_are_refused(
    old: tuple[str, str | None], new: tuple[str, str | None], text: Any, form: str | None, wanted: str | None
) -> None:
    """A text of several forms: of which one it is in another charset only the server knows."""
    before, after = (TableDefinition((Column("c", kind, character_set=charset),)) for kind, charset in (old, new))
    values = {"c": [text], "_invalid\0c": [form]}
    rows = pa.table({name: values[name] for name in exact_schema(before).names}, schema=exact_schema(before))
    if wanted == "refused":
        with pytest.raises(ReadAgainError):
            exactly_altered(rows, before, after)
    else:
        [found] = exactly_altered(rows, before, after).to_pylist()
        assert found.get("_invalid\0c", "gone") == wanted


def test_labels_are_found_as_their_collation_compares() -> None:
    before = TableDefinition((Column("c", "enum('A','b')", character_set=UTF8, collation="utf8mb4_bin"),))
    rows = pa.table({"c": ["A", "b", ""]}, schema=state_schema(before))
    without_case = Column("c", "enum('B','a')", character_set=UTF8, collation="utf8mb4_0900_ai_ci")
    assert altered(rows, before, TableDefinition((without_case,)))["c"].to_pylist() == ["a", "B", ""]
    with_case = Column("c", "enum('B','a')", character_set=UTF8, collation="utf8mb4_bin")
    with pytest.raises(ReadAgainError, match="no labels of it, as 'A'"):
        altered(rows, before, TableDefinition((with_case,)))


def test_a_char_in_place_keeps_its_blanks() -> None:
    # In place (9.7) BINARY has the blanks of a CHAR of one byte a character, in a copy it has zeros.
    assert in_charsets("char(2)", LATIN1, "binary(2)", LATIN1, ["ab"]) == [b"ab"]
    with pytest.raises(ReadAgainError, match="shorter than their column"):
        in_charsets("char(2)", LATIN1, "binary(2)", LATIN1, ["a"])


def test_null_where_none_may_be_is_a_zero() -> None:
    kinds = {
        "int": 0,
        "decimal(5,2)": 0,
        "varchar(3)": "",
        "date": None,
        "binary(2)": b"\0\0",
        "time": 0,
        "bit(1)": False,
        "bit(64)": 0,
        "double": 0.0,
        "float": 0.0,
        "decimal(65,2)": "0.00",
        "year": 0,
        "enum('a')": "",
        "set('a')": "",
        "text": "",
        "blob": b"",
        "datetime": None,
    }
    for kind, zero in kinds.items():
        before, after = definition({"c": kind}, key=()), definition({"c": f"{kind} NOT NULL"}, key=())
        rows = pa.table({"c": [None]}, schema=state_schema(before))
        assert altered(rows, before, after)["c"].to_pylist() == [zero]


def test_new_columns_have_their_defaults() -> None:
    old = definition({"id": "int NOT NULL"})
    new = TableDefinition(
        (
            Column("a", "int", nullable=False, default="7"),
            Column("id", "int", nullable=False),
            Column("b", "varchar(9)"),
            Column("c", "varchar(9)", nullable=False),
            Column("d", "decimal(10,2)", nullable=False),
            Column("e", "enum('x','y')", nullable=False),
            Column("f", "enum('x','y')", nullable=False, default="y"),
            Column("g", "date", nullable=False),
            Column("h", "binary(2)", nullable=False, default="ab"),
            Column("i", "date", default="2020-01-02"),
        )
    )
    rows = altered(pa.table({"id": [1]}, schema=state_schema(old)), old, new)
    assert rows.to_pylist() == [
        {"a": 7, "id": 1, "b": None, "c": "", "d": Decimal("0.00"), "e": "x", "f": "y", "g": None, "h": b"ab",
         "i": date(2020, 1, 2)},
    ]  # fmt: skip


def test_defaults_that_nobody_logged_are_refused_where_there_are_rows() -> None:
    old = definition({"id": "int"})
    new = TableDefinition((Column("id", "int"), Column("t", "datetime", default="now()", default_is_expression=True)))
    empty = state_schema(old).empty_table()
    assert altered(empty, old, new).num_rows == 0
    with pytest.raises(Usage, match="the new column t"):
        altered(pa.table({"id": [1]}, schema=state_schema(old)), old, new)


def test_renames_follow_the_values() -> None:
    old = definition({"a": "int", "b": "int", "Old": "int"})
    new = definition({"b": "int", "a": "int", "new": "int"})
    rows = pa.table({"a": [1], "b": [2], "Old": [3]}, schema=state_schema(old))
    assert altered(rows, old, new, [0, 1, 2]).to_pylist() == [{"b": 1, "a": 2, "new": 3}]


def test_a_column_that_is_dropped_and_added_is_another_one() -> None:
    old = definition({"a": "int", "b": "int"})
    rows = pa.table({"a": [1], "b": [2]}, schema=state_schema(old))
    assert altered(rows, old, old, [0, None]).to_pylist() == [{"a": 1, "b": None}]
    # The old name of a renamed column can be given to a new one.
    new = definition({"c": "int", "a": "int"})
    assert altered(rows, old, new, [0, None]).to_pylist() == [{"c": 1, "a": None}]


@pytest.mark.parametrize(
    ("text", "zeroed"),
    [
        ("0000-00-00", None),
        ("0000-05-05", None),
        ("0000-02-30", ZeroedDate.ON_NO_CALENDAR),
        ("2023-02-29", ZeroedDate.ON_NO_CALENDAR),
        ("2024-11-31 10:00:00", ZeroedDate.ON_NO_CALENDAR),
        ("0000-00-10", ZeroedDate.IN_PARTS),
        ("0000-10-00", ZeroedDate.IN_PARTS),
        ("2024-00-31", ZeroedDate.IN_PARTS),
        ("2024-00-00", ZeroedDate.IN_PARTS),
        ("0300-00-00", ZeroedDate.IN_PARTS),
    ],
)
@pytest.mark.parametrize("date", list(ZeroedDate))
def test_dates_that_a_server_may_have_made_zero_are_refused(text: str, zeroed: ZeroedDate | None, date: ZeroedDate):
    table = definition({"c": "datetime"}, key=())
    rows = pa.table([[None], [text]], schema=exact_schema(table))
    effect = RowEffect(kind=EffectKind.NONE, zeroed_dates=(date,))
    if date is zeroed:
        with pytest.raises(ReadAgainError, match=f"c has dates {date.value}"):
            convert_exact_rows(rows, table, table, effect)
    else:
        assert convert_exact_rows(rows, table, table, effect).equals(rows)
