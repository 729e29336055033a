"""Marks and published intervals, on every database that a store can be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from strata_cdc.errors import DamagedFileError
from strata_cdc.store.database import open_store, reading, writing
from strata_cdc.store.ledgers import (
    ClosedInterval,
    IntervalLedger,
    OwnedRun,
    PublishedDetails,
    PublishedInterval,
    PublishedLedger,
    VersionRows,
)
from strata_cdc.store.rows_by_version import VersionSum, VersionSums, rows_by_version
from strata_cdc.store.rows_in_time import first_rows, newest_intervals, rows_by_bucket
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.store.tables import published_interval


def interval(start, end, first=0, last=10, source="s", closed_at=1):
    return ClosedInterval(source, start, end, first, last, "a", closed_at)


def test_the_first_to_close_an_interval_wins(engine):
    ledger = IntervalLedger(engine)
    first = interval(0, 10, last=5)
    assert ledger.close(first) == first
    assert ledger.close(interval(0, 10, last=7, closed_at=2)) == first
    assert ledger.close(interval(5, 15)) == first
    assert ledger.all("s") == [first]


def test_intervals_adjoin(engine):
    ledger = IntervalLedger(engine)
    a, b, c = interval(0, 10), interval(10, 20), interval(30, 40)
    for one in (a, c, b):
        assert ledger.close(one) == one
    assert ledger.all("s") == [a, b, c]
    assert ledger.last("s") == c
    assert ledger.overlapping("s", 12, 15) == [b]
    assert ledger.overlapping("s", 20, 30) == [b, c]
    assert ledger.get("s", 10) == b
    assert ledger.get("s", 11) is None
    assert ledger.last("other") is None


def test_sources_do_not_mind_each_other(engine):
    ledger = IntervalLedger(engine)
    ledger.close(interval(0, 10))
    other = interval(5, 15, source="S")
    assert ledger.close(other) == other


def test_of_many_at_once_one_wins(engine):
    ledger = IntervalLedger(engine)
    ledger.close(interval(-10, 0, last=0))

    def close(number):
        return ledger.close(interval(0, 10 + number, last=number))

    with ThreadPoolExecutor(4) as pool:
        stored = set(pool.map(close, range(4)))
    assert len(stored) == 1
    assert len(ledger.all("s")) == 2


def test_what_is_published_is_noted_and_replaced(engine):
    ledger = PublishedLedger(engine)
    first = PublishedInterval("s", 0, "d.t", 1, 100, 5, PublishedDetails("u:1-3", "ü", (3, 4)))
    ledger.put(first)
    ledger.put(first)
    second = PublishedInterval("s", 10, "d.t", 2, 50, 6, PublishedDetails())
    ledger.put(second)
    ledger.put(PublishedInterval("s", 10, "d.u", 2, 50, 6, PublishedDetails()))
    assert ledger.get("s", 0, "d.t") == first
    assert ledger.list("s", "d.t") == [first, second]
    assert len(ledger.list("s")) == 3


def test_the_newest_commits_are_read_from_an_index(tmp_path):
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    assert_newest_by_index(engine)
    [[plan]] = explained(engine, "EXPLAIN QUERY PLAN ", -1)
    assert "COVERING INDEX published_interval_version" in plan


def test_intervals_that_follow_each_other_are_one_run(engine):
    ledger = IntervalLedger(engine)
    assert ledger.runs("s") == []
    ledger.close(interval(0, 10, 0, 3, source="other"))
    # Without a hole; a hole of time; one of transactions, which touches in time.
    for marks in ((0, 10, 0, 3), (10, 20, 3, 3), (20, 25, 3, 9), (30, 40, 9, 12), (40, 50, 15, 20), (50, 60, 20, 21)):
        ledger.close(interval(*marks))
        if marks[0] == 20:
            assert ledger.runs("s") == [OwnedRun(0, 25, 0, 9)]
    assert ledger.runs("s") == [OwnedRun(0, 25, 0, 9), OwnedRun(30, 40, 9, 12), OwnedRun(40, 60, 15, 21)]
    ledger.close(interval(25, 30, 9, 9))
    assert ledger.runs("s") == [OwnedRun(0, 40, 0, 12), OwnedRun(40, 60, 15, 21)]
    assert [one.start for one in ledger.after("s", 12)] == [40, 50]
    assert [one.start for one in ledger.starting("s", [10, 11, 50])] == [10, 50]


@pytest.mark.mysql
def test_on_mysql_an_entry_for_each_table_is_read(mysql_server):
    mysql_server.run_sql("DROP DATABASE IF EXISTS newest")
    engine = open_store(f"{mysql_server.url}newest")
    try:
        assert_newest_by_index(engine)
        [[extra]] = explained(engine, "EXPLAIN FORMAT=TRADITIONAL ", -1)
        assert "Using index for group-by" in extra
    finally:
        engine.dispose()


def assert_newest_by_index(engine):
    ledger = PublishedLedger(engine)
    note = {"source": "s", "rows": 1, "published_at": 1, "details": "{}"}
    notes = [
        note | {"start_at": at, "table_name": name, "delta_version": at}
        for at in range(2000)
        for name in ("d.t", "d.u")
    ]
    with writing(engine) as connection:
        connection.execute(published_interval.insert(), notes)
    # Published again, the earliest interval has the newest commit.
    ledger.put(PublishedInterval("s", 0, "d.t", 9999, 1, 1, PublishedDetails()))
    ledger.put(PublishedInterval("other", 0, "d.t", 10_000, 1, 1, PublishedDetails()))
    assert ledger.newest("s") == {"d.t": 9999, "d.u": 1999}
    assert ledger.newest("nobody") == {}


def explained(engine, how, column):
    """A column of what a database says of how it reads the newest commits."""
    asked = []
    event.listen(engine, "before_cursor_execute", lambda _c, _u, statement, given, *_: asked.append((statement, given)))
    PublishedLedger(engine).newest("s")
    [statement, given] = asked[-1]
    with reading(engine) as connection:
        if engine.dialect.name == "mysql":
            connection.exec_driver_sql("ANALYZE TABLE published_interval").all()
        return [[row[column]] for row in connection.exec_driver_sql(how + statement, given)]


@pytest.mark.parametrize(
    ("stored", "details"),
    [
        ("{}", PublishedDetails()),
        ('{"gtid_executed": "u:1", "run": "r", "schema_versions": [1]}', PublishedDetails("u:1", "r", (1,))),
    ],
)
def test_what_older_versions_noted_is_read(tmp_path, stored, details):
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    ledger = PublishedLedger(engine)
    ledger.put(PublishedInterval("s", 0, "d.t", 1, 100, 5, PublishedDetails()))
    with writing(engine) as connection:
        connection.execute(published_interval.update().values(details=stored))
    assert ledger.get("s", 0, "d.t").details == details


def test_a_column_that_is_no_json_is_told_with_its_name_and_path(tmp_path):
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    ledger = PublishedLedger(engine)
    ledger.put(PublishedInterval("s", 0, "d.t", 1, 100, 5, PublishedDetails()))
    with writing(engine) as connection:
        connection.execute(published_interval.update().values(details='{"schema_versions": ["one"]}'))
    with pytest.raises(DamagedFileError, match=r"schema_versions\[0\].*published_interval\.details"):
        ledger.get("s", 0, "d.t")


@pytest.mark.mysql
def test_a_source_does_not_wait_for_the_place_of_anothers_rows(mysql_server):
    """At InnoDB's default, who looks for a row that is not there locks the place where others put theirs."""
    mysql_server.run_sql("DROP DATABASE IF EXISTS ledgers")
    mysql_server.run_sql("SET GLOBAL innodb_lock_wait_timeout = 1")
    engine = open_store(f"{mysql_server.url}ledgers")
    try:
        with writing(engine) as connection:
            mine = published_interval.c.source == "a"
            assert connection.execute(published_interval.select().where(mine).with_for_update()).first() is None
            for source in ("A", "b"):
                PublishedLedger(engine).put(PublishedInterval(source, 1, "d.t", 1, 1, 1, PublishedDetails()))
    finally:
        engine.dispose()
        mysql_server.run_sql("SET GLOBAL innodb_lock_wait_timeout = DEFAULT")


@pytest.mark.mysql
def test_a_server_that_logs_statements_takes_the_stores_writes(mysql_server):
    """InnoDB writes nothing at READ COMMITTED there (error 1665)."""
    mysql_server.run_sql("DROP DATABASE IF EXISTS ledgers")
    mysql_server.run_sql("SET GLOBAL binlog_format = STATEMENT")
    try:
        engine = open_store(f"{mysql_server.url}ledgers")
        PublishedLedger(engine).put(PublishedInterval("s", 1, "d.t", 1, 1, 1, PublishedDetails()))
        assert PublishedLedger(engine).get("s", 1, "d.t") is not None
        engine.dispose()
    finally:
        mysql_server.run_sql("SET GLOBAL binlog_format = ROW")


def test_rows_are_summed_by_the_version_that_decoded_them(engine):
    ledger = PublishedLedger(engine)

    def note(start, table, rows, *versions, ids=()):
        details = PublishedDetails("u:1", "r", ids or tuple(one.version_id for one in versions), versions)
        ledger.put(PublishedInterval("s", start, table, 1, rows, 1, details))

    note(1, "d.old", 4, ids=(3,))
    note(2, "d.t", 9, ids=(3, 4))
    note(3, "d.t", 5, VersionRows(4, 2, 200), VersionRows(5, 3, 300))
    note(4, "d.t", 1, VersionRows(5, 1, 50))
    note(5, "d.other", 1, VersionRows(5, 1, 50))
    names = ["d.t", "d.old"]
    assert rows_by_version(engine, "s", names) == VersionSums(
        {("d.old", 3): VersionSum(4, None), ("d.t", 4): VersionSum(2, 200), ("d.t", 5): VersionSum(4, 350)}, None
    )
    newest = rows_by_version(engine, "s", names, limit=2)
    assert newest.since == 3
    assert newest.found["d.t", 4] == VersionSum(2, 200)
    assert rows_by_version(engine, "t", names).found == {}


def test_the_newest_intervals_of_a_table_come_first_whatever_became_of_them(engine):
    states = [IntervalState.PUBLISHED, IntervalState.FAILED, IntervalState.PENDING, IntervalState.BLOCKED]
    entries = [TableInterval("s", start, "d", "t", start, states[start % 4], run="r") for start in range(1, 9)]
    others = [
        TableInterval("s", 9, "d", "u", 1, IntervalState.PENDING),
        TableInterval("t", 9, "d", "t", 1, IntervalState.PENDING),
    ]
    TableIntervalLedger(engine).put([*entries, *others])
    found = newest_intervals(engine, "s", ("d", "t"), limit=3)
    assert [(one.start, one.state) for one in found] == [(8, states[0]), (7, states[3]), (6, states[2])]
    failed = newest_intervals(engine, "s", ("d", "t"), states=(IntervalState.FAILED, IntervalState.BLOCKED))
    assert [one.start for one in failed] == [7, 5, 3, 1]
    assert first_rows(engine, "s", ("d", "t")) == 1
    assert rows_by_bucket(engine, "s", ("d", "t"), (1, 9), 2) == [1 + 2 + 3 + 4, 5 + 6 + 7 + 8]
