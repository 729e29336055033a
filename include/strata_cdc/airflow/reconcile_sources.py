"""Compares the tables of the lake with those of their server, at a GTID set that both have, and names rows that differ.

The server is read without a lock, in short SELECTs with pauses between them. What it has written meanwhile is landed
and tracked first. A task fails if a table differs; its log names the rows. What cannot be compared is in the report,
with the reason.

- **Scheduled**, each source that has `reconcile_keys` in the settings is compared every day, that number of rows
  of each table; for other sources the task is skipped.
- **By hand**, the form takes a source, tables, and how many rows of each table; left empty, all rows
  of all tables are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.airflow.forms import count_field, source_field, tables_field
from strata_cdc.airflow.steps import list_sources, reconcile

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from strata_cdc.airflow.dag_set import DagSet


def reconcile_sources(dag_set: DagSet) -> DAG:
    """The DAG, with one task for each source."""
    with dag_set.make_dag(
        "reconcile_sources",
        "@daily",
        doc_md=__doc__,
        params={
            "source": source_field(dag_set.sources),
            "tables": tables_field(),
            "keys": count_field("Rows of each table", "Empty: all."),
        },
    ) as dag:
        reconcile.expand(source=list_sources(list(dag_set.sources)))
    return dag
