"""`ingest_binlog` on a real server: the same rows however often it runs and wherever it was killed."""

from __future__ import annotations

import json
import sqlite3

import pytest

from strata.jobs import comparisons, ingest
from strata.store.database import open_store
from strata.store.table_intervals import State, TableIntervalLedger
from tests.airflow.pipeline import PASSWORD, make_account

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]

LIFE = """
DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id INT PRIMARY KEY, status ENUM('new', 'paid') NOT NULL, note VARCHAR(20));
INSERT INTO orders VALUES (1, 'new', 'first'), (2, 'paid', NULL), (3, 'new', 'third');
ALTER TABLE orders ADD COLUMN channel INT NOT NULL DEFAULT 7 FIRST;
UPDATE orders SET note = 'changed' WHERE id = 2;
ALTER TABLE orders MODIFY status ENUM('paid', 'new') NOT NULL;
DELETE FROM orders WHERE id = 3;
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
    pipeline.ingest()
    told = pipeline.asset_events("strata://shop/schema")
    rows = pipeline.rows("orders")
    assert len(rows) == ROWS
    commits = pipeline.published()
    [(start, end)] = pipeline.runs()
    pipeline.ingest(start=start, end=end)
    assert pipeline.rows("orders") == rows
    assert pipeline.published() == commits
    assert pipeline.asset_events("strata://shop/schema") == told
    check_events(told)
    check_comparison(source_server, pipeline)
    check_for_secrets(pipeline)


def check_events(told):
    """Each schema version was told once, with its statement."""
    assert len({one["version"] for one in told}) == len(told)
    statements = {one["statement"] for one in told if "shop.orders" in one["tables"] and one["origin"] == "ddl"}
    assert statements == {line.strip(" ;") for line in LIFE.splitlines() if " TABLE " in line}


def check_comparison(server, pipeline):
    """The tables are what the server has; once they are not, the DAG for it fails, and its log names the row."""
    compared = comparisons.reconcile("shop", settings=pipeline.settings)
    assert [(one.table, one.outcome, one.compared) for one in compared.tables] == [("shop.orders", "match", 3)]
    server.run_sql("SET sql_log_bin = 0; UPDATE shop.orders SET note = 'unlogged' WHERE id = 2")
    said = pipeline.test_dag("reconcile_sources", {"tables": ["shop.orders"]})
    assert "state=failed" in said.rsplit("DagRun Finished", 1)[-1]
    assert "differs id = 2; lake: note = 'changed'; server: note = 'unlogged'" in said


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
    """The run ends red, and says what was left out; once the reason is gone it is taken by asking for it."""
    source_server.run_sql("CREATE TABLE notes (id INT PRIMARY KEY); INSERT INTO notes VALUES (1)", "shop")
    checks = pipeline.folder / "checks"
    checks.mkdir()
    rule = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "id", "max_value": 0}}
    (checks / "shop.notes.json").write_text(json.dumps({"expectations": [rule]}))
    settings = pipeline.state.settings_file
    settings.write_text(f'{settings.read_text()}checks = "{checks}"\n')
    said = pipeline.test_dag("ingest_binlog")
    assert "state=failed" in said.rsplit("DagRun Finished", 1)[-1], said[-6000:]
    assert "1 row of shop.notes left out" in said
    assert len(pipeline.rows("orders")) == ROWS
    ledger = TableIntervalLedger(open_store(pipeline.settings.source("shop").store_url))
    (failed,) = ledger.select("shop", (State.FAILED,))
    assert (failed.name, failed.rows, failed.published_rows) == ("shop.notes", 1, 0)
    (checks / "shop.notes.json").unlink()
    pipeline.ingest(failed=True)
    assert len(pipeline.rows("notes")) == 1
    assert ledger.select("shop", (State.FAILED, State.OWED, State.HELD)) == []


def test_a_span_without_rows_leaves_spark_out_and_is_published_as_empty(source_server, make_pipeline):
    pipeline = make_pipeline(make_account(source_server))
    source_server.run_sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS strata; CREATE DATABASE nothing;")
    said = pipeline.ingest()
    assert "spark-submit" not in said.lower().replace("sparksubmit", "")
    assert not pipeline.published()
