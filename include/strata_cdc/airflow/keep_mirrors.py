"""Keeps the number of files of mirrors and change tables small: merges small files and files with many deleted rows,
deletes unneeded ones.

Every hour, the mirrors of each source that have `compact_files` small files or `compact_dead_percent` deleted rows are
compacted, and files that only states older than `keep_mirror_hours` need are deleted. No row changes; readers and
updates of a mirror continue meanwhile. Many short intervals of the past become one (`merge_minutes`), and their files
in each change table become few; of intervals older than `merge_days` there is one for each day. Run folders and
quarantine beyond `keep_runs_days` are deleted. The task's log says what was done, and `strata housekeep --dry-run` what
would be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.airflow import steps
from strata_cdc.airflow.forms import source_field

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from strata_cdc.airflow.dag_set import DagSet


def keep_mirrors(dag_set: DagSet) -> DAG:
    """The DAG, with one task for each source."""
    with dag_set.make_dag(
        "keep_mirrors",
        "@hourly",
        doc_md=__doc__,
        params={"source": source_field(dag_set.sources)},
    ) as dag:
        steps.keep_mirrors.expand(source=steps.list_sources(list(dag_set.sources)))
    return dag
