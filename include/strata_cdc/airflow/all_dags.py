"""All DAGs of a set. Not here: what each does (a file each, called as the DAG is)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.airflow.dump_tables import dump_tables
from strata_cdc.airflow.ingest_binlog import ingest_binlog
from strata_cdc.airflow.keep_mirrors import keep_mirrors
from strata_cdc.airflow.reconcile_sources import reconcile_sources
from strata_cdc.airflow.snapshot_schemas import snapshot_schemas
from strata_cdc.airflow.watch_schemas import watch_schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import DAG

    from strata_cdc.airflow.dag_set import DagSet


def make_dags(dag_set: DagSet) -> Iterator[DAG]:
    """The DAGs, one after the other."""
    for make in (dump_tables, ingest_binlog, keep_mirrors, reconcile_sources, snapshot_schemas, watch_schemas):
        yield make(dag_set)
