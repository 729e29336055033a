"""`ingest_binlog` on a real server: the same rows however often it runs and wherever it was killed."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys

import pytest

from strata_cdc.groups.cuts.group_cut import group_cut
from strata_cdc.mirrors.data_files import write_rows
from strata_cdc.mirrors.log import now_ms
from strata_cdc.mirrors.table import Mirror
from strata_cdc.pipeline import comparisons, ingest
from strata_cdc.position.token_text import from_text
from strata_cdc.store.database import open_store
from strata_cdc.store.read_again import ReadAgainLedger
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from tests.airflow.pipeline import PASSWORD, make_account

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

LIFE = """
DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id INT PRIMARY KEY, status ENUM('new', 'paid') NOT NULL, note VARCHAR(20));
INSERT INTO orders VALUES (1, 'new', 'first'), (2, 'paid', NULL), (3, 'new', 'third');
ALTER TABLE orders ADD COLUMN channel INT NOT NULL DEFAULT 7 FIRST;
UPDATE orders SET note = 'changed' WHERE id = 2;
ALTER TABLE orders MODIFY status ENUM('paid', 'new') NOT NULL;
DELETE FROM orders WHERE id = 3;
CREATE TABLE drafts (id INT); RENAME TABLE drafts TO plans; DROP TABLE plans;
ALTER TABLE orders RENAME COLUMN note TO remark;
INSERT INTO orders VALUES (8, 4, 'new', 'fourth');
"""
ROWS = 6


@pytest.fixture
def pipeline(source_server, make_pipeline):
    """A shop that has lived; its stream may hold former tests' lives too."""
    url = make_account(source_server)
    source_server.run_sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS strata;")
    source_server.run_sql(LIFE)
    return make_pipeline(url)


def test_a_late_reader_gets_every_row_under_its_own_schema_and_a_second_run_changes_nothing(source_server, pipeline):
    # As after a task that was killed when the versions were stored and nobody had been told.
    ingest.land("shop", settings=pipeline.settings)
    ingest.track("shop", settings=pipeline.settings)
    settings = pipeline.state.settings_file
    settings.write_text(f'{settings.read_text()}[groups.all]\nsources = ["shop"]\n')
    lacking = group_cut("all", settings=pipeline.settings)
    assert (lacking.cut, "nothing of shop is published" in lacking.lacking) == (None, True)
    check_dry_run(pipeline)
    events = pipeline.folder / "lineage.jsonl"
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pipeline.variables, "AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
        printed = pipeline.ingest()
    check_log(printed)
    check_group(pipeline, printed)
    lineage = events.read_text()
    reported = pipeline.asset_events("strata://shop/schema")
    rows = pipeline.rows("orders")
    assert len(rows) == ROWS
    commits = pipeline.published()
    [(start, end)] = pipeline.runs()
    pipeline.ingest(start=start, end=end)
    assert pipeline.rows("orders") == rows
    assert pipeline.published() == commits
    assert pipeline.asset_events("strata://shop/schema") == reported
    check_events(reported)
    check_links(pipeline)
    check_table_events(pipeline)
    assert events.read_text() == lineage, "nobody is told who has not asked for it"
    check_lineage([json.loads(line) for line in lineage.splitlines()], source_server, pipeline)
    check_comparison(source_server, pipeline)
    check_for_secrets(pipeline)


FOUND = """
import json, sys
from msgspec.structs import asdict
from strata_cdc.airflow.plugins.schema_history import _find_runs, _find_task
task = _find_task(sys.argv[1])
runs = [_find_runs(task.dag_id, task.run_id, index) for index in (None, task.map_index, task.map_index + 1)]
found = [[one.run for one in planned] for planned in runs]
print(json.dumps([task.path_of_log, _find_task(sys.argv[1][:-1] + "_"), found]))
"""


def check_links(pipeline):
    """The page finds the run of Airflow's behind a run's name, and the other way round."""
    engine = open_store(pipeline.settings.source("shop").store_url)
    [piece] = TableIntervalLedger(engine).select("shop", (IntervalState.PUBLISHED,), table=("shop", "orders"))
    done = subprocess.run(
        [sys.executable, "-c", FOUND, piece.run],
        env=pipeline.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    log, none, found = json.loads(done.stdout.splitlines()[-1])
    assert re.fullmatch(r"dags/ingest_binlog/runs/manual__[^/]+/tasks/ingest\.publish/mapped/0", log)
    assert none is None
    assert found == [[piece.run], [piece.run], []]


def check_dry_run(pipeline):
    """It says what the same run would do, and leaves nothing."""
    before = sorted(pipeline.state.lake.rglob("*"))
    said = pipeline.ingest(dry_run=True, tables=["shop.orders"])
    assert "task: only say what would be done: plan what is pending of shop, of shop.orders only" in said
    assert f"decode and publish {ROWS} rows of 1 table" in said
    assert sorted(pipeline.state.lake.rglob("*")) == before
    assert pipeline.asset_events("strata://shop/schema") == []


def check_log(said):
    """Each step says what was asked, done and next, and what Spark prints is elsewhere."""
    for line in (
        "task: land what the server of shop has executed since",
        f"task: decode {ROWS} rows of 1 table in",
        f": {ROWS} rows in",
        "next: check",
        f"shop.orders: {ROWS} rows",
        "all rows of the run are published",
    ):
        assert line in said, line
    assert "NativeCodeLoader" not in said
    assert "Returned value was" not in said


def check_group(pipeline, printed):
    """A group in Airflow: a mapped line after the runs of its sources, which reports the cut that all have passed, and
    below it a line for each source. This group is the shop alone; `tests/groups/test_group_tables.py` has others."""
    for line in ("a new cut at", "group all: watermark ", "shop: transaction "):
        assert line in printed, line
    # Those of the dry run, which skipped the first, are there, too.
    assert {label for label in pipeline.labels("publish_group") if label} == {"all"}
    assert {label for label in pipeline.labels("source_at_cut") if label} == {"all / shop"}
    [reported] = pipeline.asset_events("strata://all/cut")
    assert [one["source"] for one in reported["sources"]] == ["shop"]
    assert [place.source for place in from_text(reported["token"]).positions] == ["shop"]


def check_events(reported):
    """Each schema version was told once, with its statement."""
    assert len({one["version"] for one in reported}) == len(reported)
    statements = {one["statement"] for one in reported if "shop.orders" in one["tables"] and one["origin"] == "ddl"}
    assert statements == {line.strip(" ;") for line in LIFE.splitlines() if " TABLE orders" in line}


def check_table_events(pipeline):
    """A publication tells rows, GTID set, versions and verdict; done again it tells the same."""
    first, again = pipeline.asset_events("strata://shop/shop/orders")
    assert first == {**again, "changed": first["changed"]}
    assert (first["rows"], first["verdict"], len(first["schema_versions"])) == (ROWS, "passed", 4)
    assert ":1-" in first["gtid_executed"]


def check_lineage(events, server, pipeline):
    """As a receiver has it of the provider's own client: each step under the provider's run of its task."""
    reported = {"ingest.track": [], "ingest.publish": []}
    for event in events:
        step = event["job"]["name"].removeprefix("ingest_binlog.")
        if event["eventType"] == "RUNNING" and step in reported:
            reported[step].append(event)
    ours = {event["run"]["runId"] for found in reported.values() for event in found}
    assert ours <= {event["run"]["runId"] for event in events if event["eventType"] == "COMPLETE"}
    here = f"mysql://127.0.0.1:{server.port}"
    [published] = reported["ingest.publish"]
    [read], [written] = published["inputs"], published["outputs"]
    assert (read["namespace"], read["name"]) == (here, "shop.orders")
    assert (written["namespace"], written["name"]) == ("file", f"{pipeline.state.lake}/changes/shop/shop/orders")
    assert [field["name"] for field in read["facets"]["schema"]["fields"]] == ["channel", "id", "status", "remark"]
    lineage = written["facets"]["columnLineage"]["fields"]
    for name in ("note", "remark"):
        assert [one["field"] for one in lineage[name]["inputFields"]] == [name]
    checks = read["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert checks
    assert all(one["success"] for one in checks)
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == ROWS
    changes = {
        dataset["name"]: dataset["facets"]["lifecycleStateChange"]
        for event in reported["ingest.track"]
        for dataset in event["outputs"]
        if dataset["facets"].get("lifecycleStateChange", {}).get("lifecycleStateChange") == "RENAME"
    }
    assert changes["shop.plans"]["previousIdentifier"] == {"namespace": here, "name": "shop.drafts"}
    assert PASSWORD not in json.dumps(events)


def check_comparison(server, pipeline):
    """The tables are what the server has; once they are not, the DAG for it fails, and its log names the row."""
    compared = comparisons.reconcile("shop", settings=pipeline.settings)
    assert [(one.table, one.outcome, one.compared) for one in compared.tables] == [("shop.orders", "match", 3)]
    server.run_sql("SET sql_log_bin = 0; UPDATE shop.orders SET remark = 'unlogged' WHERE id = 2")
    said = pipeline.test_dag("reconcile_sources", {"tables": ["shop.orders"]})
    assert "state=failed" in said.rsplit("DagRun Finished", 1)[-1]
    assert "differs id = 2; lake: remark = 'changed'; server: remark = 'unlogged'" in said


def check_for_secrets(pipeline):
    """The password of the source is nowhere: not in XCom, not in a log, not in the lake."""
    for path in pipeline.folder.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path
    with sqlite3.connect(pipeline.state.airflow_home / "airflow.db") as database:
        sizes = database.execute("SELECT max(length(value)) FROM xcom").fetchone()
    assert sizes[0] <= 1024


def test_a_run_that_was_killed_again_and_again_is_done_again_and_gives_the_same(pipeline):
    pipeline.kill_ingest_when("runs/shop/*/decoded.json")
    [(start, end)] = pipeline.runs()
    pipeline.kill_ingest_when("changes/shop/shop/orders/data/**/*.parquet", start=start, end=end)
    pipeline.ingest(start=start, end=end)
    rows = pipeline.rows("orders")
    assert len(rows) == len(set(rows)) == ROWS


def test_one_failing_table_withholds_no_other_and_is_listed_until_it_is_published(source_server, pipeline):
    """The run ends red, and reports what was not published; once the reason is gone it is taken by asking for it."""
    source_server.run_sql(
        "CREATE TABLE notes (id INT PRIMARY KEY); INSERT INTO notes VALUES (1);"
        "CREATE TABLE marks (id INT PRIMARY KEY); INSERT INTO marks VALUES (1), (2);"
        "ALTER TABLE marks ADD COLUMN made DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)",
        "shop",
    )
    checks = pipeline.folder / "checks"
    checks.mkdir()
    rule = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "id", "max_value": 0}}
    (checks / "shop.notes.json").write_text(json.dumps({"expectations": [rule]}))
    settings = pipeline.state.settings_file
    settings.write_text(f'{settings.read_text()}checks = "{checks}"\nmirrors = ["shop.marks"]\ncompact_files = 2\n')
    said = pipeline.test_dag("ingest_binlog")
    assert "state=failed" in said.rsplit("DagRun Finished", 1)[-1], said[-6000:]
    assert "1 row of shop.notes not published" in said
    assert len(pipeline.rows("orders")) == ROWS
    ledger = TableIntervalLedger(open_store(pipeline.settings.source("shop").store_url))
    (failed,) = ledger.select("shop", (IntervalState.FAILED,))
    assert (failed.name, failed.rows, failed.published_rows) == ("shop.notes", 1, 0)
    (checks / "shop.notes.json").unlink()
    pipeline.ingest(failed=True)
    assert len(pipeline.rows("notes")) == 1
    assert ledger.select("shop", (IntervalState.FAILED, IntervalState.PENDING, IntervalState.BLOCKED)) == []
    # What no log tells is to be read again: asked for once, however many runs found it.
    with sqlite3.connect(pipeline.state.airflow_home / "airflow.db") as database:
        asked = database.execute("SELECT run_id, conf FROM dag_run WHERE dag_id = 'dump_tables'").fetchall()
    assert [(run.partition("__")[0], json.loads(conf)) for run, conf in asked] == [
        ("read_again", {"source": "shop", "waiting": True})
    ]
    check_mirrors(pipeline, json.loads(asked[0][1]))


def check_mirrors(pipeline, asked):
    """What was asked for reads the rows of what waits; upkeep makes one file of two."""
    said = pipeline.test_dag("dump_tables", asked)
    assert "state=success" in said.rsplit("DagRun Finished", 1)[-1], said[-6000:]
    assert "task: read rows of tables of shop and make their mirrors: that wait" in said
    # The first ones are of what the mirror had before it stood.
    event = pipeline.asset_events("strata://shop/shop/marks/mirror")[-1]
    assert (event["rows"], event["changes"]) == (2, 0)
    assert ReadAgainLedger(open_store(pipeline.settings.source("shop").store_url)).all("shop") == []
    mirror, rows = opened(pipeline), opened(pipeline).to_arrow()
    halves = [file for at in (0, 1) for file in write_rows(mirror.url, mirror.schema, [rows.slice(at, 1)])]
    ended = [file.removed(now_ms()) for file in mirror.snapshot.files.values()]
    mirror.commit([*ended, *(file.added() for file in halves)], mirror.position, operation="OPTIMIZE")
    said = pipeline.test_dag("keep_mirrors", {"source": "shop"})
    assert "state=success" in said.rsplit("DagRun Finished", 1)[-1], said[-6000:]
    assert "shop.marks: 2 files made 1, 2 rows written" in said
    assert sorted(opened(pipeline).to_arrow()["id"].to_pylist()) == [1, 2]


def opened(pipeline):
    return Mirror.open(pipeline.settings.lake, "shop", "shop.marks")


def test_a_span_without_rows_leaves_spark_out_and_does_all_the_rest(source_server, make_pipeline):
    """Tables are made, emptied and renamed without a row: their mirrors have to follow."""
    pipeline = make_pipeline(make_account(source_server))
    source_server.run_sql(
        "RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS strata; DROP DATABASE IF EXISTS nothing;"
        "CREATE DATABASE nothing; CREATE TABLE nothing.t (id INT PRIMARY KEY); TRUNCATE nothing.t"
    )
    settings = pipeline.state.settings_file
    settings.write_text(f'{settings.read_text()}mirrors = ["nothing.t"]\n')
    said = pipeline.ingest()
    assert "spark-submit" not in said.lower().replace("sparksubmit", "")
    for line in (
        "task: publish what passed its checks",
        "task: update the mirrors",
        "all rows of the run are published",
    ):
        assert line in said, line
    assert not pipeline.published()
    mirror = Mirror.open(pipeline.settings.lake, "shop", "nothing.t")
    assert mirror is not None
    assert mirror.to_arrow().num_rows == 0
