"""Strata in Airflow: the DAGs, their tasks, and the plugins.

A file in your folder of DAGs makes the DAGs:

    from strata_cdc.airflow import dags

    dags(globals())

The steps of a source are also a task group for a DAG of your own: `ingest("shop") >> my_task`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence


def dags(
    namespace: MutableMapping[str, Any],
    *,
    sources: Sequence[str] = (),
    prefix: str = "",
    schedules: Mapping[str, Any] | None = None,
    default_args: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
) -> None:
    """Makes Strata's DAGs, and gives them to Airflow: `dags(globals())` in a file of the folder of DAGs.

    A file may call it several times, each time for other sources and with another prefix.

    Args:
        namespace: `globals()` of the file.
        sources: Names of sources of the settings; empty: all of them.
        prefix: Put before the name of each DAG, as in `fast_ingest_binlog`.
        schedules: Another schedule for a DAG, by its name without the prefix: a cron expression in UTC, a timetable of
            Airflow, assets, or None for runs that are started by hand.
        default_args: Airflow's default arguments of tasks, as in `{"owner": "data", "queue": "mysql", "pool": "lake"}`,
            over Strata's own. `retries` counts only what another try can fix.
        tags: Tags of each DAG, besides `strata`.

    Raises:
        Usage: `schedules` names no DAG, or a DAG whose schedule cannot be chosen, or has a text that is no cron
            expression; a list is a text; the settings have no such source; or the file has a DAG of such a name
            already.
    """
    # Imported here, and below: commands import this package's name without Airflow.
    from strata_cdc.airflow.all_dags import make_dags  # noqa: PLC0415  see above
    from strata_cdc.airflow.dag_set import DagSet  # noqa: PLC0415  see above

    for name, given in (("sources", sources), ("tags", tags)):
        if isinstance(given, str):
            # Of a text, each letter would be one.
            raise Usage(f"{name} is a list, and not a text: {given!r}", remedy=f"Write {name}=[{given!r}].")
    dag_set = DagSet(tuple(sources), prefix, dict(schedules or {}), dict(default_args or {}), tuple(tags))
    for dag in make_dags(dag_set):
        if dag.dag_id in namespace:
            raise Usage(f"this file has a DAG {dag.dag_id} already", remedy="Give each call of dags() its own prefix.")
        # Airflow shows the code of this file, and finds the DAG in it when a task runs.
        dag.fileloc = namespace["__file__"]
        namespace[dag.dag_id] = dag


def ingest(source: str, *, group_id: str | None = None, dump_dag: str = "dump_tables") -> Any:
    """The steps of a source as a task group of your own DAG: land, track, plan, decode, check, publish, mirror.

    In a scheduled run it takes the run's data interval, and first whatever is pending; in a run without an interval,
    everything that is pending. If the DAG has `params=run_form()`, a run by hand can name tables, a span or a GTID set.

    Args:
        source: The source's name in the settings.
        group_id: The name of the group; None: `ingest`.
        dump_dag: The DAG that is started for tables that must be read again.

    Returns:
        The task group: `ingest("shop") >> my_task` runs `my_task` once everything is published.

    Raises:
        UnknownSourceError: The settings have no such source.
    """
    from strata_cdc.airflow.forms import check_sources  # noqa: PLC0415  see above
    from strata_cdc.airflow.ingest_binlog import ingest_group  # noqa: PLC0415  see above

    check_sources((source,), "ingest(...)")

    group = ingest_group.override(group_id=group_id) if group_id else ingest_group
    return group(source, dump_dag)


def run_form() -> dict[str, Any]:
    """The fields that the steps of `ingest` read, for the `params` of your own DAG: tables, a span of time or a GTID
    set, the engine, and whether to try again what failed."""
    from strata_cdc.airflow import forms  # noqa: PLC0415  see above

    return forms.request_fields()
