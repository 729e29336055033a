"""Reads the rows of tables from the server while others write to them, and makes their mirrors.

`ingest_binlog` starts it for tables whose rows are in no log. Started by hand, it reads the tables that the settings'
`mirrors` name and whose rows from before the landed stream are missing, or the tables that the form names. It takes no
lock and writes nothing on the server. If a run is killed, the next one continues from there. `ingest_binlog` keeps the
mirrors up to date afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.airflow.forms import source_field, switch_field, tables_field
from strata_cdc.airflow.steps import dump, list_sources

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from strata_cdc.airflow.dag_set import DagSet


def dump_tables(dag_set: DagSet) -> DAG:
    """The DAG, with one task for each source."""
    with dag_set.make_dag(
        "dump_tables",
        None,
        doc_md=__doc__,
        params={
            "source": source_field(dag_set.sources),
            "tables": tables_field("those of `mirrors` that have no mirror yet"),
            "waiting": switch_field(
                "Only tables that wait", "Tables whose mirrors wait to be read again, and no others."
            ),
        },
    ) as dag:
        dump.expand(source=list_sources(list(dag_set.sources)))
    return dag
