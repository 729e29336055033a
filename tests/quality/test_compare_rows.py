"""Replayed rows beside selected ones."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from strata_cdc.quality.proof.replay import TableState
from strata_cdc.tables.convert import state_schema
from tests.quality.compare_rows import compare_rows
from tests.tables.changes import definition

ALL = definition(
    {"a": "int", "b": "varchar(9)", "c": "time(3)", "d": "bit(3)", "e": "bit(1)", "f": "point", "g": "vector(2)",
     "h": "date", "i": "decimal(5,1)", "j": "json", "k": "binary(2)"},
    key=(),
)  # fmt: skip
SELECTED = (
    1, "x", timedelta(hours=-1), b"\5", b"\1", b"\0\0\0\0wkb", b"\0\0\x80\x3f\0\0\0\x40", date(2020, 1, 2),
    Decimal("1.5"), "{}", b"ab",
)  # fmt: skip
REPLAYED: dict[str, Any] = {
    "a": 1, "b": "x", "c": -3_600_000_000, "d": 5, "e": True, "f": {"srid": 0, "wkb": b"wkb"}, "g": [1.0, 2.0],
    "h": date(2020, 1, 2), "i": Decimal("1.5"), "j": "{}", "k": b"ab",
}  # fmt: skip


def state(*rows: dict[str, Any]) -> TableState:
    return TableState(ALL, pa.Table.from_pylist(list(rows), schema=state_schema(ALL)))


def test_equal_rows_of_all_types() -> None:
    nothing = (None,) * len(SELECTED)
    found = compare_rows(state(REPLAYED, {}, REPLAYED), [nothing, SELECTED, SELECTED])
    assert found.equal
    assert (found.replayed, found.selected, found.examples) == (3, 3, ())


def test_rows_are_counted() -> None:
    found = compare_rows(state(REPLAYED, REPLAYED, {"a": 2}), [SELECTED, SELECTED, SELECTED])
    assert not found.equal
    assert (found.only_replayed, found.only_selected) == (1, 1)


def test_zero_dates_have_no_value() -> None:
    selected = (*SELECTED[:7], "0000-00-00", *SELECTED[8:])
    assert compare_rows(state({**REPLAYED, "h": None}), [selected]).equal


def test_tables_without_rows_are_equal() -> None:
    assert compare_rows(state(), []).equal
