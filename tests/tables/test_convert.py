"""What an ALTER makes of rows that are there."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from strata.errors import Usage
from strata.schema.model.definition import Column, TableDefinition
from strata.tables.convert import convert_rows, state_schema
from tests.tables.changes import definition


def convert(old: str, new: str, values: list[Any]) -> list[Any]:
    before, after = definition({"c": old}, key=()), definition({"c": new}, key=())
    rows = pa.table({"c": values}, schema=state_schema(before))
    return convert_rows(rows, before, after, {})["c"].to_pylist()


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


def test_what_depends_on_the_session_is_refused() -> None:
    with pytest.raises(Usage, match="depends on the session"):
        convert("datetime", "timestamp", [datetime(2020, 1, 2)])  # noqa: DTZ001  DATETIME has no zone
    with pytest.raises(Usage, match="is not known here"):
        convert("varchar(9)", "int", ["a"])


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
    rows = convert_rows(pa.table({"id": [1]}, schema=state_schema(old)), old, new, {})
    assert rows.to_pylist() == [
        {"a": 7, "id": 1, "b": None, "c": "", "d": Decimal("0.00"), "e": "x", "f": "y", "g": None, "h": b"ab",
         "i": date(2020, 1, 2)},
    ]  # fmt: skip


def test_defaults_that_nobody_logged_are_refused_where_there_are_rows() -> None:
    old = definition({"id": "int"})
    new = TableDefinition((Column("id", "int"), Column("t", "datetime", default="now()", default_is_expression=True)))
    empty = state_schema(old).empty_table()
    assert convert_rows(empty, old, new, {}).num_rows == 0
    with pytest.raises(Usage, match="the new column t"):
        convert_rows(pa.table({"id": [1]}, schema=state_schema(old)), old, new, {})


def test_renames_follow_the_values() -> None:
    old = definition({"a": "int", "b": "int", "Old": "int"})
    new = definition({"b": "int", "a": "int", "new": "int"})
    rows = pa.table({"a": [1], "b": [2], "Old": [3]}, schema=state_schema(old))
    assert convert_rows(rows, old, new, {"a": "b", "b": "a", "new": "old"}).to_pylist() == [{"b": 1, "a": 2, "new": 3}]


def test_a_column_that_is_dropped_and_added_is_another_one() -> None:
    old = definition({"a": "int", "b": "int"})
    rows = pa.table({"a": [1], "b": [2]}, schema=state_schema(old))
    assert convert_rows(rows, old, old, {}, added={"b"}).to_pylist() == [{"a": 1, "b": None}]
    # The old name of a renamed column can be given to a new one.
    new = definition({"c": "int", "a": "int"})
    assert convert_rows(rows, old, new, {"c": "a"}).to_pylist() == [{"c": 1, "a": None}]
