"""Reads the rows of tables from the server while others write to them, and makes their mirrors.

Started by `ingest_binlog` for tables whose rows no log tells. Started by hand: for tables that the settings' `mirrors`
name and whose rows from before the landed stream nobody has, or for those that the form names. It takes no lock and
writes nothing on the server; a run that was killed goes on where it was. `ingest_binlog` keeps the mirrors up to date
afterwards.
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
        "waiting": switch_field("Only what waits", "Tables whose mirrors wait to be read again, and no others."),
    },
)
def dump_tables() -> None:
    """One task for each source."""
    dump.expand(source=list_sources())


dump_tables()
