"""Groups in Airflow: after the runs of its sources, each group has a mapped task instance, which reports each new cut
through all of them as an event of `strata://GROUP/cut`. After it, each source has a task instance, which reports the
source's position at the cut. Not here: the steps of its sources (`steps.py`), finding cuts
(`strata_cdc.groups.cuts`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, get_current_context, task

from strata_cdc.airflow.assets import cut_asset
from strata_cdc.airflow.older import AirflowSkipException, gauge, newest_events
from strata_cdc.airflow.retries import deciding
from strata_cdc.airflow.steps import task_settings
from strata_cdc.airflow.task_logs import say, saying
from strata_cdc.config.settings import are_given, load_settings
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow.sdk import Asset

    from strata_cdc.airflow.xcom import Xcom

CUTS = AssetAlias("strata_cuts")
"""The cuts of all groups."""


def known_groups(sources: Sequence[str] = ()) -> dict[str, list[str]]:
    """The groups of the settings, in order, with their sources; none if there are no settings yet.

    Args:
        sources: Only groups that have no other sources; empty: all groups.
    """
    if not are_given(os.environ):
        return {}
    try:
        groups = load_settings(os.environ).groups
        members = {name: sorted(groups[name].sources) for name in sorted(groups)}
        return {name: names for name, names in members.items() if not sources or set(names) <= set(sources)}
    except StrataError:
        # The steps report what is wrong with the settings; a DAG that cannot be loaded would report less.
        return {}


@task(
    trigger_rule="all_done",
    outlets=[CUTS],
    map_index_template="{{ task.op_kwargs['group'] }}",
    show_return_value_in_logs=False,
)
@deciding
def publish_group(group: str) -> Xcom:
    """Publishes a cut that all sources of a group have passed: positions at which their tables are read together. It
    runs whether the runs of the sources succeeded or not; if a source has made no progress, the log names it."""
    from strata_cdc.groups.cuts.group_cut import group_cut

    if get_current_context()["params"].get("dry_run"):
        raise AirflowSkipException("a dry run publishes nothing")
    with saying(f"publish what all sources of {group} have passed") as tell:
        outcome = group_cut(group, settings=task_settings())
        _send_metrics(outcome.status)
        say(outcome.status.line())
        if outcome.cut is None:
            say(f"skipped: {outcome.lacking}")
            raise AirflowSkipException(outcome.lacking)
        cut = outcome.cut.to_json()
        asset = cut_asset(group)
        is_new = cut["token"] != _newest_announced(asset)
        if is_new:
            get_current_context()["outlet_events"][CUTS].add(asset, extra=cut)
        tell(f"{'a new cut' if is_new else 'the cut is still the one'} at {cut['time']}: {cut['token']}")
    return {**cut, "is_new": is_new, "held_by": outcome.status.held_by}


# Not if a group failed: Airflow judges a run by its last tasks, and would not see a failure before them.
@task(
    trigger_rule="none_failed",
    map_index_template="{{ task.op_kwargs['group'] }} / {{ task.op_kwargs['source'] }}",
    show_return_value_in_logs=False,
)
@deciding
def source_at_cut(group: str, source: str, groups: Iterable[Xcom]) -> None:
    """Reports the position of a source at its group's newest cut, and which of its tables are not complete there."""
    with saying(f"report the position of {source} at the cut of {group}") as tell:
        cut = next((cut for cut in groups if cut["group"] == group), None)
        if cut is None:
            say(f"skipped: {group} has no cut; the log of its task instance says why")
            raise AirflowSkipException(f"{group} has no cut")
        at_cut = next(state for state in cut["sources"] if state["source"] == source)
        tell(
            f"{source}: transaction {at_cut['seq']:,}, until {at_cut['until'] or 'nothing'}"
            f"; the cut is at {cut['time']}"
        )
        if cut["held_by"] == source:
            tell("the group waits for this source")
        if at_cut["is_behind"]:
            tell("more of it was committed before the cut")
        if at_cut["lacking"]:
            tell(f"not complete: {', '.join(at_cut['lacking'])}")


def publish_groups(mirrors: Any, sources: Sequence[str] = ()) -> None:
    """Adds to a DAG a task instance for each group of the settings, and after it one for each of the group's sources.

    Args:
        mirrors: The task, mapped over the sources, after which these run. It must not be one of a run's last tasks: a
            task after them would hide from Airflow that one of them failed.
        sources: The sources of the DAG; empty: all of the settings.
    """
    known = known_groups(sources)
    if known:
        lines = publish_group.expand(group=list(known))
        members = [{"group": group, "source": source} for group, names in known.items() for source in names]
        mirrors >> lines >> source_at_cut.partial(groups=lines).expand_kwargs(members)


def _newest_announced(asset: Asset) -> str | None:
    """The token of the newest cut that was reported."""
    events = newest_events(asset, 1)
    return next((str(event.extra["token"]) for event in events if event.extra and "token" in event.extra), None)


def _send_metrics(status: Any) -> None:
    """Sends `strata.group_NAME` for each number that is known, with the tags `group` and `held_by`."""
    numbers = {
        "lag_seconds": status.behind_seconds,
        "skew_seconds": status.skew_seconds,
        "owed_rows": sum(member.owed_rows for member in status.members),
        "unreachable": sum(member.error is not None for member in status.members),
    }
    for name, value in numbers.items():
        if value is not None:
            gauge(f"strata.group_{name}", value, tags={"group": status.group, "held_by": status.held_by})
