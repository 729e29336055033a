"""`strata lake`: whether the lake has what the store calls published; rebuilds a lake that was lost.
Not here: looking and doing so (`lake/`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import typer

from strata_cdc.cli.options import SourceName, source_of
from strata_cdc.cli.report import print_report
from strata_cdc.cli.terminal import say
from strata_cdc.clock import from_micros
from strata_cdc.counted import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.lake.rebuild import LakePlan
    from strata_cdc.store.table_intervals import TableInterval


GROUP = typer.Typer(help="Whether the lake belongs to the store, and what it lacks.", no_args_is_help=True)


@GROUP.command()
def show(context: typer.Context, source: SourceName = None) -> int:
    """Lists what the lake lacks, what of it can be rebuilt and what cannot. Exit code 1 if it lacks something."""
    from strata_cdc.lake.rebuild import plan_lake
    from strata_cdc.store.database import OnMissing, open_store

    configured = source_of(source)
    plan = plan_lake(configured, open_store(configured.store_url, OnMissing.REFUSE))
    _print(plan, as_json=context.obj["json"], done=False)
    return 0 if plan.is_whole else 1


@GROUP.command()
def rebuild(context: typer.Context, source: SourceName = None) -> None:
    """Lands again what the server still has, so that it is published again, and marks the rest as held (blocked)."""
    from strata_cdc.lake.rebuild import rebuild_lake
    from strata_cdc.store.database import OnMissing, open_store

    configured = source_of(source)
    plan = rebuild_lake(configured, open_store(configured.store_url, OnMissing.REFUSE))
    _print(plan, as_json=context.obj["json"], done=True)


def _print(plan: LakePlan, *, as_json: bool, done: bool) -> None:
    sums = {"comes_again": _by_table(plan.again), "cannot_come": _by_table(plan.lost)}
    if as_json:
        print_report(
            {
                "source": plan.source,
                "lake": plan.lake,
                "known": plan.is_known,
                "whole": plan.is_whole,
                "landed_from": plan.landed_from,
                "done": done,
                **sums,
            },
            as_json=True,
        )
        return
    say(f"lake {plan.lake}: {'belongs to the store' if plan.is_known else 'does not belong to the store'}")
    if plan.is_whole:
        say("it has all that the store calls published")
        return
    say(f"transactions from {plan.landed_from} on {'have landed' if done else 'can be had'}")
    _say("comes again", plan.again)
    _say("cannot come: its binlog is gone", plan.lost)
    if done:
        say(f"`strata run --source {plan.source}` publishes what is pending")
    else:
        say(f"`strata lake rebuild --source {plan.source}` does so")


def _say(what: str, intervals: Sequence[TableInterval]) -> None:
    for name, rows in _by_table(intervals).items():
        mine = [interval.start for interval in intervals if interval.name == name]
        times = f"{from_micros(min(mine))} to {from_micros(max(mine))}"
        say(f"{name}: {counted(rows, 'row')} in {counted(len(mine), 'interval')}, {times}: {what}")


def _by_table(intervals: Sequence[TableInterval]) -> dict[str, int]:
    rows: Counter[str] = Counter()
    for interval in intervals:
        rows[interval.name] += interval.published_rows
    return dict(sorted(rows.items()))
