"""`strata housekeep`: deletes what runs have left and nobody needs any more.
Not here: what that is (`pipeline/housekeep/clean_runs.py`)."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from strata_cdc.cli.options import SourceName
from strata_cdc.cli.report import print_report
from strata_cdc.cli.terminal import say
from strata_cdc.clock import now_micros
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.values import to_plain


def housekeep(
    context: typer.Context,
    source: SourceName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list it.")] = False,  # noqa: FBT002  a switch of the command line
) -> None:
    """Deletes run folders and quarantine beyond `keep_runs_days` that are settled, and lists them and what stays.

    Many short intervals of the past become one, and the files of each of their tables few.
    """
    from strata_cdc.lake.known_lake import known_if_stored
    from strata_cdc.pipeline.housekeep.clean_runs import delete_due, find_due
    from strata_cdc.pipeline.keep_changes import keep_changes
    from strata_cdc.store.database import OnMissing, open_store

    settings = load_settings(os.environ)
    found = known_if_stored(settings.source(source))
    due = find_due(found, open_store(found.store_url, OnMissing.EMPTY), now=now_micros())
    merged = []
    if not dry_run:
        delete_due(found, due)
        merged = keep_changes(found.name, settings=settings)
    if context.obj["json"]:
        print_report({**to_plain(due), "deleted": not dry_run, "merged": [step.line for step in merged]}, as_json=True)
        return
    for url in (*due.runs, *due.quarantine):
        say(f"{'would delete' if dry_run else 'deleted'} {url}")
    for one in due.kept:
        say(f"kept {one.run}: {one.reason}")
    for step in merged:
        say(step.line)
    if not (due.runs or due.quarantine or due.kept):
        say(f"nothing is older than {counted(found.settings.keep_runs_days, 'day')}")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(housekeep)
