"""Planning on a real server's stream: what a request means, and that asking again means the same."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.clock import to_micros
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.errors import ErrorFacts, SchemaGapError, Usage
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.ingest import report_left
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.position.sets import GtidSet
from strata_cdc.runs.run_folder import read_plan, read_verdicts, run_folder
from strata_cdc.runs.run_name import RunName
from strata_cdc.store.database import open_store
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.tracking.track_schema import track_landed
from tests.publishing import publish_staged

pytestmark = pytest.mark.mysql

LIFE = """
CREATE TABLE a (id INT PRIMARY KEY, x INT);
CREATE TABLE b (id INT PRIMARY KEY);
INSERT INTO a VALUES (1, 1), (2, 2);
INSERT INTO b VALUES (1);
ALTER TABLE a ADD COLUMN y INT FIRST;
INSERT INTO b VALUES (2);
UPDATE a SET y = 5;
"""


class Stream:
    """A source of the shared server, landed and tracked as far as asked."""

    def __init__(self, server, folder, database):
        self.server, self.database = server, database
        address = ServerAddress(server.host, server.port, server.user, server.password)
        settings = SourceSettings("-", tables=(f"{database}.*",))
        self.source = Source("s", address, str(folder / "lake"), f"sqlite:///{folder}/store.db", settings)
        self.engine = open_store(self.source.store_url)

    def live(self, sql):
        self.server.run_sql(sql, self.database)
        return self.land()

    def land(self):
        land_binlog(self.source.address, lake=self.source.lake, source="s")
        track_landed(self.source.lake, "s", self.engine)
        return time.time_ns() // 1000

    def plan(self, request=None, *, now=None, source=None):
        stream = LandedStream.open(self.source.lake, "s")
        now = now or time.time_ns() // 1000
        report = plan_run(source or self.source, self.engine, stream, request or RunRequest(), now=now)
        return report, read_plan(run_folder(self.source.lake, "s", report.run))

    def publish(self, plan):
        """What publishing notes, if all goes well."""
        refused = Counter()
        for one in plan.refused:
            refused[one.interval, one.table] += one.rows
        TableIntervalLedger(self.engine).put(
            TableInterval(
                "s",
                one.interval,
                one.database,
                one.table,
                one.counted,
                IntervalState.BLOCKED if refused[one.interval, one.name] else IntervalState.PUBLISHED,
                reason=ErrorFacts("SchemaGapError", "no schema") if refused[one.interval, one.name] else None,
                published_rows=one.rows,
                run=plan.run,
                history=plan.history,
            )
            for one in plan.tables
        )

    def decode(self, report):
        files = [file for task in planned_tasks(report.run_url) for file in decode_slice_to_files(task)]
        store_decoded(report.run_url, files)
        return files


@pytest.fixture
def stream(mysql_server, tmp_path, request):
    database = f"plan_{abs(hash(request.node.name)) % 10**8}"
    mysql_server.run_sql(f"CREATE DATABASE {database}")
    return Stream(mysql_server, tmp_path, database)


def rows_by_table(files):
    counts = Counter()
    for file in files:
        counts[file.table] += file.rows
    return counts


def test_what_is_planned_is_decoded_and_counted_alike(stream):
    stream.live(LIFE)
    report, plan = stream.plan()
    assert (report.rows, report.refused, report.intervals) == (6, 0, 1)
    files = stream.decode(report)
    assert rows_by_table(files) == {"a": 4, "b": 2}
    assert {one.name: one.rows for one in plan.tables} == {f"{stream.database}.a": 4, f"{stream.database}.b": 2}
    # Two shapes of `a`, so two versions and no slice with both.
    assert len({file.version_id for file in files if file.table == "a"}) == 2


def test_an_open_request_takes_what_is_owed_until_it_is_published(stream):
    stream.live(LIFE)
    first, plan = stream.plan()
    assert stream.plan()[0] == first, "nobody has published it"
    stream.publish(plan)
    assert stream.plan()[0].rows == 0
    stream.live("INSERT INTO b VALUES (3), (4)")
    second, plan = stream.plan()
    assert (first.rows, second.rows) == (6, 2)
    assert rows_by_table(stream.decode(second)) == {"b": 2}
    assert plan.executed_before


def test_the_same_span_again_is_the_same_plan_and_the_same_files(stream):
    stream.live(LIFE)
    report, plan = stream.plan()
    interval = plan.intervals[0]
    files = stream.decode(report)
    for published in (False, True):
        again, plan_again = stream.plan(RunRequest(interval.start, interval.end))
        assert (again, plan_again) == (report, plan)
        assert stream.decode(again) == files
        if not published:
            stream.publish(plan)


def test_a_transaction_that_lands_after_its_time_was_closed_is_owned_by_the_next_interval(stream):
    stream.live(LIFE)
    now = time.time_ns() // 1000
    report, _ = stream.plan(RunRequest(end=now))
    # As if the server's clock were behind: it landed later, and its commit time lies before `now`.
    stream.live("INSERT INTO b VALUES (9)")
    ahead = now + 3_600_000_000
    late, _ = stream.plan(RunRequest(now, ahead), now=ahead)
    assert (report.rows, late.rows) == (6, 1)


def test_transactions_can_be_asked_for_by_gtid(stream):
    stream.live(LIFE)
    stream.live("INSERT INTO b VALUES (7)")
    executed = LandedStream.open(stream.source.lake, "s")
    last = executed.record_at(executed.last_seq)[1].gtid
    report, plan = stream.plan(RunRequest(gtid_set=GtidSet.parse(str(last))))
    assert report.rows == 1
    assert (plan.intervals[0].after_seq, plan.intervals[0].last_seq) == (executed.last_seq - 1, executed.last_seq)
    for wanted, refusal in (("5", "has landed"), ("9-5", "the GTID set is empty")):
        with pytest.raises(Usage, match=refusal):
            stream.plan(RunRequest(gtid_set=GtidSet.parse(f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{wanted}")))


def test_a_span_that_begins_in_the_year_1_gives_the_run_a_name_that_can_be_read(stream):
    stream.live(LIFE)
    report, _ = stream.plan(RunRequest(to_micros(datetime(1, 1, 1, tzinfo=UTC))))
    assert report.run.startswith("00010101T000000Z-")
    assert str(RunName.parse(report.run)) == report.run


def test_tables_can_be_chosen_by_the_request_and_left_out_by_the_settings(stream):
    stream.live(LIFE)
    report, plan = stream.plan(RunRequest(tables=(f"{stream.database}.b",)))
    assert (report.rows, {piece.tables[0].table for piece in plan.slices}) == (2, {"b"})
    settings = structs.replace(stream.source.settings, exclude=("*.b",))
    interval = plan.intervals[0]
    without, _ = stream.plan(RunRequest(interval.start, interval.end), source=replace(stream.source, settings=settings))
    assert without.rows == 4


def test_rows_without_a_known_schema_are_refused_and_named_and_the_rest_goes_on(stream):
    stream.server.run_sql("CREATE TABLE old (id INT); INSERT INTO old VALUES (1)", stream.database)
    # The stream begins behind the CREATE, and nobody took a snapshot.
    stream.server.run_sql("FLUSH BINARY LOGS")
    stream.server.run_sql(f"PURGE BINARY LOGS TO '{stream.server.binlogs()[-1].name}'")
    stream.live("INSERT INTO old VALUES (2), (3);" + LIFE)
    report, plan = stream.plan()
    assert (report.rows, report.refused) == (6, 2)
    assert plan.refused[0].table == f"{stream.database}.old"
    assert plan.refused[0].error.remedy
    assert rows_by_table(stream.decode(report)) == {"a": 4, "b": 2}
    settings = type("Settings", (), {"source": lambda _, __: stream.source})()
    stream.publish(plan)
    with pytest.raises(SchemaGapError, match=r"2 rows of .*\.old not published"):
        report_left("s", report.run, settings=settings)
    assert stream.plan()[0].left.held == 1


def test_rows_that_a_statement_changed_are_told_and_not_passed_over(stream):
    stream.live(LIFE + "SET SESSION binlog_format = 'STATEMENT'; INSERT INTO b VALUES (100)")
    report, plan = stream.plan()
    assert report.rows == 6
    [reported] = plan.statements
    assert (reported.table_name, reported.statement, bool(reported.gtid)) == (
        f"{stream.database}.b",
        "INSERT INTO b VALUES (100)",
        True,
    )
    assert rows_by_table(stream.decode(report)) == {"a": 4, "b": 2}
    settings = structs.replace(stream.source.settings, on_statement="hold")
    report, plan = stream.plan(source=replace(stream.source, settings=settings))
    assert {one.table: (one.counted, one.rows) for one in plan.tables} == {"a": (4, 4), "b": (2, 0)}
    [held] = [one.held for one in plan.tables if one.held]
    assert (held.error, held.gtid) == ("StatementFormatError", reported.gtid)


def test_a_statement_alone_in_its_interval_is_told(stream):
    stream.live(LIFE)
    stream.publish(stream.plan()[1])
    stream.live("SET SESSION binlog_format = 'STATEMENT'; UPDATE b SET id = id + 100")
    report, plan = stream.plan()
    assert (report.slices, [one.table for one in plan.tables]) == (0, ["b"])
    assert publish_staged(stream.source.lake, "s", report.run).warnings == 1


PARTED = (
    "CREATE TABLE p (id INT) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 VALUES LESS THAN (99))"
)


def test_rows_that_ddl_removed_are_told_and_stop_nothing(stream):
    stream.live(
        LIFE + PARTED + "; CREATE TABLE q (id INT); INSERT INTO p VALUES (1), (10); TRUNCATE a;"
        "CREATE TEMPORARY TABLE own (a INT); TRUNCATE TABLE own; INSERT INTO a VALUES (1, 1, 1);"
        "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE q; ALTER TABLE p DROP PARTITION p0"
    )
    report, plan = stream.plan()
    assert (report.rows, plan.refused) == (9, ())
    assert [(one.table.rpartition(".")[2], one.statement.split(" PARTITION")[0]) for one in plan.removed] == [
        ("a", "TRUNCATE a"),
        ("p", "ALTER TABLE p EXCHANGE"),
        ("q", "ALTER TABLE p EXCHANGE"),
        ("p", "ALTER TABLE p DROP"),
    ]
    assert {one.interval for one in plan.removed} == {plan.intervals[0].start}
    assert all(GtidSet.parse(one.gtid) <= GtidSet.parse(plan.intervals[0].gtid_executed) for one in plan.removed)
    assert rows_by_table(stream.decode(report)) == {"a": 5, "b": 2, "p": 2}


def test_a_run_of_nothing_but_a_truncate_has_a_verdict_that_says_so(stream):
    stream.live("CREATE TABLE a (id INT); INSERT INTO a VALUES (1)")
    stream.publish(stream.plan()[1])
    stream.live("TRUNCATE TABLE a")
    report, _ = stream.plan()
    assert report.slices == 0
    assert publish_staged(stream.source.lake, "s", report.run).warnings == 1
    [verdict] = read_verdicts(run_folder(stream.source.lake, "s", report.run)).values()
    assert verdict.passed
    [failure] = verdict.failures
    assert failure.table == f"{stream.database}.a"
    assert re.fullmatch(r"`TRUNCATE TABLE a` at \S+:\d+: rows .* without delete rows", failure.message)


@pytest.mark.parametrize(
    ("request_", "said"),
    [(RunRequest(5, 5), "empty"), (RunRequest(0, 2**52), "future")],
)
def test_a_span_without_sense_is_refused(stream, request_, said):
    stream.live("CREATE TABLE t (id INT)")
    with pytest.raises(Usage, match=said):
        stream.plan(request_)
