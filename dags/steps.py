"""The steps of the DAGs as Airflow tasks: each calls one job and hands on its small report.
Not here: the jobs (`strata.jobs`), the order of the steps (the DAG files)."""

from __future__ import annotations

import importlib
import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, AssetAlias, Connection, get_current_context, task
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSkipException
from msgspec.structs import asdict

from dags.docs_link import DataDocsLink
from dags.forms import check_form, micros_of
from dags.retries import RetryTransient
from dags.xcom import PlannedRun, Xcom, brief, read_planned
from strata.jobs.watch.notices import read_notice
from strata.startup.spark import needed_by_spark, short_job
from strata.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

SPARK_JOBS = Path(__file__).resolve().parent.parent / "spark_jobs"
PUBLISHED = AssetAlias("strata_published")
"""Every table that is published becomes an asset `strata://SOURCE/DATABASE/TABLE` with an event for each interval."""
MIRRORS = AssetAlias("strata_mirrors")
"""Every mirror that changes becomes an asset `strata://SOURCE/DATABASE/TABLE/mirror` with its position."""
VERSIONS = AssetAlias("strata_schema_versions")
"""Every schema version becomes an event of the asset `strata://SOURCE/schema`."""
RETRIES = {
    "retries": 3,
    "retry_delay": timedelta(seconds=20),
    "retry_exponential_backoff": True,
    "retry_policy": RetryTransient(),
}

_SHOWN_NOTICES, _SHOWN_CHARACTERS = 5, 80
"""An XCom is small; all of it is in the events."""


def _job(name: str, module: str = "ingest") -> Callable[..., Any]:
    """A function of `strata.jobs` with the settings filled in, imported by the worker: parsing stays light."""
    jobs = importlib.import_module(f"strata.jobs.{module}")
    return partial(getattr(jobs, name), settings=_settings())


def _settings() -> Any:
    """The settings, with Airflow's connections, whichever backend they are kept in, for the secrets."""
    return importlib.import_module("strata.config.settings").load_settings(os.environ, _connection_url)


def _connection_url(connection: str) -> str | None:
    try:
        return str(Connection.get(connection).get_uri())
    except AirflowNotFoundException:
        return None


@task
def list_sources() -> list[str]:
    """The sources of this run: the one that the form names, else all. The first step: it refuses a form that says
    what nobody would heed."""
    context = get_current_context()
    check_form({**context["params"], **(context["dag_run"].conf or {})}, context["dag"].params)
    wanted = context["params"]["source"]
    settings = _settings()
    return [settings.source(wanted).name] if wanted else sorted(settings.sources)


@task
def snapshot(source: str) -> Xcom:
    """Reads the live schema of every table at one known GTID set, and compares it with the replayed one."""
    return brief(_job("snapshot")(source))


@task
def land(source: str) -> Xcom:
    """Copies what the server has executed and we do not have yet, byte for byte."""
    return brief(_job("land")(source))


@task(outlets=[VERSIONS])
def track(source: str) -> Xcom:
    """Turns the DDL of what has landed into schema versions, and tells of each once.

    Airflow stores the events together with the task's success. So they themselves say what has been told: a task that
    died had told nothing, and the next one tells of its versions too.
    """
    report = _job("track")(source)
    asset = Asset(f"strata://{source}/schema")
    events = get_current_context()["outlet_events"][VERSIONS]
    for version in _job("unsent_versions")(source, _newest_told(asset)):
        events.add(asset, extra=to_plain(version))
    return brief(report)


def _newest_told(asset: Asset) -> int:
    """The newest version among the asset's events; 0 if there are none, or no longer.

    A task's own accessor knows only what the DAG file names; sources are known when a run begins. The events of one
    task may have any order, and there are not more of them than are read here.
    """
    accessor = importlib.import_module("airflow.sdk.execution_time.context").InletEventsAccessor
    most = importlib.import_module("strata.jobs.watch.notify_versions").MOST_VERSIONS
    told = accessor(asset_name=asset.name, asset_uri=asset.uri).ascending(ascending=False).limit(most)
    return max((int(event.extra["version"]) for event in told if "version" in event.extra), default=0)


@task
def plan(source: str) -> Xcom:
    """Takes what is owed, or the span that was asked for, and cuts it into slices, none of which spans a DDL."""
    context = get_current_context()
    start, end = _span(context)
    params = context["params"]
    chosen = {name: params[name] or None for name in ("tables", "gtid_set")}
    if context["dag_run"].run_type not in {"manual", "backfill"}:
        chosen["take"] = importlib.import_module("strata.jobs.plan.owed").Take.OWED
    report = _job("plan")(source, start, end, failed=params["failed"], **chosen)
    found = _settings().sources[source]
    planned = PlannedRun(
        **asdict(report),
        checks=found.checks or "",
        checks_engine=found.checks_engine,
        compare_keys=str(found.compare_keys),
    )
    return to_plain(planned)


def check_options(planned: Any) -> list[Any]:
    """What the job that checks is told of the settings, in the XCom of `plan`."""
    options = {"checks": "--checks", "checks_engine": "--engine", "compare_keys": "--compare-keys"}
    return [part for name, option in options.items() for part in (option, planned[name])]


def check(planned: Any) -> SparkSubmitOperator:
    """Judges what was decoded; its page leads to the Data Docs."""
    url = planned["run_url"]
    return spark("check", "check_interval.py", "--run-url", url, *check_options(planned), kind=CheckSubmit)


def _span(context: Context) -> tuple[int | None, int | None]:
    """The run's span of commit time in microseconds UTC: of the form when started by hand, else the data interval."""
    params = context["params"]
    start, end = params["start"], params["end"]
    if context["dag_run"].run_type != "manual":
        # A run that an asset started has none.
        times = (context.get("data_interval_start"), context.get("data_interval_end"))
        start, end = (str(time) if time else None for time in times)
    return micros_of(start), micros_of(end)


@task
def has_rows(planned: Any) -> None:
    """Skips itself, and Spark after it, where nothing is to be decoded; the interval is published as empty."""
    if not read_planned(planned).slices:
        raise AirflowSkipException("no rows in this span")


class ShutSparkSubmit(SparkSubmitOperator):
    """Spark's submission with the variables that a job needs: the task's own hold the secrets of all connections."""

    def execute(self, context: Context) -> None:
        """Submits the job and waits for it."""
        if self._hook is None:
            # Its connection may be one of the variables.
            self._hook = self._get_hook()
        given = dict(os.environ)
        needed = needed_by_spark(given)
        for name in given.keys() - needed.keys():
            del os.environ[name]
        try:
            super().execute(context)
        finally:
            os.environ.update(given)


class CheckSubmit(ShutSparkSubmit):
    """The submission of a check, with a link to its pages."""

    operator_extra_links = (DataDocsLink(),)


def spark(step: str, job: str, *arguments: Any, kind: type[ShutSparkSubmit] = ShutSparkSubmit) -> SparkSubmitOperator:
    """One of `spark_jobs/` on the cluster that the connection `spark_strata` names."""
    return kind(
        task_id=step,
        conn_id="spark_strata",
        application=str(SPARK_JOBS / job),
        application_args=list(arguments),
        name=f"strata {step}",
        driver_memory="1g",
        # Every line goes through Airflow's log; at Spark's own level a check writes 10,000 of them.
        conf={"spark.log.level": "WARN", "spark.driver.extraJavaOptions": short_job()},
    )


@task(trigger_rule="all_done_min_one_success", outlets=[PUBLISHED])
def publish(source: str, planned: Any) -> Xcom:
    """Commits each table that passed its checks, one Delta commit per interval, and tells who waits for the tables.

    It runs behind a check that failed, too: one table's failure withholds no other.
    """
    report = _job("publish")(source, read_planned(planned).run)
    events = get_current_context()["outlet_events"][PUBLISHED]
    for table in report.tables:
        # What was empty and stays empty is no news.
        if table.rows or table.changed:
            told = to_plain(table)
            name = told.pop("table").replace(".", "/", 1)
            events.add(Asset(f"strata://{source}/{name}"), extra=told)
    return to_plain(report.sums())


@task(outlets=[MIRRORS])
def mirror(source: str) -> Xcom:
    """Brings the mirrors up to what is published, and tells who waits for them. A mirror that has to stand says why."""
    report = _job("mirror")(source)
    events = get_current_context()["outlet_events"][MIRRORS]
    for one in report.mirrors:
        if one.commits:
            told = to_plain(one)
            name = told.pop("table").replace(".", "/", 1)
            events.add(Asset(f"strata://{source}/{name}/mirror"), extra=told)
    told = brief(report.sums())
    report.raise_if_wrong()
    return told


@task(outlets=[MIRRORS])
def dump(source: str) -> Xcom:
    """Reads the rows of tables that have no mirror yet, or that the form names, and makes their mirrors."""
    dump_source = importlib.import_module("strata.jobs.whole.dump_source").dump_source
    report = dump_source(source, tuple(get_current_context()["params"]["tables"] or ()), settings=_settings())
    events = get_current_context()["outlet_events"][MIRRORS]
    for one in report.tables:
        told = to_plain(one)
        name = told.pop("table").replace(".", "/", 1)
        events.add(Asset(f"strata://{source}/{name}/mirror"), extra=told)
    told = brief(report.sums())
    report.raise_if_wrong()
    return told


@task
def report_left(source: str, planned: Any) -> None:
    """Fails when rows were left out: checks failed, or their schema is not known; all others are published by then."""
    _job("report_left")(source, read_planned(planned).run)


@task
def reconcile(source: str) -> Xcom:
    """Compares the tables with their server; fails if one differs. By schedule only where the settings ask for it."""
    context = get_current_context()
    keys, tables = context["params"]["keys"], context["params"]["tables"]
    if context["dag_run"].run_type != "manual":
        keys = _settings().sources[source].reconcile_keys
        if keys is None:
            raise AirflowSkipException("the settings have no reconcile_keys for this source")
    report = _job("reconcile", "comparisons")(source, tables=tuple(tables or ()), keys=keys)
    report.raise_if_different()
    return brief(report.sums())


@task
def list_ddl() -> list[str]:
    """The statements that started this run, in brief."""
    events = get_current_context()["triggering_asset_events"]
    notices = [read_notice(event.extra["payload"]) for found in events.values() for event in found]
    return [f"{notice.id}: {notice.statement[:_SHOWN_CHARACTERS]}" for notice in notices[:_SHOWN_NOTICES]]
