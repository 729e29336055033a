"""Groups in Airflow: behind the runs of its sources a group is one mapped line, which tells of each new cut through all
of them by an event of `strata://GROUP/cut`, and below it a line for each source, which says where the cut meets it.
Not here: the steps of its sources (`steps.py`), finding cuts (`strata_cdc.groups.cuts`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.observability import stats

from dags.assets import cut_asset
from dags.steps import task_settings
from dags.task_logs import say, saying
from strata_cdc.config.settings import SETTINGS_VARIABLE, load_settings
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow.sdk import Asset

    from dags.xcom import Xcom

CUTS = AssetAlias("strata_cuts")
"""The cuts of all groups."""


def known_groups() -> dict[str, list[str]]:
    """The groups of the settings, in order, with their sources; none where there are no settings yet."""
    if not os.environ.get(SETTINGS_VARIABLE):
        return {}
    try:
        groups = load_settings(os.environ).groups
        return {name: sorted(groups[name].sources) for name in sorted(groups)}
    except StrataError:
        # The steps say what is wrong with the settings; a DAG that cannot be loaded would say less.
        return {}


@task(
    trigger_rule="all_done",
    outlets=[CUTS],
    map_index_template="{{ task.op_kwargs['group'] }}",
    show_return_value_in_logs=False,
)
def publish_group(group: str) -> Xcom:
    """Publishes what all sources of a group have passed: a cut through all of them, at which their tables are read
    together. It runs whatever became of a source; where one has not come further, the log names it."""
    from strata_cdc.groups.cuts.group_cut import group_cut

    if get_current_context()["params"].get("dry_run"):
        raise AirflowSkipException("a dry run publishes nothing")
    with saying(f"publish what all sources of {group} have passed") as tell:
        found = group_cut(group, settings=task_settings())
        _send_metrics(found.status)
        say(found.status.line())
        if found.cut is None:
            say(f"skipped: {found.lacking}")
            raise AirflowSkipException(found.lacking)
        cut = found.cut.to_json()
        asset = cut_asset(group)
        is_new = cut["token"] != _newest_announced(asset)
        if is_new:
            get_current_context()["outlet_events"][CUTS].add(asset, extra=cut)
        tell(f"{'a new cut' if is_new else 'the cut is still that'} at {cut['time']}: {cut['token']}")
    return {**cut, "is_new": is_new, "held_by": found.status.held_by}


# Not where a group failed: behind a line that Airflow judges a run by, that would be hidden.
@task(trigger_rule="none_failed", map_index_template="{{ task.op_kwargs['group'] }} / {{ task.op_kwargs['source'] }}")
def source_at_cut(group: str, source: str, groups: Iterable[Xcom]) -> None:
    """Says how far a source of a group is at the group's newest cut, and what is not whole of it there."""
    with saying(f"say where the cut of {group} meets {source}") as tell:
        cut = next((one for one in groups if one["group"] == group), None)
        if cut is None:
            say(f"skipped: {group} has no cut; the log of its own line says why")
            raise AirflowSkipException(f"{group} has no cut")
        one = next(one for one in cut["sources"] if one["source"] == source)
        tell(f"{source}: transaction {one['seq']:,}, until {one['until'] or 'nothing'}; the cut is at {cut['time']}")
        if cut["held_by"] == source:
            tell("the group waits for this source")
        if one["is_behind"]:
            tell("more of it was committed before the cut")
        if one["lacking"]:
            tell(f"not whole: {', '.join(one['lacking'])}")


def publish_groups(behind: Any) -> None:
    """Puts a line for each group of the settings into a DAG, and below it one for each of its sources.

    Args:
        behind: The task, mapped over the sources, behind which it stands. What stands behind a run's last tasks would
            hide from Airflow that one of these failed; so it must not be one of them.
    """
    known = known_groups()
    if known:
        lines = publish_group.expand(group=list(known))
        sources = [{"group": group, "source": source} for group, names in known.items() for source in names]
        behind >> lines >> source_at_cut.partial(groups=lines).expand_kwargs(sources)


def _newest_announced(asset: Asset) -> str | None:
    """The token of the newest cut that was told of."""
    from airflow.sdk.execution_time.context import InletEventsAccessor

    events = InletEventsAccessor(asset_name=asset.name, asset_uri=asset.uri).ascending(ascending=False).limit(1)
    return next((str(event.extra["token"]) for event in events if event.extra and "token" in event.extra), None)


def _send_metrics(status: Any) -> None:
    """Sends `strata.group_NAME` for each number that is known, with the tags `group` and `held_by`."""
    numbers = {
        "lag_seconds": status.behind_seconds,
        "skew_seconds": status.skew_seconds,
        "owed_rows": sum(one.owed_rows for one in status.members),
        "unreachable": sum(one.error is not None for one in status.members),
    }
    for name, value in numbers.items():
        if value is not None:
            stats.gauge(f"strata.group_{name}", value, tags={"group": status.group, "held_by": status.held_by})
