"""The steps that a mirror takes for what happens to its table."""

from __future__ import annotations

from strata_cdc.mirrors.follow.follow_plan import FollowAction, plan_follow
from strata_cdc.mirrors.follow.schema_events import SchemaEvents
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from tests.schema.streams import Stream, track

RANGE = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9))"
T, U = TableName("d", "t"), TableName("d", "u")


def events(*statements: str) -> SchemaEvents:
    store = SchemaStore(open_store("sqlite://"))
    track(store, Stream(), "CREATE DATABASE d", *statements)
    return SchemaEvents(store.engine, "s")


def test_a_plan_says_what_is_done() -> None:
    happened = events(
        f"CREATE TABLE t (id INT PRIMARY KEY) {RANGE}",
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 5",
        "ALTER TABLE t DROP PARTITION p0",
        "ALTER TABLE t REMOVE PARTITIONING, ADD KEY (c)",
        "RENAME TABLE t TO u",
        "TRUNCATE u",
        "ALTER TABLE u FROBNICATE",
        "DROP TABLE u",
    )
    assert [step.text for step in plan_follow(T, happened.of_table(T))] == [
        "changes up to 1; rows begin anew",
        "changes up to 2; alter; all get c = '5'",
        "changes up to 3; rows of partitions go, or change places; those of partition p0 are removed",
        "changes up to 4; alter; none",
        "changes up to 5; the table is gone",
    ]
    [moved, emptied, unknown, gone] = plan_follow(U, happened.of_table(U))
    assert moved.text == "changes up to 5; rows of another name; from d.t"
    assert (emptied.action, unknown.action, gone.action) == (FollowAction.EMPTY, FollowAction.FORGET, FollowAction.DROP)
    assert unknown.text.startswith("changes up to 7; the table is not known any more; ")


def test_a_plan_ends_before_what_is_not_asked_for() -> None:
    coming = events("CREATE TABLE t (id INT)", "TRUNCATE t", "ALTER TABLE t ADD c INT").of_table(T)
    for at, one in enumerate(coming):
        assert [step.event for step in plan_follow(T, coming, one.order)] == list(coming[:at])


def test_rows_that_a_statement_changed_are_lost() -> None:
    happened = events("CREATE TABLE t (id INT)", "UPDATE t SET id = 2")
    assert [step.action for step in plan_follow(T, happened.of_table(T))] == [FollowAction.BEGIN, FollowAction.LOSE]
    assert "logged as a statement" in plan_follow(T, happened.of_table(T))[1].text
