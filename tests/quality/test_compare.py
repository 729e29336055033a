"""Rows held against rows: what is said of those that differ, and what is never shown."""

from __future__ import annotations

import pyarrow as pa

from strata_cdc.quality.checks.sensitive import MASK
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.quality.reconcile.compare import ShownRows, compare_by_key
from strata_cdc.quality.reconcile.lake_rows import LakeRows
from strata_cdc.quality.reconcile.report import RowDifference, Side
from strata_cdc.tables.convert import state_schema
from tests.tables.changes import definition

SHAPE = definition({"id": "int NOT NULL", "email": "varchar(20)", "age": "int"})
SCHEMA = state_schema(SHAPE)


def rows(*found: tuple[int, str | None, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in found], SCHEMA)


def test_values_of_hidden_columns_are_shown_nowhere() -> None:
    none = rows().select(["id"])
    lake = LakeRows(TableState(SHAPE, rows((1, "a@x", 3), (2, "b@x", 3), (3, None, 3))), none, None, None, none)
    server = rows((1, "c@x", 4), (3, "d@x", 3), (4, "e@x", 3))
    found = compare_by_key(lake, server, None, ShownRows(hidden=frozenset({"email"})))
    assert (found.compared, found.different) == (4, 4)
    assert set(map(str, found.differences)) == {
        "differs id = 1; lake: email = '(sensitive)', age = 3; server: email = '(sensitive)', age = 4",
        "differs id = 3; lake: email = NULL; server: email = '(sensitive)'",
        "only in the lake id = 2; lake: email = '(sensitive)', age = 3",
        "only on the server id = 4; server: email = '(sensitive)', age = 3",
    }
    hidden_key = compare_by_key(lake, server, None, ShownRows(most=1, hidden=frozenset({"id"})))
    assert hidden_key.differences == (
        RowDifference(Side.DIFFERS, {"id": MASK}, {"email": "a@x", "age": 3}, {"email": "c@x", "age": 4}),
    )


def test_of_a_long_value_people_see_where_it_differs() -> None:
    """A BLOB of 4 GB is no line of a log; JSON has it."""
    same = "78" * 1_000_000
    shown = str(RowDifference(Side.DIFFERS, {"id": "k" * 3000}, {"b": same + "00"}, {"b": same + "01" + same}))
    assert len(shown) < 3600
    assert "k" * 3000 in shown
    assert "lake: b = ...878787878" in shown
    assert "787800' (2,000,002 characters); server: b = ...878787878" in shown
    assert "787801787878" in shown
    short = str(RowDifference(Side.ONLY_SERVER, {"id": 1}, None, {"b": same, "v": None}))
    assert short.startswith("only on the server id = 1; server: b = '7878")
    assert short.endswith("... (2,000,000 characters), v = NULL")
