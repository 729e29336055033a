"""Reads the rows of tables from the server while others write to them, and makes their mirrors.

`ingest_binlog` starts it for tables whose rows are in no log. Started by hand, it reads the tables that the settings'
`mirrors` name and whose rows from before the landed stream are missing, or the tables that the form names. It takes no
lock and writes nothing on the server. If a run is killed, the next one continues from there. `ingest_binlog` keeps the
mirrors up to date afterwards.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import dag

from dags.forms import source_field, switch_field, tables_field
from dags.steps import RETRIES, dump, list_sources


@dag(
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    tags=["strata"],
    params={
        "source": source_field(),
        "tables": tables_field("those of `mirrors` that have no mirror yet"),
        "waiting": switch_field("Only tables that wait", "Tables whose mirrors wait to be read again, and no others."),
    },
)
def dump_tables() -> None:
    """One task for each source."""
    dump.expand(source=list_sources())


dump_tables()
