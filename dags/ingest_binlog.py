"""Lands binlogs, decodes their rows with the schema that was true at each GTID, checks them, publishes Delta tables.

STEPS
| `publish_group` | for each group of the settings: publishes the cut that all of its sources have passed |
| `source_at_cut` | after it, for each source of a group: reports the source's position at the cut |

- **Scheduled**, each run processes the five minutes before it, and first whatever is still pending from before: from
  a time when the DAG was paused, from a run that died, of tables that were not requested.
- **Backfill** processes any span of time, again or for the first time; what was published of an interval is replaced,
  never duplicated.
- **By hand**, the form takes a source, tables, and a span of time or a GTID set; left empty, it means everything
  that is pending. A dry run says in the log of `list_sources` what would be done, and does nothing.
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
from strata_cdc.pipeline.steps import edges, table_of_steps


@dag(
    doc_md=__doc__.replace("STEPS", table_of_steps()),
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
    """The list of the steps is `strata_cdc.pipeline.steps`; the tasks are in `steps.py`."""

    @task_group
    def ingest(source: str) -> None:
        planned = steps.plan(source)
        tasks: dict[str, Any] = {
            "land": steps.land(source),
            "track": steps.track(source),
            "plan": planned,
            "decode": steps.decode(planned),
            "check": steps.check(planned),
            "publish": steps.publish(source, planned),
            "mirror": steps.mirror(source),
            "report_left": steps.report_left(source, planned),
            "read_again": ReadAgain(task_id="read_again", source=source, doc_md=ReadAgain.__doc__),
        }
        for name in ("land", "track", "plan", "mirror"):
            tasks[name].operator.operator_extra_links = (ChangesLink(), HistoryLink())
        for name in ("publish", "report_left"):
            tasks[name].operator.operator_extra_links = (ChangesLink(), HistoryLink(), VerdictLink(), DataDocsLink())
        for before, after in edges():
            tasks[before] >> tasks[after]

    ingested: Any = ingest.expand(source=steps.list_sources())
    publish_groups(ingested.get_child_by_label("mirror"))


ingest_binlog()
