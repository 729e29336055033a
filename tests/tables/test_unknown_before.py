"""Updates of which nothing is known before: what is not refused is the table, whatever became of the keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strata_cdc.errors import Usage
from strata_cdc.mirrors.layout import SEQ
from strata_cdc.mirrors.reduce import reduce_changes
from strata_cdc.schema.model.definition import GeneratedKind
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.unknown_before import apply_by_own_keys
from tests.tables.changes import changes, definition

FIELDS = {"k": pa.int32(), "v": pa.int32()}
TABLE = definition({"k": "int NOT NULL", "v": "int"}, key=("k",))
NOTHING_KNOWN = ["_before.k", "_before.v"]

Rows = dict[int, tuple[int, int]]
"""TiDB's own number of a row, with its key and its value."""

written = st.dictionaries(st.integers(0, 4), st.none() | st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1)
"""What a transaction leaves of some rows."""


def next_rows(rows: Rows, transaction: dict[int, tuple[int, int] | None]) -> Rows | None:
    """The rows after a transaction; None if a key would be there twice."""
    after = {number: row for number, row in (rows | transaction).items() if row is not None}
    return after if len({key for key, _ in after.values()}) == len(after) else None


def logged(
    rows: Rows, transaction: dict[int, tuple[int, int] | None], seq: int, *, is_split: bool
) -> list[dict[str, Any]]:
    """The changes as TiCDC writes them: deletes first."""
    found: list[dict[str, Any]] = []
    for number, row in transaction.items():
        old = rows.get(number)
        if row == old:
            continue
        is_moved = old is not None and row is not None and old[0] != row[0]
        if old is not None and (row is None or (is_moved and is_split)):
            found.append({"op": "delete", "before": {"k": old[0], "v": old[1]}})
        if row is not None and (old is None or (is_moved and is_split)):
            found.append({"op": "insert", "after": {"k": row[0], "v": row[1]}})
        elif row is not None and old is not None:
            found.append({"op": "update", "before": {}, "after": {"k": row[0], "v": row[1]}, "missing": NOTHING_KNOWN})
    ordered = sorted(found, key=lambda change: change["op"] != "delete")
    return [{**change, "seq": seq, "row": at} for at, change in enumerate(ordered, start=1)]


def state_of(rows: Rows) -> set[tuple[int, int]]:
    return set(rows.values())


def as_set(table: pa.Table) -> set[tuple[int, int]]:
    found = table.select(["k", "v"]).to_pylist()
    assert len(found) == len({row["k"] for row in found})
    return {(row["k"], row["v"]) for row in found}


@given(st.lists(written, max_size=8), st.booleans(), st.integers(1, 3))
def test_what_is_not_refused_is_the_table(drawn: list[Any], is_split: bool, size: int) -> None:
    rows: Rows = {}
    state = state_schema(TABLE).empty_table()
    transactions = [drawn[at : at + size] for at in range(0, len(drawn), size)]
    seq = 0
    for together in transactions:
        log: list[dict[str, Any]] = []
        has_moved = False
        for transaction in together:
            after = next_rows(rows, transaction)
            if after is None:
                continue
            seq += 1
            log += logged(rows, transaction, seq, is_split=is_split)
            has_moved |= any(number in rows and rows[number][0] != row[0] for number, row in after.items())
            rows = after
        batch = pa.Table.from_batches([changes(FIELDS, log).batch])
        before = state
        try:
            state = apply_by_own_keys(before, batch, TABLE)
        except Usage:
            assert has_moved
            assert not is_split
            return
        assert as_set(state) == state_of(rows)
        if log:
            check_reduced(before, batch, rows)


def check_reduced(before: pa.Table, batch: pa.Table, rows: Rows) -> None:
    """A mirror deletes the rows that are gone, each of which it has, and adds the others."""
    reduced = reduce_changes(batch, TABLE, ["k"], lambda keys: keys)
    counts = dict(zip(reduced.gone.keys["k"].to_pylist(), reduced.gone.counts.tolist(), strict=True))
    had = {row["k"]: (row["k"], row["v"]) for row in before.to_pylist()}
    assert all((key in had) == bool(count) for key, count in counts.items())
    left = {row for key, row in had.items() if not counts.get(key)}
    assert left | as_set(reduced.put.drop_columns([SEQ])) == state_of(rows)


def test_images_that_lack_some_columns_are_no_such_updates() -> None:
    """The server may have logged another unique key."""
    row = {"op": "update", "before": {"v": 1}, "after": {"k": 1, "v": 2}, "missing": ["_before.k"]}
    batch = pa.Table.from_batches([changes(FIELDS, [row]).batch])
    state = pa.Table.from_pylist([{"k": 1, "v": 1}], schema=state_schema(TABLE))
    with pytest.raises(Usage, match="which identify a row") as caught:
        apply_by_own_keys(state, batch, TABLE)
    assert "binlog_row_image = FULL" in (caught.value.remedy or "")
    # MariaDB logs no generated columns of updates, and no setting of it changes that.
    computed = [replace(one, generated=GeneratedKind.STORED) if one.name == "k" else one for one in TABLE.columns]
    with pytest.raises(Usage, match="which identify a row and are generated") as caught:
        apply_by_own_keys(state, batch, replace(TABLE, columns=tuple(computed)))
    assert "binlog_row_image" not in (caught.value.remedy or "")
