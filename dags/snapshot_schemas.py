"""Reads the schema of every table of each source at one known GTID set.

Run it once before the first `ingest_binlog`: a stream that does not start with a new server needs to know which
tables existed before.

Afterwards it detects drift: each snapshot is compared with the result of replaying the DDL up to the same GTID set, and
any difference is reported as drift, stored and shown.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import dag

from dags.forms import source_field
from dags.steps import RETRIES, list_sources, snapshot


@dag(
    doc_md=__doc__,
    schedule="@hourly",
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
    tags=["strata"],
    params={"source": source_field()},
)
def snapshot_schemas() -> None:
    """One task for each source."""
    snapshot.expand(source=list_sources())


snapshot_schemas()
