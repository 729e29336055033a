"""The changes of one table through all of its names, in order, and the filters on them."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import LostTableError, PastUnknownError, Usage
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.past.change_filters import ConditionFilter, EveryOf, KeyFilter
from strata_cdc.past.row_paths import key_columns_of
from strata_cdc.past.table_changes import TableChangeBatch, TableChanges
from strata_cdc.past.timeline import ChangeSpan, TableEvent, TableTimeline, Timelines, UnknownChanges
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tracking.track_schema import track_landed
from tests.past.past_world import PastWorld

if TYPE_CHECKING:
    from strata_cdc.past.change_filters import ChangeFilter
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> PastWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return PastWorld(server, tmp_path, name="shop", file_limits=FileLimits(row_group_rows=3))


def timeline(world: PastWorld, table: str, after: int = 0, until: int | None = None) -> TableTimeline:
    """Of a table of the shop."""
    return Timelines(world.lake, world.name, world.engine).timeline_of(TableName("shop", table), after, until)


def read(world: PastWorld, found: TableTimeline, wanted: ChangeFilter | None = None) -> list[Any]:
    """Operation, image before and image after of each change; of an event its statement, or why changes are unknown."""
    lines: list[Any] = []
    order: list[tuple[int, int]] = []
    for part in TableChanges(world.lake, Timelines(world.lake, world.name, world.engine)).read_timeline(found, wanted):
        if isinstance(part, TableChangeBatch):
            before, after, _ = part.images()
            order += zip(part.changes["_seq"].to_pylist(), part.changes["_row"].to_pylist(), strict=True)
            lines += zip(part.changes["_op"].to_pylist(), before, after, strict=True)
        else:
            lines.append(part.reason if isinstance(part, UnknownChanges) else part.statement)
    assert order == sorted(set(order))
    return lines


def changes(lines: list[Any]) -> list[Any]:
    return [line for line in lines if isinstance(line, tuple)]


def test_all_names_of_a_table_in_one_order(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10)); INSERT INTO t VALUES (1, 'a'), (2, 'b');"
        "ALTER TABLE t RENAME COLUMN name TO label, ADD COLUMN n INT DEFAULT 7; UPDATE t SET label = 'c' WHERE id = 1;"
        "RENAME TABLE t TO u; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (9);"
        "DELETE FROM u WHERE id = 2; TRUNCATE TABLE u; INSERT INTO u VALUES (3, 'd', 1)",
        "shop",
    )
    world.publish()
    assert read(world, timeline(world, "u")) == [
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10))",
        ("insert", None, {"id": 1, "name": "a"}),
        ("insert", None, {"id": 2, "name": "b"}),
        "ALTER TABLE t RENAME COLUMN name TO label, ADD COLUMN n INT DEFAULT 7",
        ("update", {"id": 1, "label": "a", "n": 7}, {"id": 1, "label": "c", "n": 7}),
        "RENAME TABLE t TO u",
        ("delete", {"id": 2, "label": "b", "n": 7}, None),
        "TRUNCATE TABLE u",
        ("insert", None, {"id": 3, "label": "d", "n": 1}),
    ]
    assert changes(read(world, timeline(world, "t"))) == [("insert", None, {"id": 9})]
    parts = timeline(world, "u").parts
    truncate = next(part for part in parts if isinstance(part, TableEvent) and "TRUNCATE" in (part.statement or ""))
    assert truncate.removes_all
    ids = {part.ids[1] for part in parts if isinstance(part, ChangeSpan)}
    assert len(ids) == 1
    later = timeline(world, "u", after=truncate.seq)
    assert read(world, later) == [("insert", None, {"id": 3, "label": "d", "n": 1})]
    with pytest.raises(Usage, match="no such table"):
        timeline(world, "nothing")


def test_a_dropped_table_and_one_that_is_made_again(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); DROP TABLE t;"
        "CREATE TABLE t (id INT PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 2); DROP TABLE t",
        "shop",
    )
    world.publish()
    found = timeline(world, "t")
    assert [line[0] if isinstance(line, tuple) else str(line)[:6] for line in read(world, found)] == [
        "CREATE", "insert", "DROP T", "CREATE", "insert", "DROP T",
    ]  # fmt: skip
    assert found.last is None


def test_a_copy_that_is_swapped_in_is_the_table(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10)); INSERT INTO t VALUES (1, 'a');"
        "CREATE TABLE _t_gho LIKE t; ALTER TABLE _t_gho ADD COLUMN n INT; INSERT INTO _t_gho SELECT id, name, 1 FROM t;"
        "UPDATE t SET name = 'b'; UPDATE _t_gho SET name = 'b'; RENAME TABLE t TO _t_del, _t_gho TO t;"
        "UPDATE t SET n = 2",
        "shop",
    )
    world.publish()
    assert [line[0] for line in changes(read(world, timeline(world, "t")))] == ["insert", "update", "update"]
    spans = [part for part in timeline(world, "t").parts if isinstance(part, ChangeSpan)]
    assert spans[0].ids == spans[-1].ids[:2]


def test_keys_conditions_and_transactions(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT, part VARCHAR(5), state VARCHAR(10) COLLATE utf8mb4_0900_bin, PRIMARY KEY (id, part));"
        "INSERT INTO t VALUES (1, 'a', 'new'), (1, 'b', 'new'), (2, 'a', 'new'), (3, 'c', 'old'), (4, 'c', 'old');"
        "ALTER TABLE t RENAME COLUMN state TO status, MODIFY id BIGINT; UPDATE t SET status = 'paid' WHERE id = 2;"
        "UPDATE t SET id = 5 WHERE id = 2; UPDATE t SET status = 'x' WHERE id = 3; DELETE FROM t WHERE id = 5;"
        "SET binlog_row_image = MINIMAL; UPDATE t SET id = 6 WHERE id = 1 AND part = 'b'; DELETE FROM t WHERE id = 6",
        "shop",
    )
    world.publish()
    found = timeline(world, "t")
    assert found.last is not None
    columns_in = key_columns_of(found.last).columns_in

    def of_key(*key: str) -> list[str]:
        return [line[0] for line in changes(read(world, found, KeyFilter(columns_in, [key])))]

    assert of_key("2", "a") == ["insert", "update", "update"]
    assert of_key("5", "a") == ["update", "delete"]
    assert of_key("1", "b") == ["insert", "update"]
    assert of_key("6", "b") == ["update", "delete"]
    assert of_key("no number", "a") == []
    full = timeline(world, "t", until=found.until - 2)
    assert full.last is not None
    where = ConditionFilter("status = 'new'", full.last)
    assert [line[0] for line in changes(read(world, full, where))] == ["insert"] * 3 + ["update"]
    with pytest.raises(PastUnknownError, match="partial images"):
        read(world, found, ConditionFilter("status = 'new'", full.last))
    both = EveryOf((ConditionFilter("status = 'old'", full.last), KeyFilter(columns_in, [("3", "c")])))
    assert changes(read(world, full, both)) == [
        ("insert", None, {"id": 3, "part": "c", "state": "old"}),
        ("update", {"id": 3, "part": "c", "status": "old"}, {"id": 3, "part": "c", "status": "x"}),
    ]


def test_many_row_groups_have_one_order(world: PastWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "shop")
    for at in range(6):
        world.server.run_sql(
            f"INSERT INTO t VALUES {', '.join(f'({at * 10 + one}, 0)' for one in range(10))}; UPDATE t SET n = n + 1;"
            f"UPDATE t SET n = n + 1 WHERE id = {at}",
            "shop",
        )
        world.publish()
    found = timeline(world, "t")
    lines = changes(read(world, found))
    assert len(lines) == 60 + sum(10 * (at + 1) for at in range(6)) + 6
    assert found.last is not None
    assert len(changes(read(world, found, KeyFilter(key_columns_of(found.last).columns_in, [("3",)])))) == 8


def test_what_is_not_known_is_a_part_of_its_own(world: PastWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", "shop")
    world.publish()
    world.server.run_sql("INSERT INTO t VALUES (2)", "shop")
    world.publish()
    world.server.run_sql("INSERT INTO t VALUES (3)", "shop")
    world.publish()
    world.server.run_sql("INSERT INTO t VALUES (4)", "shop")
    land_binlog(world.source.address, lake=world.lake, source=world.name)
    track_landed(world.lake, world.name, world.engine)
    ledger = TableIntervalLedger(world.engine)
    middle = sorted(one.start for one in ledger.select(world.name, [IntervalState.PUBLISHED]))[1]
    ledger.put([TableInterval(world.name, middle, "shop", "t", 1, IntervalState.DISCARDED, None, 0)])
    found = timeline(world, "t")
    lines = read(world, found)
    assert [line if isinstance(line, tuple) else line[:7] for line in lines] == [
        "CREATE ",
        ("insert", None, {"id": 1}),
        "changes",
        ("insert", None, {"id": 3}),
        "they ar",
    ]
    with pytest.raises(PastUnknownError, match="were discarded"):
        found.refuse_unknown(world.name)
    timeline(world, "t", until=found.until - 3).refuse_unknown(world.name)


def test_a_lost_change_table_is_an_error(world: PastWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", "shop")
    world.publish()
    rmtree(Path(table_url(world.lake, world.name, TableName("shop", "t"))))
    with pytest.raises(LostTableError):
        read(world, timeline(world, "t"))


def test_a_table_older_than_the_stream(world: PastWorld) -> None:
    world.server.run_sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); FLUSH BINARY LOGS", "shop")
    world.server.run_sql(f"PURGE BINARY LOGS TO '{world.server.binlogs()[-1].name}'")
    world.snapshot()
    world.server.run_sql("INSERT INTO t VALUES (2)", "shop")
    world.publish()
    found = timeline(world, "t")
    assert changes(read(world, found)) == [("insert", None, {"id": 2})]


def test_a_row_group_from_before_and_after_a_truncate(world: PastWorld) -> None:
    world.server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); TRUNCATE TABLE t; INSERT INTO t VALUES (2)",
        "shop",
    )
    world.publish()
    found = timeline(world, "t")
    assert found.last is not None
    wanted = KeyFilter(key_columns_of(found.last).columns_in, [("2",)])
    # The filter passes over row groups that it knows; what it knows is of all of their rows.
    for _ in range(2):
        assert changes(read(world, found, wanted)) == [("insert", None, {"id": 2})]
