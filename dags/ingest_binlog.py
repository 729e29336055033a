"""Lands binlogs, decodes their rows with the schema that was true at each GTID, checks them, publishes Delta tables.

| step | does |
|---|---|
| `land` | copies what the server has executed and we do not have, byte for byte |
| `track` | DDL to schema versions, in the table `schema_version`; each is an event of `strata://SOURCE/schema` |
| `plan` | takes what is owed, oldest first, and cuts it into slices, none of which spans a DDL |
| `decode` | Spark: one task a slice, each writes its Parquet files beside the tables |
| `check` | expectations compiled from the schema versions, judged in one pass; a table that fails is withheld |
| `publish` | one Delta commit per table and interval, and an asset event with rows, schema version and GTID set |
| `mirror` | brings the mirrors that the settings name up to what is published |
| `read_again` | has `dump_tables` read the tables whose mirrors stand because no log tells their rows |
| `publish_group` | for each group of the settings: publishes the cut that all of its sources have passed |
| `source_at_cut` | below it, for each source of a group: says where the cut meets it |
| `report_left` | says where the Data Docs are; fails when rows were left out or deleted: which, why, what to run |

- **Scheduled**, each run does the five minutes before it, and first whatever is still owed from before: of a time
  when the DAG was paused, of a run that died, of tables that nobody had asked for.
- **Backfill** does any span of time, again or for the first time; what was published of an interval is replaced, never
  doubled.
- **By hand**, the form takes a source, tables, and a span of time or a GTID set; left empty, it is everything
  that is owed. A dry run says in the log of `list_sources` what would be done, and does nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import CronDataIntervalTimetable, dag, task_group

from dags import steps
from dags.docs_link import ChangesLink, DataDocsLink, HistoryLink, VerdictLink
from dags.forms import run_form
from dags.freshness import freshness
from dags.groups import publish_groups
from dags.read_again import ReadAgain


@dag(
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("*/5 * * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=steps.RETRIES,
    tags=["strata"],
    params=run_form(),
    deadline=freshness(),
)
def ingest_binlog() -> None:
    """The table of contents; the steps are in `steps.py`."""

    @task_group
    def ingest(source: str) -> None:
        landed, tracked, planned = steps.land(source), steps.track(source), steps.plan(source)
        published, mirrored = steps.publish(source, planned), steps.mirror(source)
        left = steps.report_left(source, planned)
        for one in (landed, tracked, planned, mirrored):
            one.operator.operator_extra_links = (ChangesLink(), HistoryLink())
        for one in (published, left):
            one.operator.operator_extra_links = (ChangesLink(), HistoryLink(), VerdictLink(), DataDocsLink())
        landed >> tracked >> planned
        planned >> steps.decode(planned) >> steps.check(planned) >> published
        published >> [mirrored, left]
        mirrored >> ReadAgain(task_id="read_again", source=source, doc_md=ReadAgain.__doc__)

    ingested: Any = ingest.expand(source=steps.list_sources())
    publish_groups(ingested.get_child_by_label("mirror"))


ingest_binlog()
