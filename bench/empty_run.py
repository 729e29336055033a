"""What a run of `ingest_binlog` without changes takes beyond Airflow's own scheduling: beside it runs a DAG of the same
tasks that do nothing, in turn, in one Airflow.

Run it: `python -m bench.empty_run [ROUNDS]` (default 4); it starts a MySQL and a whole Airflow of its own.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from tests.airflow.live import Live, live
from tests.airflow.pipeline import Pipeline, make_account
from tests.mysql_server import start_server

DAG, NOTHING = "ingest_binlog", "do_nothing"
TASKS = '''"""The tasks of `ingest_binlog`, none of which does anything."""

from datetime import timedelta

from airflow.sdk import dag, task, task_group
from airflow.sdk.exceptions import AirflowSkipException


@task
def list_sources():
    return ["shop"]


@task
def step(source):
    return source


@task
def skipped(source):
    raise AirflowSkipException("nothing")


@task(trigger_rule="all_done")
def step_behind(source):
    return source


@dag(dag_id="do_nothing", schedule=None, max_active_runs=1, default_args={"retry_delay": timedelta(seconds=20)})
def do_nothing():
    @task_group
    def ingest(source):
        planned = step.override(task_id="plan")(source)
        checked = skipped.override(task_id="check")(source)
        published, mirrored = step_behind.override(task_id="publish")(source), step.override(task_id="mirror")(source)
        step.override(task_id="land")(source) >> step.override(task_id="track")(source) >> planned
        planned >> skipped.override(task_id="decode")(source) >> checked >> published
        published >> [mirrored, step.override(task_id="report_left")(source)]
        mirrored >> step_behind.override(task_id="read_again")(source)

    ingest.expand(source=list_sources())


do_nothing()
'''


def seconds(airflow: Live, dag: str, **conf: str) -> float:
    """Of one run, from its start to its end, by Airflow's own clock."""
    run = airflow.trigger(dag, **conf)
    state = airflow.wait_for_run(dag, run)
    assert state == "success", (dag, run, state)
    found = airflow.api.get(f"/dags/{dag}/dagRuns/{run}")
    return (datetime.fromisoformat(found["end_date"]) - datetime.fromisoformat(found["start_date"])).total_seconds()


def measure(airflow: Live, rounds: int) -> None:
    """Prints both, and the difference."""
    for dag in (DAG, NOTHING):
        airflow.api.set_paused(dag, "no")
    # The first has the tables to find, and each DAG its first processes to start.
    seconds(airflow, DAG, source="shop")
    seconds(airflow, NOTHING)
    pairs = [(seconds(airflow, NOTHING), seconds(airflow, DAG, source="shop")) for _ in range(rounds)]
    for what, times in zip(
        ("nine tasks that do nothing", "ingest_binlog without changes"), zip(*pairs, strict=True), strict=True
    ):
        print(f"{what:32} {statistics.median(times):5.1f} s   {', '.join(f'{one:.1f}' for one in times)}")
    beyond = [ours - nothing for nothing, ours in pairs]
    print(f"{'beyond':32} {statistics.median(beyond):5.1f} s   {', '.join(f'{one:.1f}' for one in beyond)}")


def main(arguments: list[str]) -> None:
    """Starts what is needed, and measures."""
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as name, start_server(Path(name) / "server") as server:
        folder = Path(name)
        server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)")
        own = folder / "dags"
        own.mkdir()
        (own / "do_nothing.py").write_text(TASKS)
        bundles = [
            {"name": name, "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": options}
            for name, options in (("dags-folder", {}), ("own", {"path": str(own)}))
        ]
        pipeline = Pipeline(
            folder,
            make_account(server),
            {
                "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
                "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            },
        )
        pipeline.prepare()
        with live(pipeline, DAG, NOTHING) as airflow:
            measure(airflow, int(arguments[0]) if arguments else 4)


if __name__ == "__main__":
    main(sys.argv[1:])
