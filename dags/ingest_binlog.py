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
| `report_left` | makes the Data Docs; fails when rows were left out, and says which, why, and what to run |

- **Scheduled**, each run does the five minutes before it, and first whatever is still owed from before: of a time
  when the DAG was paused, of a run that died, of tables that nobody had asked for.
- **Backfill** does any span of time, again or for the first time; what was published of an interval is replaced, never
  doubled.
- **By hand**, the form takes a source, tables, and a span of time or a GTID set; left empty, it is everything
  that is owed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import CronDataIntervalTimetable, Param, dag, task_group

from dags import steps
from dags.forms import TIME

TIMES: dict[str, Any] = {"type": ["null", "string"], "format": "date-time", "pattern": TIME}


@dag(
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("*/5 * * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=steps.RETRIES,
    tags=["strata"],
    params={
        "source": Param(None, type=["null", "string"], title="Source", description="Empty: all of the settings."),
        "tables": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            minItems=1,
            title="Tables",
            description="Patterns: shop.*",
        ),
        "start": Param(None, **TIMES, title="From", description="Commit time."),
        "end": Param(None, **TIMES, title="Until", description="Exclusive."),
        "gtid_set": Param(None, type=["null", "string"], title="GTID set", description="Instead of a span of time."),
        "failed": Param(
            default=False, type="boolean", title="Also what failed", description="Without a span: failed or held, too."
        ),
    },
)
def ingest_binlog() -> None:
    """The table of contents; the steps are in `steps.py`."""

    @task_group
    def ingest(source: str) -> None:
        planned: Any = steps.plan(source)
        decoded = steps.spark("decode", "decode_slices.py", "--run-url", planned["run_url"])
        published = steps.publish(source, planned)
        steps.land(source) >> steps.track(source) >> planned
        planned >> steps.has_rows(planned) >> decoded >> steps.check(planned) >> published
        published >> [steps.mirror(source), steps.report_left(source, planned)]

    ingest.expand(source=steps.list_sources())


ingest_binlog()
