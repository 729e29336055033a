"""Keeps the files of mirrors few: makes whole ones of small and half-dead ones, deletes those that nobody needs.

Every hour, the mirrors of each source that have `compact_files` small files or `compact_dead_percent` dead rows are
compacted, and files that only states older than `keep_mirror_hours` need are deleted. No row changes; who reads or
updates a mirror meanwhile goes on. The task's log says what was done.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import dag

from dags.forms import source_field
from dags.steps import RETRIES, keep_mirrors, list_sources


@dag(
    dag_id="keep_mirrors",
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    tags=["strata"],
    params={"source": source_field()},
)
def keep() -> None:
    """One task for each source."""
    keep_mirrors.expand(source=list_sources())


keep()
