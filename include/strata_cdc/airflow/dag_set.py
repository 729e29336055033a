"""What the DAGs of one call of `dags()` have in common: which sources, the prefix of their names, and what a user gives
Airflow for them. Not here: the DAGs (a file each, called as the DAG is)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import DAG

from strata_cdc.airflow.forms import check_sources
from strata_cdc.airflow.older import AirflowException, CronDataIntervalTimetable
from strata_cdc.airflow.steps import RETRIES
from strata_cdc.errors import Usage
from strata_cdc.fields import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = ("dump_tables", "ingest_binlog", "keep_mirrors", "reconcile_sources", "snapshot_schemas", "watch_schemas")
"""The DAGs, without a prefix."""
DUMP_TABLES = "dump_tables"
"""The DAG that `ingest_binlog` starts."""
WATCH_SCHEMAS = "watch_schemas"
"""The DAG that the assets of the watched sources start."""


class DagSet(msgspec.Struct, frozen=True):
    """What is common to a set of DAGs.

    Attributes:
        sources: Sources of the settings; empty: all of them, also those that the settings will have later.
        prefix: Put before the name of each DAG, as in `fast_ingest_binlog`.
        schedules: A schedule for a DAG, by its name without the prefix: a cron expression, a timetable, assets, or
            None for runs that are started by hand. Other DAGs have those of `dags/strata.py`.
        default_args: Airflow's default arguments of tasks (`owner`, `queue`, `pool`, ...), over Strata's own.
        tags: Tags of each DAG, besides `strata`.
    """

    sources: tuple[str, ...] = ()
    prefix: str = ""
    schedules: Mapping[str, Any] = {}
    default_args: Mapping[str, Any] = {}
    tags: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuses what would be ignored, and sources that no run would find.

        Raises:
            Usage: There is no DAG of that name, or its schedule is not a matter of choice.
            UnknownSourceError: The settings, if they can be read here, have no such source.
        """
        check_sources(self.sources, "sources=[...]")
        for name in self.schedules:
            if name not in NAMES:
                raise Usage(f"there is no DAG {name}{nearest(name, NAMES)}", remedy="Names have no prefix here.")
            if name == WATCH_SCHEMAS:
                raise Usage(
                    f"{name} has no schedule: DDL on the watched sources starts it",
                    remedy="Say watch_replication_stream = true or false for each source in the settings.",
                )

    def dag_id(self, name: str) -> str:
        """The name of a DAG of this set."""
        return f"{self.prefix}{name}"

    def make_dag(self, name: str, schedule: Any, **options: Any) -> DAG:
        """A DAG of this set, without tasks.

        Args:
            name: Its name without the prefix.
            schedule: Its schedule, unless the user chose another.
            options: More arguments of Airflow's `DAG`.
        """
        chosen = self.schedules.get(name, schedule)
        if isinstance(chosen, str):
            chosen = _timetable(name, chosen)
        return DAG(
            self.dag_id(name),
            schedule=chosen,
            start_date=datetime(2020, 1, 1, tzinfo=UTC),
            catchup=False,
            max_active_runs=1,
            default_args={**RETRIES, **self.default_args},
            tags=["strata", *self.tags],
            **options,
        )


def _timetable(name: str, cron: str) -> CronDataIntervalTimetable:
    """The timetable of a DAG; refuses what is no cron expression, `@once` and `@continuous` among it."""
    # A plain cron expression makes runs without a span of time (Airflow 3: `create_cron_data_intervals`).
    timetable = CronDataIntervalTimetable(cron, timezone="UTC")
    try:
        timetable.validate()
    except AirflowException as error:
        raise Usage(
            f"the schedule {cron!r} of {name} is no cron expression: {error}",
            remedy='Write one, as in "*/5 * * * *" or "@hourly", or None for runs that are started by hand.',
        ) from None
    return timetable
