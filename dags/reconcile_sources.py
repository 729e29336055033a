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

from datetime import UTC, datetime

from airflow.sdk import dag

from dags.forms import count_field, source_field, tables_field
from dags.steps import RETRIES, list_sources, reconcile


@dag(
    doc_md=__doc__,
    schedule="@daily",
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    tags=["strata"],
    params={
        "source": source_field(),
        "tables": tables_field(),
        "keys": count_field("Rows of each table", "Empty: all."),
    },
)
def reconcile_sources() -> None:
    """One task for each source."""
    reconcile.expand(source=list_sources())


reconcile_sources()
