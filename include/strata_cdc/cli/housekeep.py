"""`strata housekeep`: keeps what a source leaves small.
Not here: what is done (`pipeline/housekeep_source.py`)."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from strata_cdc.cli.options import SourceName
from strata_cdc.cli.report import print_report
from strata_cdc.cli.terminal import say
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.values import to_plain


def housekeep(
    context: typer.Context,
    source: SourceName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list it.")] = False,  # noqa: FBT002  a switch of the command line
) -> None:
    """Deletes run folders and quarantine beyond `keep_runs_days` that are settled, and lists them and what stays.

    Many short intervals of the past become one, and the files of each of their tables few; of intervals older than
    `merge_days` there is one for each day. Mirrors are compacted, and files deleted that no kept state of them needs.
    The DAG `keep_mirrors` does the same every hour.
    """
    from strata_cdc.pipeline.housekeep.merge_intervals import MergeScope
    from strata_cdc.pipeline.housekeep_source import housekeep_source, planned_housekeeping

    settings = load_settings(os.environ)
    configured = settings.source(source)
    do = planned_housekeeping if dry_run else housekeep_source
    done = do(configured.name, settings=settings, scope=MergeScope.ALL)
    expired = done.expired
    if context.obj["json"]:
        kept = {"deleted": not dry_run, "merged": list(done.merged), "mirrors": list(done.mirrors)}
        print_report({**to_plain(expired), **kept}, as_json=True)
        done.raise_if_failed()
        return
    for url in (*expired.runs, *expired.quarantine):
        say(f"{'would delete' if dry_run else 'deleted'} {url}")
    for run in expired.kept:
        say(f"kept {run.run}: {run.reason}")
    for line in (*done.merged, *done.mirrors):
        say(line)
    if not (expired.runs or expired.quarantine or expired.kept):
        say(f"nothing is older than {counted(configured.settings.keep_runs_days, 'day')}")
    done.raise_if_failed()
