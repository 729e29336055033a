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

from typing import TYPE_CHECKING, Any

from airflow.sdk import task_group

from strata_cdc.airflow import steps
from strata_cdc.airflow.dag_set import DUMP_TABLES
from strata_cdc.airflow.docs_link import ChangesLink, DataDocsLink, HistoryLink, VerdictLink
from strata_cdc.airflow.forms import run_form
from strata_cdc.airflow.freshness import freshness
from strata_cdc.airflow.groups import publish_groups
from strata_cdc.airflow.read_again import ReadAgain
from strata_cdc.pipeline.steps import edges, table_of_steps

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from strata_cdc.airflow.dag_set import DagSet


@task_group(group_id="ingest")
def ingest_group(source: str, dump_dag: str) -> None:
    """The steps of a source. Their list is `strata_cdc.pipeline.steps`; the tasks are in `steps.py`.

    Args:
        dump_dag: The DAG that is started for tables that must be read again.
    """
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
        "read_again": ReadAgain(task_id="read_again", source=source, dump_dag=dump_dag, doc_md=ReadAgain.__doc__),
    }
    for name in ("land", "track", "plan", "mirror"):
        tasks[name].operator.operator_extra_links = (ChangesLink(), HistoryLink())
    for name in ("publish", "report_left"):
        tasks[name].operator.operator_extra_links = (ChangesLink(), HistoryLink(), VerdictLink(), DataDocsLink())
    for before, after in edges():
        tasks[before] >> tasks[after]


def ingest_binlog(dag_set: DagSet) -> DAG:
    """The DAG: the steps for each source, and after them the groups of which the set has all sources."""
    with dag_set.make_dag(
        "ingest_binlog",
        "*/5 * * * *",
        doc_md=str(__doc__).replace("STEPS", table_of_steps()),
        params=run_form(dag_set.sources),
        deadline=freshness(),
    ) as dag:
        sources = steps.list_sources(list(dag_set.sources))
        ingested: Any = ingest_group.partial(dump_dag=dag_set.dag_id(DUMP_TABLES)).expand(source=sources)
        publish_groups(ingested.get_child_by_label("mirror"), dag_set.sources)
    return dag
