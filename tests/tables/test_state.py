"""What changes amount to, against a plain model: a dictionary by key, or a bag of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.errors import Usage
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.state import apply_changes, row_codes
from tests.tables.changes import changes, definition

FIELDS = {"a": pa.int32(), "b": pa.string(), "v": pa.int32()}
KEYED = definition({"a": "int NOT NULL", "b": "varchar(9) NOT NULL", "v": "int"}, key=("b", "a"))
KEYLESS = definition({"a": "int NOT NULL", "b": "varchar(9) NOT NULL", "v": "int"}, key=())

POINT = {"srid": 0, "wkb": b"1"}

Row = tuple[int, str, int | None]
ROWS = st.tuples(st.integers(0, 2), st.sampled_from("xy"), st.sampled_from([None, 1, 2]))


def as_dict(row: Row) -> dict[str, Any]:
    return dict(zip(FIELDS, row, strict=True))


def played(table: Any, log: list[dict[str, Any]], cuts: int = 1) -> list[Row]:
    """Applies the log in some pieces, each shuffled: the order in the files is not the order of the changes."""
    state = state_schema(table).empty_table()
    size = max(1, -(-len(log) // cuts))
    for at in range(0, len(log), size):
        batch = changes(FIELDS, log[at : at + size][::-1]).batch
        state = apply_changes(state, pa.Table.from_batches([batch]), table)
    return [tuple(row.values()) for row in state.to_pylist()]


@st.composite
def histories(draw: st.DrawFn, *, keyed: bool) -> tuple[list[dict[str, Any]], list[Row]]:
    """A log that a server could write, and the rows it leaves."""
    rows: list[Row] = []
    log: list[dict[str, Any]] = []

    def free(row: Row) -> bool:
        return not keyed or all((row[0], row[1]) != (other[0], other[1]) for other in rows)

    for seq in range(1, draw(st.integers(0, 25)) + 1):
        place = {"seq": 1 + seq // 3, "row": seq % 3}
        what = draw(st.sampled_from(["insert", "update", "delete"]))
        if what == "insert":
            row = draw(ROWS)
            if free(row):
                rows.append(row)
                log.append({"op": "insert", "after": as_dict(row), **place})
        elif rows:
            old = rows.pop(draw(st.integers(0, len(rows) - 1)))
            new = draw(ROWS) if what == "update" else None
            if new is not None and not free(new):
                new = old
            if new is not None:
                rows.append(new)
            after = {} if new is None else {"after": as_dict(new)}
            log.append({"op": what, "before": as_dict(old), **after, **place})
    return log, rows


@given(histories(keyed=True), st.integers(1, 4))
def test_rows_by_key(history: tuple[list[dict[str, Any]], list[Row]], cuts: int) -> None:
    log, rows = history
    assert sorted(played(KEYED, log, cuts), key=str) == sorted(rows, key=str)


@given(histories(keyed=False), st.integers(1, 4))
def test_rows_without_a_key(history: tuple[list[dict[str, Any]], list[Row]], cuts: int) -> None:
    log, rows = history
    assert Counter(played(KEYLESS, log, cuts)) == Counter(rows)


@given(histories(keyed=True))
def test_minimal_images(history: tuple[list[dict[str, Any]], list[Row]]) -> None:
    log, rows = history
    for change in log:
        if _minimal(change).get("missing", [])[1:] and _key(change["before"]) != _key(change["after"]):
            with pytest.raises(Usage, match="changed their key"):
                played(KEYED, [_minimal(each) for each in log])
            return
    assert sorted(played(KEYED, [_minimal(each) for each in log], 2), key=str) == sorted(rows, key=str)


def _key(image: dict[str, Any]) -> tuple[Any, ...]:
    return image["a"], image["b"]


def _minimal(change: dict[str, Any]) -> dict[str, Any]:
    """As `binlog_row_image=MINIMAL` logs it: the key before, the changed columns after."""
    if change["op"] == "insert":
        return change
    before = change["before"]
    minimal = {**change, "before": {"a": before["a"], "b": before["b"]}, "missing": ["_before.v"]}
    if change["op"] == "update":
        same = [name for name in FIELDS if change["after"][name] == before[name]]
        minimal["after"] = {name: value for name, value in change["after"].items() if name not in same}
        minimal["missing"] += same
    return minimal


def test_minimal_images_without_a_key_have_whole_images_before() -> None:
    log = [
        {"op": "insert", "seq": 1, "after": {"a": 1, "b": "x", "v": 5}},
        {"op": "update", "seq": 2, "before": {"a": 1, "b": "x", "v": 5}, "after": {"v": 6}, "missing": ["a", "b"]},
    ]
    assert played(KEYLESS, log) == [(1, "x", 6)]


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        ("point", pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]), POINT),
        ("vector(2)", pa.list_(pa.float32()), [1.0, 2.0]),
        ("decimal(65,0)", pa.string(), "1" * 65),
    ],
)
@pytest.mark.parametrize("given", [True, False])
def test_columns_of_every_kind_are_completed_without_a_key(
    column: str, kind: pa.DataType, value: Any, given: bool
) -> None:
    table, fields = definition({"a": "int", "g": column}, key=()), {"a": pa.int32(), "g": kind}
    held = value if given else None
    log = [
        {"op": "insert", "seq": 1, "after": {"a": 1, "g": held}},
        {"op": "insert", "seq": 2, "after": {"a": 2, "g": value}},
        {"op": "update", "seq": 3, "before": {"a": 1, "g": held}, "after": {"a": 3}, "missing": ["g"]},
    ]
    batch = pa.Table.from_batches([changes(fields, log).batch])
    state = apply_changes(state_schema(table).empty_table(), batch, table)
    assert sorted(state.to_pylist(), key=lambda row: row["a"]) == [{"a": 2, "g": value}, {"a": 3, "g": held}]


def test_partial_updates_are_applied_to_the_last_document_and_refused_without_one() -> None:
    table, fields = definition({"id": "int NOT NULL", "_op": "json"}), {"id": pa.int32(), "__op": pa.string()}

    def update(seq: int, key: int, *diffs: str) -> dict[str, Any]:
        image = {"before": {"id": key}, "missing": ["id", "_before._op"], "invalid": {"_op": f"[{', '.join(diffs)}]"}}
        return {"op": "update", "seq": seq, **image}

    log = [
        {"op": "insert", "seq": 1, "after": {"id": 1, "__op": '{"a": 1.50, "b": [1]}'}},
        {"op": "insert", "seq": 2, "after": {"id": 2, "__op": '{"a": 9}'}},
        update(3, 1, '{"op": "replace", "path": "$.a", "value": 2.10}'),
        {"op": "update", "seq": 4, "before": {"id": 1}, "missing": ["id", "_op", "_before._op"]},
        update(5, 1, '{"op": "insert", "path": "$.b[0]", "value": "x"}', '{"op": "remove", "path": "$.a"}'),
        {"op": "update", "seq": 6, "before": {"id": 2}, "after": {"__op": "[]"}, "missing": ["id", "_before._op"]},
    ]
    state = pa.table({"id": pa.array([], pa.int32()), "__op": pa.array([], pa.string())})
    for part in (log[:4], log[4:]):
        state = apply_changes(state, pa.Table.from_batches([changes(fields, part).batch]), table)
    assert state.sort_by("id").to_pylist() == [{"id": 1, "__op": '{"b": ["x", 1]}'}, {"id": 2, "__op": "[]"}]
    unknown = pa.Table.from_batches([changes(fields, [log[2]]).batch])
    with pytest.raises(Usage, match="only what changed"):
        apply_changes(state.slice(0, 0), unknown, table)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [1.5, None, 1.5]),
        (pa.list_(pa.float32()), [[1.0, 2.0], None, [1.0, 2.0]]),
        (pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]), [POINT, None, POINT]),
        (pa.decimal128(20, 0), [2**63, 1, 2**63]),
        (pa.bool_(), [True, False, True]),
        (pa.timestamp("us", tz="UTC"), [5, None, 5]),
    ],
    ids=str,
)  # fmt: skip
def test_equal_rows_have_equal_numbers(kind: pa.DataType, values: list[Any]) -> None:
    first, second, third = row_codes(pa.table({"c": pa.chunked_array([pa.array(values, kind)]), "n": [1, 1, 1]}))
    assert first == third != second


def test_a_null_struct_is_not_a_struct_of_nulls() -> None:
    kind = pa.struct([("a", pa.int32())])
    first, second = row_codes(pa.table({"c": pa.array([None, {"a": None}], kind)}))
    assert first != second


def test_many_columns_of_many_values_do_not_overflow() -> None:
    rows = pa.table({f"c{at}": list(range(1000)) for at in range(12)})
    assert sorted(row_codes(rows)) == list(range(1000))
