"""Reads the new rows of a table each time that rows are published: an example of a consumer, which runs only if
somebody copies it to their own folder of DAGs.

Two assets start it. `strata://SOURCE/DATABASE/TABLE` has an event for each interval that is published, with its
rows, GTID set, schema versions and verdict; `strata://SOURCE/ddl` has an event for each DDL statement within seconds,
by an `AssetWatcher` that follows the server (`watch_replication_stream` in the settings). Spark reads only the files of
these intervals, and nothing that was read before; an interval that was published again is read again completely.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import AssetAny, AssetWatcher, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from strata_cdc.airflow.assets import ddl_asset, table_asset
from strata_cdc.airflow.plugins.replication_watcher import ReplicationWatcher
from strata_cdc.airflow.task_logs import say
from strata_cdc.startup.spark import JOBS

SOURCE, TABLE = "shop", "shop.orders"
CHANGES = table_asset(SOURCE, TABLE)
DDL = ddl_asset(SOURCE, [AssetWatcher(f"strata_{SOURCE}", trigger=ReplicationWatcher(SOURCE))])
JOB = str(JOBS / "count_changes.py")
"""Beside Strata's DAGs, wherever this file lies."""


@task
def list_intervals() -> list[str]:
    """Starts of the intervals that were published since the last run (microseconds UTC); DDL is only logged."""
    # The mapping has the events of tables a second time, under the alias by which the task sent them.
    events = get_current_context()["triggering_asset_events"]
    for event in events.get(DDL, ()):
        say(f"DDL: {event.extra['payload']}")
    intervals = {str(event.extra["interval"]) for event in events.get(CHANGES, ())}
    if not intervals:
        raise AirflowSkipException("no rows, only DDL")
    return sorted(intervals)


@dag(
    doc_md=__doc__,
    schedule=AssetAny(CHANGES, DDL),
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["strata", "example"],
)
def read_changes() -> None:
    """Two tasks."""
    intervals: Any = list_intervals()
    SparkSubmitOperator(
        task_id="count_by_operation",
        conn_id="spark_strata",
        application=JOB,
        application_args=[SOURCE, TABLE, "{{ ti.xcom_pull(task_ids='list_intervals') | join(',') }}"],
    ).set_upstream(intervals)


read_changes()
