"""A whole Airflow on a real server: the page, the form in a browser and by REST, a consumer that assets start.
Not here: kills of its parts, a deadline that is missed, backfills beside the schedule (`test_recovery.py`)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from scripts.services import ADMIN
from tests.airflow.live import API_PASSWORD, live
from tests.airflow.page import check_page, write_past
from tests.airflow.pipeline import Pipeline, make_account
from tests.browser import open_browser

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.spark, pytest.mark.browser, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[2]
BROWSER_MILLISECONDS = 120_000
SETTINGS = """
lake = "lake"
fresh_within_minutes = 30
[sources.shop]
connection = "mysql_shop"
watch_replication_stream = true
"""
BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
DAG, CONSUMER = "ingest_binlog", "read_changes"


@pytest.fixture(scope="module")
def airflow(source_server, airflow_home, tmp_path_factory):
    """All of Airflow, with the example of a consumer where users have their DAGs, on a shop without orders: runs of the
    schedule have nothing to decode."""
    folder = tmp_path_factory.mktemp("live")
    source_server.run_sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS strata; DROP DATABASE IF EXISTS shop")
    source_server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)")
    (folder / "strata.toml").write_text(SETTINGS)
    own = folder / "own"
    own.mkdir()
    shutil.copy(REPOSITORY / "dags" / "examples" / "read_changes.py", own)
    bundles = [("dags-folder", {}), ("own", {"path": str(own)})]
    shutil.copytree(airflow_home, folder / "airflow")
    pipeline = Pipeline(
        folder,
        make_account(source_server),
        {
            "STRATA_SETTINGS": str(folder / "strata.toml"),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "airflow" / "logs"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
                [{"name": name, "classpath": BUNDLE, "kwargs": options} for name, options in bundles]
            ),
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
        },
    )
    # The page shows a past that no run has to make first.
    with live(pipeline, DAG, CONSUMER, api_server={"STRATA_SETTINGS": write_past(folder)}) as found:
        yield found


def test_who_has_signed_in_to_airflow_reads_the_page_and_nobody_else(airflow):
    check_page(airflow.address)


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"source": "nope"}, "'nope' is not one of [None, 'shop']"),
        ({"tables": ["orders"]}, "it has no dot. Write database.table, as in"),
        ({"tables": []}, "tables is an empty list. Leave it out for all tables."),
        ({"start": "yesterday"}, "'yesterday' is no time with a zone. Write it as in 2026-11-21T03:30:00Z."),
        ({"gtid_set": "all"}, "Write a GTID set, as in 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5."),
        ({"dry_run": "yes"}, "'yes' is neither true nor false. Write it as in true, without quotes."),
    ],
    ids=["source", "table", "tables", "time", "gtid-set", "switch"],
)
def test_rest_starts_no_run_with_a_bad_value(airflow, conf, said):
    before = airflow.runs(DAG, "manual")
    told = airflow.refusal(DAG, **conf)
    assert said in told
    assert "schema" not in told or "source" in conf
    assert airflow.runs(DAG, "manual") == before


def test_the_form_says_what_is_wrong_and_starts_what_is_right(airflow):
    before = {run["dag_run_id"] for run in airflow.runs(DAG, "manual")}
    with open_browser() as browser:
        page = browser.new_page()
        page.set_default_timeout(BROWSER_MILLISECONDS)
        page.goto(airflow.address)
        page.fill("input[name=username]", ADMIN)
        page.fill("input[name=password]", API_PASSWORD)
        page.press("input[name=password]", "Enter")
        page.get_by_text("Schema history").first.wait_for()
        page.goto(f"{airflow.address}/dags/{DAG}")
        page.get_by_role("button", name="Trigger").first.click()
        form = page.get_by_role("dialog")
        form.locator("#element_gtid_set").fill("all")
        with page.expect_response(is_trigger) as refused:
            form.get_by_role("button", name="Trigger", exact=True).click()
        assert (refused.value.status, "gtid_set" in refused.value.text()) == (400, True)
        page.get_by_text("Failed to Trigger Dag").wait_for()
        page.get_by_text("'all' is no GTID set").first.wait_for()
        assert "schema" not in refused.value.text()
        # The page lets the schedule go on all the same.
        assert {run["dag_run_id"] for run in airflow.runs(DAG, "manual")} == before
        form.locator("#element_gtid_set").fill("")
        form.locator("[data-scope=switch][data-part=root]").last.click()
        with page.expect_response(is_trigger) as taken:
            form.get_by_role("button", name="Trigger", exact=True).click()
        assert taken.value.status == 200
    [run] = {run["dag_run_id"] for run in airflow.runs(DAG, "manual")} - before
    assert airflow.wait_for_run(DAG, run) == "success"
    assert "only say what would be done" in airflow.log(DAG, "list_sources", run)
    assert set(airflow.tasks(DAG, run).values()) == {"success", "skipped"}


def is_trigger(response):
    return response.request.method == "POST" and response.url.endswith("/dagRuns")


def test_a_field_that_the_form_does_not_have_is_refused_by_the_first_task(airflow):
    airflow.api.set_paused(DAG, "no")
    run = airflow.trigger(DAG, table=["shop.*"])
    assert airflow.wait_for_run(DAG, run) == "failed"
    assert "table is no field of this form: do you mean tables?" in airflow.log(DAG, "list_sources", run)
    assert set(airflow.tasks(DAG, run).values()) == {"failed", "upstream_failed"}


@pytest.mark.soak
def test_a_consumer_reads_just_what_is_new_and_hears_of_ddl(airflow, source_server):
    """Runs of the schedule may publish some of the rows, and the consumer may run for each: nothing comes twice."""
    airflow.api.set_paused(CONSUMER, "no")
    airflow.api.set_paused(DAG, "no")
    source_server.run_sql("INSERT INTO shop.orders VALUES (11, 'x'), (12, 'y'), (13, 'z'), (14, NULL)")
    sold = 4
    run = airflow.trigger(DAG, source="shop")
    assert airflow.wait_for_run(DAG, run) == "success", airflow.said()
    assert len(airflow.pipeline.rows("orders")) == sold
    airflow.wait_for(lambda: counted(airflow) >= sold)
    source_server.run_sql("ALTER TABLE shop.orders ADD COLUMN b INT")
    airflow.wait_for(lambda: "ADD COLUMN b INT" in airflow.log(CONSUMER, "list_intervals"))
    # Without changes Spark is not started, and nobody is told of anything.
    reported = airflow.pipeline.asset_events("strata://shop/shop/orders")
    idle = airflow.trigger(DAG, source="shop")
    assert airflow.wait_for_run(DAG, idle) == "success"
    assert airflow.tasks(DAG, idle)["ingest.decode"] == "skipped"
    assert airflow.pipeline.asset_events("strata://shop/shop/orders") == reported
    assert counted(airflow) == sold


def counted(airflow):
    """Inserts that all runs of the consumer have counted."""
    return sum(map(int, re.findall(r"\binsert: (\d+)", airflow.log(CONSUMER, "count_by_operation"))))
