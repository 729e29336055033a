"""Reads the schema of every table of each source at one known GTID set.

Run it once before the first `ingest_binlog`: a stream that does not start with a new server needs to know which
tables existed before.

Afterwards it detects drift: each snapshot is compared with the result of replaying the DDL up to the same GTID set, and
any difference is reported as drift, stored and shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.airflow.forms import source_field
from strata_cdc.airflow.steps import list_sources, snapshot

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from strata_cdc.airflow.dag_set import DagSet


def snapshot_schemas(dag_set: DagSet) -> DAG:
    """The DAG, with one task for each source."""
    with dag_set.make_dag(
        "snapshot_schemas",
        "@hourly",
        doc_md=__doc__,
        params={"source": source_field(dag_set.sources)},
    ) as dag:
        snapshot.expand(source=list_sources(list(dag_set.sources)))
    return dag
