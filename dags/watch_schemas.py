"""Reports each DDL on a live server within seconds, without waiting for the next `ingest_binlog`.

Airflow's triggerer follows the stream of each source that has `watch_replication_stream = true` in the settings; each
DDL statement is an event of the asset `strata://SOURCE/ddl`, with its GTID, tables and text. Put that asset into a
DAG's `schedule` to act on it. After downtime, the events of all missed DDL come first.

The runs of this DAG list the statements that started them. If no source is watched, there are no runs. Pausing the
DAG ends the watch.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import AssetAny, AssetWatcher, dag

from dags.assets import ddl_asset
from dags.steps import RETRIES, list_ddl
from plugins.replication_watcher import ReplicationWatcher
from strata_cdc.config.settings import SETTINGS_VARIABLE, load_settings

WATCHED = load_settings(os.environ).watched() if SETTINGS_VARIABLE in os.environ else []
STREAMS = [
    ddl_asset(source, [AssetWatcher(f"strata_{source}", trigger=ReplicationWatcher(source))]) for source in WATCHED
]


@dag(
    doc_md=__doc__,
    schedule=AssetAny(*STREAMS) if STREAMS else None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    # Airflow watches only for DAGs that are not paused, and the settings say already what is watched.
    is_paused_upon_creation=False,
    default_args=RETRIES,
    tags=["strata"],
)
def watch_schemas() -> None:
    """One task."""
    list_ddl()


watch_schemas()
