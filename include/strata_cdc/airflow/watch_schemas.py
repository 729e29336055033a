"""Reports each DDL on a live server within seconds, without waiting for the next `ingest_binlog`.

Airflow's triggerer follows the stream of each source that has `watch_replication_stream = true` in the settings; each
DDL statement is an event of the asset `strata://SOURCE/ddl`, with its GTID, tables and text. Put that asset into a
DAG's `schedule` to act on it. After downtime, the events of all missed DDL come first.

The runs of this DAG list the statements that started them. If no source is watched, there are no runs. Pausing the
DAG ends the watch.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from airflow.sdk import AssetAny, AssetWatcher

from strata_cdc.airflow.assets import ddl_asset
from strata_cdc.airflow.plugins.replication_watcher import ReplicationWatcher
from strata_cdc.airflow.steps import list_ddl
from strata_cdc.config.settings import are_given, load_settings
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from strata_cdc.airflow.dag_set import DagSet


def watch_schemas(dag_set: DagSet) -> DAG:
    """The DAG, with one task."""
    streams = [
        ddl_asset(source, [AssetWatcher(f"strata_{source}", trigger=ReplicationWatcher(source))])
        for source in _watched()
        if not dag_set.sources or source in dag_set.sources
    ]

    with dag_set.make_dag(
        "watch_schemas",
        AssetAny(*streams) if streams else None,
        doc_md=__doc__,
        # Airflow watches only for DAGs that are not paused, and the settings say already what is watched.
        is_paused_upon_creation=False,
    ) as dag:
        list_ddl()
    return dag


def _watched() -> list[str]:
    """None if the settings cannot be read here: the steps of the other DAGs report why, and their file is this one."""
    if not are_given(os.environ):
        return []
    try:
        return load_settings(os.environ).watched()
    except StrataError:
        return []
