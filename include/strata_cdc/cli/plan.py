"""`strata plan`: cuts a span of time into slices for the Spark job.
Not here: planning (`pipeline/plan/plan_slices.py`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from strata_cdc.cli.options import SourceName, Tables, optional_time
from strata_cdc.cli.report import print_report
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.pipeline.steps import PLAN

if TYPE_CHECKING:
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.runs.specs import PlanReport

_SHOWN_TABLES = 5


def plan(
    context: typer.Context,
    source: SourceName = None,
    start: Annotated[str | None, typer.Option(help="Commit time (ISO 8601, UTC unless it says otherwise).")] = None,
    end: Annotated[
        str | None, typer.Option(help="End of the span; rows committed at this moment are not in it.")
    ] = None,
    gtid_set: Annotated[str | None, typer.Option(help="Instead of a span of time.")] = None,
    table: Tables = None,
    failed: Annotated[  # noqa: FBT002  a switch of the command line
        bool, typer.Option("--failed", help="Without a span: also rows that failed or are blocked (held).")
    ] = False,
) -> None:
    """Cuts what has landed into slices: of a span, everything, as often as you like; without a span, all that is
    pending. Exit code 1 if some of its rows cannot be decoded; the plan is made, and has all others."""
    from strata_cdc.files.storage import Folder
    from strata_cdc.runs.run_folder import read_plan

    if gtid_set is not None and (start is not None or end is not None):
        raise Usage("a run takes a GTID set or a span of time, not both")
    settings = load_settings(os.environ)
    report = PLAN(
        settings.source_name(source),
        optional_time(start),
        optional_time(end),
        settings=settings,
        tables=table,
        gtid_set=gtid_set,
        failed=failed,
    )
    print_report(report, as_json=context.obj["json"])
    if report.refused:
        raise _refusal(report, read_plan(Folder.open(report.run_url)))


def _refusal(report: PlanReport, plan: RunPlan) -> SchemaGapError:
    """Why some rows cannot be decoded: the position of the first of them, and the fix."""
    first = next(rows for rows in plan.refused if rows.rows)
    tables = sorted({rows.table for rows in plan.refused if rows.rows})
    named = ", ".join(tables[:_SHOWN_TABLES]) + (" and others" if len(tables) > _SHOWN_TABLES else "")
    why = first.error
    return SchemaGapError(
        f"{counted(report.refused, 'row')} of {named} cannot be decoded: {why.message}",
        source=report.source,
        table=first.table,
        gtid=why.gtid,
        file=why.file,
        offset=why.offset,
        remedy=f"{why.remedy or ''} The plan has all other rows.".strip(),
    )
