"""Keeps the number of files of mirrors and change tables small: merges small files and files with many deleted rows,
deletes unneeded ones.

Every hour, the mirrors of each source that have `compact_files` small files or `compact_dead_percent` deleted rows are
compacted, and files that only states older than `keep_mirror_hours` need are deleted. No row changes; readers and
updates of a mirror continue meanwhile. Many short intervals of the past become one (`merge_minutes`), and their files
in each change table become few. The task's log says what was done.
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
