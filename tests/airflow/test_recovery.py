"""A whole Airflow whose parts are killed while they decode, and the past done again beside the schedule: published rows
say whether anything was lost or came twice. Minutes long: `make soak` has them done."""

from __future__ import annotations

import itertools
import shutil
import time
from datetime import UTC, datetime

import psutil
import pytest

from strata_cdc.errors import Usage
from strata_cdc.files.lock import hold_folder
from strata_cdc.landing.landed import landing_folder
from strata_cdc.tables.read import read_changes
from tests.airflow.live import ENDED, kill, live
from tests.airflow.pipeline import Pipeline, make_account
from tests.groups.conftest import clock, set_clock, start  # noqa: F401  a fixture among them

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.mysql,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.soak,
]
DAG = "ingest_binlog"
ROWS = 50_000
SETTINGS = """
lake = "{folder}/lake"
fresh_within_minutes = 6
[sources.shop]
connection = "mysql_shop"
engine = "spark"
"""
HOUR, SPAN = 3600, 300
"""Seconds; the second of a scheduled run."""


@pytest.fixture(scope="module")
def server(tmp_path_factory, clock):  # noqa: F811  the fixture's name
    """One whose clock can be set: commits of an hour ago need no hour. It begins before them, for a commit's time is
    never before that of the one before it."""
    if clock is None:
        pytest.skip("needs a C compiler to set a server's clock")
    folder = tmp_path_factory.mktemp("source")
    found = start(folder, clock, ahead_seconds=-2 * HOUR)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def airflow(server, airflow_home, tmp_path_factory):
    """All of Airflow, quick to notice what is dead, on a shop with no orders yet."""
    folder = tmp_path_factory.mktemp("recovery")
    shutil.copytree(airflow_home, folder / "airflow")
    (folder / "strata.toml").write_text(SETTINGS.format(folder=folder))
    pipeline = Pipeline(
        folder,
        make_account(server),
        {
            "STRATA_SETTINGS": str(folder / "strata.toml"),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "airflow" / "logs"),
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
        },
    )
    server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)")
    with live(pipeline, DAG) as found:
        yield found


FIRST = itertools.count(1, 1_000_000)
"""First ids of each batch of orders."""


def sell(server, number=ROWS):
    """Makes orders; returns their ids."""
    first = next(FIRST)
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {number})"
    server.run_sql(
        f"SET cte_max_recursion_depth = 1000000; INSERT INTO shop.orders {numbers} SELECT {first} + i, 'x' FROM n"
    )
    return range(first, first + number)


def published(airflow):
    """Ids, sorted; none before there is a table."""
    try:
        found = read_changes(str(airflow.pipeline.state.lake), "shop", "shop.orders", columns=["id"])
    except Usage:
        return []
    return sorted(found.column("id").to_pylist())


def on_server(server):
    """Ids, sorted."""
    return [int(line) for line in server.run_sql("SELECT id FROM shop.orders ORDER BY id").split()[1:]]


def end_all(airflow):
    """Until no run is at work or waits."""
    airflow.wait_for(lambda: all(run["state"] in ENDED for run in airflow.runs(DAG)))


def test_a_scheduled_run_that_is_late_is_told(server, airflow):
    """It cannot land while somebody else does, until its five minutes are a minute too old."""
    sell(server, 10)
    with hold_folder(landing_folder(str(airflow.pipeline.state.lake), "shop"), "landing shop"):
        airflow.api.set_paused(DAG, "no")
        airflow.wait_for(lambda: "the readers' data is older than 6 minutes" in airflow.everything_logged(), 600)
        [run] = airflow.runs(DAG, "scheduled")[:1]
        assert run["state"] == "running"
        assert airflow.tasks(DAG, run["dag_run_id"])["ingest.land"] == "up_for_retry"
    end_all(airflow)
    assert airflow.runs(DAG, "scheduled")[0]["state"] == "success"


def test_a_backfill_beside_the_schedule_and_twice_gives_the_same(server, airflow):
    """Two spans of an hour ago, by the schedule first."""
    span = int(time.time()) // SPAN * SPAN - HOUR
    for number in (0, 1):
        set_clock(server, int(span + number * SPAN + SPAN / 3 - time.time()))
        sell(server, 1000)
    set_clock(server, 0)
    airflow.api.set_paused(DAG, "no")
    # The schedule's next time may be a whole span away.
    airflow.wait_for(lambda: published(airflow) == on_server(server), 2 * SPAN)
    rows = airflow.pipeline.rows("orders")
    days = [datetime.fromtimestamp(span + number * SPAN, UTC).isoformat() for number in (0, 1)]
    for order in ((), ("--run-backwards",)):
        options = ("--reprocess-behavior", "completed", "--max-active-runs", "1", *order)
        dates = ("--from-date", days[0], "--to-date", days[1])
        airflow.pipeline.run("backfill", "create", "--dag-id", DAG, *options, *dates)
        airflow.wait_for(lambda: [run for run in airflow.runs(DAG, "backfill") if run["state"] == "running"])
        # Meanwhile by hand, and by the schedule if its time has come.
        airflow.trigger(DAG, source="shop")
        end_all(airflow)
        assert airflow.pipeline.rows("orders") == rows
        backfilled = airflow.runs(DAG, "backfill")
        assert len(backfilled) == 2
        assert not overlaps(backfilled)
        # Airflow takes no other one before it has closed this one.
        airflow.wait_for(lambda: all(one["completed_at"] for one in backfills(airflow)))
    assert {run["state"] for run in airflow.runs(DAG)} == {"success"}


def backfills(airflow):
    return airflow.api.get(f"/backfills?dag_id={DAG}")["backfills"]


def overlaps(runs):
    """Whether two of these were at work at a time."""
    times = sorted((run["start_date"], run["end_date"]) for run in runs)
    return any(later[0] < earlier[1] for earlier, later in itertools.pairwise(times))


def driver_of(airflow):
    """The JVM of the Spark job that decodes just now."""
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "SparkSubmit" in line and "decode_slices.py" in line and str(airflow.pipeline.state.lake) in line:
            return process
    return None


def kill_scheduler(airflow, driver):
    kill(airflow.components["scheduler"])


def kill_worker(airflow, driver):
    """The process that Airflow has made for the task, and the one that supervises it."""
    task = driver.parent()
    for process in (task.parent(), task):
        process.kill()


def kill_jvm(airflow, driver):
    driver.kill()


def is_gone(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("act", [kill_jvm, kill_scheduler, kill_worker], ids=lambda act: act.__name__)
def test_what_is_killed_while_it_decodes_is_done_again_and_comes_once(server, airflow, act):
    airflow.api.set_paused(DAG, "no")
    end_all(airflow)
    sell(server)
    run = airflow.trigger(DAG, source="shop")
    driver = airflow.wait_for(lambda: driver_of(airflow))
    act(airflow, driver)
    # Nobody waits for what nobody has asked for: with the task its job ends, too.
    airflow.wait_for(lambda: is_gone(driver), seconds=60)
    if act is kill_scheduler:
        airflow.start("scheduler")
    assert airflow.wait_for_run(DAG, run) == "success", airflow.said()
    assert published(airflow) == on_server(server)


def test_a_second_run_waits_while_another_lands(server, airflow):
    """Whoever it is: another Airflow, the command line."""
    airflow.api.set_paused(DAG, "no")
    end_all(airflow)
    sold = sell(server, 10)
    with hold_folder(landing_folder(str(airflow.pipeline.state.lake), "shop"), "landing shop"):
        run = airflow.trigger(DAG, source="shop")
        airflow.wait_for(lambda: airflow.tasks(DAG, run).get("ingest.land") == "up_for_retry")
        assert not set(published(airflow)) & set(sold)
    assert airflow.wait_for_run(DAG, run) == "success"
    assert published(airflow) == on_server(server)
    assert "AlreadyRunningError" in airflow.log(DAG, "ingest.land", run)
