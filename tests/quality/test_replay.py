"""Change tables replayed over DDL: the rows go where their table goes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.quality.proof.replay import replay
from strata_cdc.schema.history.effects import effect_of_columns
from strata_cdc.schema.history.versions import RowRemoval, TableChange
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.schema.model.row_effects import ALL_ROWS_GO, NO_EFFECT, EffectKind, RowEffect
from tests.tables.changes import changes, definition

OLD = definition({"id": "int NOT NULL", "a": "int"})
NEW = definition({"id": "int NOT NULL", "b": "varchar(9)"})
ORDERS, COPY, GONE = (TableName("shop", name) for name in ("orders", "_orders_gho", "_orders_del"))
FIELDS: dict[int, dict[str, pa.DataType]] = {
    id(OLD): {"id": pa.int32(), "a": pa.int32()},
    id(NEW): {"id": pa.int32(), "b": pa.string()},
}


def inserted(shape: TableDefinition, version_id: int, *rows: dict[str, Any]) -> pa.Table:
    log = [{"op": "insert", "seq": version_id * 10 + at, "after": row} for at, row in enumerate(rows)]
    return pa.Table.from_batches([changes(FIELDS[id(shape)], log, version_id=version_id).batch])


def change(version_id: int, seq: int, name: TableName, shape: TableDefinition | None, **more: Any) -> TableChange:
    return TableChange(
        name, shape, **{"effect": NO_EFFECT, "version_id": version_id, "order": (seq, 1, version_id), **more}
    )


def rows_after(versions: list[TableChange], tables: dict[TableName, list[pa.Table]]) -> dict[str, list[dict[str, Any]]]:
    found = replay(versions, lambda name: tables.get(name, []), [])
    return {name.table: sorted(state.rows.to_pylist(), key=lambda row: row["id"]) for name, state in found.items()}


def test_rows_are_carried_over_an_alter_and_its_generation() -> None:
    versions = [
        change(1, 1, ORDERS, OLD),
        change(2, 2, ORDERS, NEW, effect=effect_of_columns(OLD, NEW, origins=[0, 1])),
    ]
    first = inserted(OLD, 1, {"id": 1, "a": 5}, {"id": 2, "a": 6})
    update = {"op": "update", "seq": 30, "before": {"id": 1, "b": "5"}, "after": {"id": 1, "b": "x"}}
    second = pa.Table.from_batches([changes(FIELDS[id(NEW)], [update], version_id=2).batch])
    assert rows_after(versions, {ORDERS: [first, second]}) == {"orders": [{"id": 1, "b": "x"}, {"id": 2, "b": "6"}]}


def test_tables_swap_names_in_one_statement() -> None:
    versions = [
        change(1, 1, ORDERS, OLD),
        change(2, 2, COPY, NEW),
        change(3, 3, COPY, None),
        change(3, 3, GONE, OLD, renamed_from=ORDERS),
        change(3, 3, ORDERS, NEW, renamed_from=COPY),
    ]
    tables = {
        ORDERS: [inserted(OLD, 1, {"id": 1, "a": 5}), inserted(NEW, 3, {"id": 2, "b": "later"})],
        COPY: [inserted(NEW, 2, {"id": 1, "b": "5"})],
    }
    assert rows_after(versions, tables) == {
        "orders": [{"id": 1, "b": "5"}, {"id": 2, "b": "later"}],
        "_orders_del": [{"id": 1, "a": 5}],
    }


def test_a_table_that_is_made_again_starts_empty() -> None:
    versions = [
        change(1, 1, ORDERS, OLD),
        change(2, 2, ORDERS, None),
        change(3, 3, ORDERS, OLD),
    ]
    tables = {ORDERS: [inserted(OLD, 1, {"id": 1, "a": 1}), inserted(OLD, 3, {"id": 9, "a": 9})]}
    assert rows_after(versions, tables) == {"orders": [{"id": 9, "a": 9}]}


def test_tables_without_a_row_are_there() -> None:
    assert rows_after([change(1, 1, ORDERS, OLD)], {}) == {"orders": []}


def test_changes_behind_a_gap_are_refused() -> None:
    versions = [
        change(1, 1, ORDERS, OLD),
        change(2, 2, ORDERS, None, gap="ALTER TABLE of another kind"),
    ]
    with pytest.raises(SchemaGapError, match="of another kind"):
        rows_after(versions, {ORDERS: [inserted(OLD, 2, {"id": 1, "a": 1})]})


def truncated(seq: int, name: TableName = ORDERS, *, is_whole: bool = True) -> RowRemoval:
    statement = "TRUNCATE orders" if is_whole else "ALTER TABLE orders DROP PARTITION p0"
    effect = ALL_ROWS_GO if is_whole else RowEffect(kind=EffectKind.REMOVE, partitions=("p0",))
    return RowRemoval(seq, "u:5", 4, name, statement, effect)


def test_truncated_rows_are_gone_and_later_ones_are_there() -> None:
    versions = [change(1, 1, ORDERS, OLD), change(2, 20, ORDERS, OLD)]
    tables = {ORDERS: [inserted(OLD, 1, *({"id": number, "a": 1} for number in range(5))), inserted(OLD, 2, {"id": 9})]}
    for seq, left in ((5, [0, 1, 2, 3, 4, 9]), (12, [3, 4, 9]), (19, [9]), (25, [])):
        found = replay(versions, lambda name: tables.get(name, []), [truncated(seq)])
        assert sorted(found[ORDERS].rows["id"].to_pylist()) == left, seq


def test_a_partition_that_went_leaves_a_doubt_until_all_rows_go() -> None:
    versions = [
        change(1, 1, ORDERS, OLD),
        change(3, 30, GONE, OLD, renamed_from=ORDERS),
        change(3, 30, ORDERS, None),
    ]
    tables = {ORDERS: [inserted(OLD, 1, {"id": 1, "a": 1})]}
    removals = [truncated(12, is_whole=False)]
    with pytest.raises(Usage, match="no log says which") as caught:
        replay(versions, lambda name: tables.get(name, []), removals)
    assert (caught.value.table, caught.value.gtid) == (str(GONE), "u:5")
    for cured in ([truncated(13)], [truncated(35, GONE)]):
        assert replay(versions, lambda name: tables.get(name, []), [*removals, *cured])[GONE].rows.num_rows == 0
    assert replay([*versions, change(4, 40, GONE, None)], lambda name: tables.get(name, []), removals) == {}
