"""The steps of the DAGs as Airflow tasks: each calls one job and returns its small report.
Not here: the jobs (`strata_cdc.pipeline`), the order of the steps and Airflow's options for each
(`strata_cdc.pipeline.steps`).

What a task needs is imported when the task runs, so that parsing a DAG stays cheap."""

from __future__ import annotations

import importlib
import logging
import os
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import Connection, get_current_context, task
from msgspec.structs import asdict

from strata_cdc.airflow.assets import MIRRORS, PUBLISHED, VERSIONS, mirror_asset, schema_asset, table_asset
from strata_cdc.airflow.docs_link import data_docs_address
from strata_cdc.airflow.forms import check_form, describe_request, request_of
from strata_cdc.airflow.lineage import tell_mirrors, tell_published, tell_versions
from strata_cdc.airflow.older import IS_OLDER, AirflowNotFoundException, AirflowSkipException, gauge, newest_events
from strata_cdc.airflow.retries import RetryTransient, deciding
from strata_cdc.airflow.spark_step import CheckStep, DecodeStep, SparkStep
from strata_cdc.airflow.task_logs import say, saying, show_failure
from strata_cdc.airflow.xcom import PlannedRun, Xcom, brief, read_planned
from strata_cdc.clock import now_micros
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.errors import StrataError, Usage
from strata_cdc.pipeline.steps import LAND, MIRROR, PLAN, PUBLISH, REPORT_LEFT, SNAPSHOT, TRACK, following
from strata_cdc.runs.form_fields import micros_of
from strata_cdc.tracking.watch.notices import read_notice
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow.sdk import Asset, Context

    from strata_cdc.config.settings import Settings


# A source's numbers as gauges of Airflow's own metrics: OpenTelemetry or StatsD, whichever Airflow's settings turn
# on.
_LOG = logging.getLogger(__name__)


def send_metrics(source: str, settings: Any) -> None:
    """Sends `strata.NAME` for each number that is known, with the tag `source`. A task never fails because of it."""
    read_metrics = importlib.import_module("strata_cdc.ops.metrics").read_metrics
    try:
        numbers = read_metrics(source, settings=settings, now=now_micros())
    except StrataError as error:
        _LOG.warning("%s: no metrics are sent: %s", source, error)
        return
    for name, value in asdict(numbers).items():
        if value is not None:
            gauge(f"strata.{name}", value, tags={"source": source})


BY_SOURCE = "{{ task.op_args[0] if task.op_args else task.op_kwargs['source'] }}"
"""The name of a mapped task on Airflow's pages, instead of a number."""
BY_RUN = "{{ task.planned['source'] }}"
"""The same for a step on Spark."""
RETRIES = {
    "retries": 3,
    "retry_delay": timedelta(seconds=20),
    "retry_exponential_backoff": True,
    **({} if IS_OLDER else {"retry_policy": RetryTransient()}),
    "on_failure_callback": show_failure,
    "on_retry_callback": show_failure,
}
"""Default arguments of every task."""

AnySparkStep = TypeVar("AnySparkStep", bound=SparkStep)

_SHOWN_NOTICES, _SHOWN_CHARACTERS = 5, 80
"""An XCom is small; the events have everything."""


def task_settings() -> Settings:
    """The settings; their secrets are Airflow's connections, from whichever backend holds them."""
    return load_settings(os.environ, _connection_url)


def _connection_url(connection: str) -> str | None:
    try:
        return str(Connection.get(connection).get_uri())
    except AirflowNotFoundException:
        return None


def _step(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A task for each source; its documentation is its function's docstring, also for mapped tasks."""

    def decorate(function: Callable[..., Any]) -> Any:
        make = task(map_index_template=BY_SOURCE, show_return_value_in_logs=False, doc_md=function.__doc__, **options)
        return make(deciding(function))

    return decorate


@task(show_return_value_in_logs=False)
@deciding
def list_sources(only: list[str]) -> list[str]:
    """The sources of this run: the source that the form names, else all of the DAG. It is the first step, and refuses
    a form with fields that would be ignored. In a dry run it logs what would be done for each source, and returns none
    of them to the steps after it.

    Args:
        only: The sources of the DAG; empty: all of the settings.
    """
    context = get_current_context()
    now = now_micros()
    check_form({**context["params"], **(context["dag_run"].conf or {})}, context["dag"].params, now)
    wanted = context["params"]["source"]
    with saying(
        "the source of the form" if wanted else f"all sources of {'this DAG' if only else 'the settings'}"
    ) as tell:
        settings = task_settings()
        named = [wanted] if wanted else only
        sources = [settings.source(name).name for name in named] if named else sorted(settings.sources)
        tell(", ".join(sources) or "the settings name none")
    if not context["params"].get("dry_run"):
        return sources
    for source in sources:
        _rehearse(source, context)
    return []


def _rehearse(source: str, context: Context) -> None:
    """Logs what a run would do."""
    from strata_cdc.pipeline.rehearse import rehearse
    from strata_cdc.pipeline.run_source import SourceRequest

    params = context["params"]
    start, end = _span(context)
    wanted = SourceRequest(
        source, end, tuple(params["tables"] or ()), params["gtid_set"], params["failed"], start, again=end is not None
    )
    with saying(f"only say what would be done: {describe_request(source, params, start, end)}") as tell:
        rehearsal = rehearse(wanted, settings=task_settings())
        tell("nothing was written; the same run would")
        if rehearsal.to_land is None or rehearsal.to_land:
            tell(f"land {'what is new' if rehearsal.to_land is None else counted(rehearsal.to_land, 'transaction')}")
        tell(f"track {counted(rehearsal.to_track, 'transaction')}")
        tell(f"decode and publish {counted(rehearsal.rows, 'row')} of {counted(len(rehearsal.tables), 'table')}")
        for table, rows in rehearsal.tables.items():
            tell(f"{table}: {counted(rows, 'row')}")
        if rehearsal.refused:
            tell(f"leave out {counted(rehearsal.refused, 'row')}: {rehearsal.reason}")


@_step()
def snapshot(source: str) -> Xcom:
    """Reads the live schema of every table at one known GTID set, and compares it with the replayed one."""
    from strata_cdc.pipeline import ingest

    settings = task_settings()
    if settings.source(source).is_sink:
        say("skipped: a TiCDC folder has its schemas itself")
        raise AirflowSkipException("a TiCDC folder has its schemas itself")
    with saying(f"read the schema of every table of {source}") as tell:
        report = ingest.snapshot(source, settings=settings)
        tell(SNAPSHOT.line(report))
        for hidden in report.hidden:
            tell(f"hidden by the account's grants: {hidden}")
    return brief(report)


@_step(**LAND.airflow)
def land(source: str) -> Xcom:
    """Copies what the server has executed and the lake does not have yet, byte for byte."""
    settings = task_settings()
    is_sink = settings.source(source).is_sink
    what = f"the changefeed of {source} has written" if is_sink else f"the server of {source} has executed"
    with saying(f"land what {what} since", following(LAND)) as tell:
        SNAPSHOT(source, settings=settings)
        report = LAND(source, settings=settings)
        tell(LAND.line(report))
        landing = report.landing
        if landing is not None and landing.transactions and landing.seconds:
            tell(f"{landing.bytes / 1e6 / landing.seconds:,.1f} MB a second; up to transaction {landing.last_seq:,}")
        if not is_sink:
            tell(f"executed by the server: {report.gtid_executed or 'it has no GTIDs'}")
    return brief(report)


@_step(outlets=[VERSIONS], **TRACK.airflow)
def track(source: str) -> Xcom:
    """Turns the DDL of what has landed into schema versions, and reports each version once.

    Airflow stores the events together with the task's success. So the events show what has been reported: a task that
    died had reported nothing, and the next task reports its versions too.
    """
    from strata_cdc.pipeline.ingest import unsent_versions

    settings = task_settings()
    with saying(f"turn the DDL of {source} into schema versions", following(TRACK)) as tell:
        report = TRACK(source, settings=settings)
        asset = schema_asset(source)
        events = get_current_context()["outlet_events"][VERSIONS]
        unsent = unsent_versions(source, _newest_announced(asset), settings=settings)
        for version in unsent:
            events.add(asset, extra=to_plain(version))
        tell(f"{TRACK.line(report)} in {counted(report.transactions, 'transaction')}")
        if unsent:
            tell(f"reported {counted(len(unsent), 'version')} by events of {asset.uri}")
        for notice in report.examples:
            tell(notice)
        tell_versions(source, [version.version for version in unsent], settings)
    return brief(report)


def _newest_announced(asset: Asset) -> int:
    """The newest version among the asset's events; 0 if there are none, or no longer.

    The events of one task may have any order, and a task has no more of them than are read here.
    """
    from strata_cdc.tracking.watch.notify_versions import MOST_VERSIONS

    events = newest_events(asset, MOST_VERSIONS)
    reported = [event.extra["version"] for event in events if event.extra and "version" in event.extra]
    return max((int(str(version)) for version in reported), default=0)


@_step(**PLAN.airflow)
def plan(source: str) -> Xcom:
    """Takes what is pending, or the requested span, and cuts it into slices, none of which spans a DDL."""
    from strata_cdc.pipeline.plan.closable import is_source_ahead
    from strata_cdc.pipeline.plan.pending import WorkChoice
    from strata_cdc.pipeline.plan.refuse_early import refuse_before_stream

    context, settings = get_current_context(), task_settings()
    start, end = _span(context)
    params = request_of(context["params"], now_micros())
    chosen = {name: params[name] or None for name in ("tables", "gtid_set")}
    if context["dag_run"].run_type not in {"manual", "backfill"}:
        chosen["choice"] = WorkChoice.PENDING
        if is_source_ahead(settings.source(source)):
            # No data interval would have what the server's clock puts in the future.
            start = end = None
    with saying(describe_request(source, params, start, end), "decode, or publish where there are no rows") as tell:
        if end is not None and context["dag_run"].run_type == "manual":
            refuse_before_stream(source, end, settings=settings)
        report = PLAN(source, start, end, settings=settings, failed=bool(params["failed"]), **chosen)
        tell(PLAN.line(report))
        left = report.left
        if left.owed or left.failed or left.held:
            tell(
                f"left for other runs: {left.owed} pending, {left.failed} failed, {left.held} blocked"
                " (strata intervals)"
            )
        for pattern in report.unmatched:
            tell(pattern)
    source_settings = settings.sources[source]
    planned = PlannedRun(
        **asdict(report),
        checks=source_settings.checks or "",
        compare_keys=str(source_settings.compare_keys),
        engine=params["engine"] or source_settings.engine,
        local_mb=source_settings.local_mb,
        local_memory_mb=source_settings.local_memory_mb,
    )
    return to_plain(planned)


def _span(context: Context) -> tuple[int | None, int | None]:
    """The run's span of commit time in microseconds UTC: from the form if started by hand, else the data interval."""
    params, run_type = context["params"], context["dag_run"].run_type
    if run_type == "manual":
        return micros_of(params.get("start")), micros_of(params.get("end"))
    # A run that an asset started has no data interval, and that of a DAG with a plain cron expression is empty.
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    if begin == end:
        if run_type == "backfill":
            raise Usage(
                "the runs of this DAG have no span of time, so a backfill has nothing to process again",
                remedy='Give the DAG schedule=CronDataIntervalTimetable("*/5 * * * *", timezone="UTC").',
            )
        return None, None
    return micros_of(str(begin)), micros_of(str(end))


def _on_spark(made: type[AnySparkStep], planned: Any) -> AnySparkStep:
    step = made.step
    return made(task_id=step.name, planned=planned, doc_md=made.__doc__, map_index_template=BY_RUN, **step.airflow)


def decode(planned: Any) -> DecodeStep:
    """Decodes what was planned; skipped, like the check after it, if there are no rows."""
    return _on_spark(DecodeStep, planned)


def check(planned: Any) -> CheckStep:
    """Checks what was decoded."""
    return _on_spark(CheckStep, planned)


@_step(outlets=[PUBLISHED], **PUBLISH.airflow)
def publish(source: str, planned: Any) -> Xcom:
    """Commits each table that passed its checks, one Delta commit per interval, and sends an event for each table.

    It also runs after a check that failed: one table's failure withholds no other table. It also runs without rows: a
    table may have been emptied, and the metrics show that the source is being processed.
    """
    if planned is None:
        raise Usage("there is no plan: a step before this one has failed", source=source, remedy="Its log says why.")
    run = read_planned(planned).run
    settings = task_settings()
    with saying(f"publish what passed its checks: {run}", following(PUBLISH)) as tell:
        report = PUBLISH(source, run, settings=settings)
        events = get_current_context()["outlet_events"][PUBLISHED]
        for table in report.tables:
            # A table that was empty and stays empty needs no event.
            if table.rows or table.changed:
                extra = {**to_plain(table), "run": run}
                events.add(table_asset(source, extra.pop("table")), extra=extra)
        tell(PUBLISH.line(report))
        for name, rows in sorted(_by_table(report.tables).items()):
            tell(f"{name}: {counted(rows, 'row')}")
        for withheld in report.withheld:
            tell(f"withheld: {counted(withheld.rows, 'row')} of {withheld.table}: {withheld.reason.message}")
    send_metrics(source, settings)
    tell_published(report, settings)
    return to_plain(report.sums())


def _by_table(published: Iterable[Any]) -> Counter[str]:
    rows_by_table = Counter[str]()
    for table in published:
        rows_by_table[table.table] += table.rows
    return rows_by_table


@_step(outlets=[MIRRORS], **MIRROR.airflow)
def mirror(source: str) -> Xcom:
    """Updates the mirrors to what is published, and sends an event for each. The log says why a mirror is blocked."""
    settings = task_settings()
    with saying(f"update the mirrors of {source} to what is published", following(MIRROR)) as tell:
        report = MIRROR(source, settings=settings)
        events = get_current_context()["outlet_events"][MIRRORS]
        for updated in report.mirrors:
            if updated.commits:
                extra = to_plain(updated)
                events.add(mirror_asset(source, extra.pop("table")), extra=extra)
        tell(MIRROR.line(report))
        for blocked in report.behind:
            tell(f"{blocked.table}: {blocked.behind}")
        send_metrics(source, settings)
        tell_mirrors(source, [updated.table for updated in report.mirrors if updated.commits], settings)
        report.raise_if_wrong()
    return brief(report.sums())


@_step(outlets=[MIRRORS])
def dump(source: str) -> Xcom:
    """Reads the rows of tables that have no mirror yet, that wait, or that the form names, and makes their mirrors."""
    from strata_cdc.pipeline.dump_source import dump_source
    from strata_cdc.pipeline.read_again import read_again

    params, settings = get_current_context()["params"], task_settings()
    which = "that wait" if params["waiting"] else ", ".join(params["tables"] or ()) or "that have no mirror yet"
    with saying(f"read rows of tables of {source} and make their mirrors: {which}") as tell:
        if params["waiting"]:
            report = read_again(source, settings=settings)
        else:
            report = dump_source(source, tuple(params["tables"] or ()), settings=settings)
        events = get_current_context()["outlet_events"][MIRRORS]
        for dumped in report.tables:
            extra = to_plain(dumped)
            events.add(mirror_asset(source, extra.pop("table")), extra=extra)
        tell(counted(len(report.tables), "table"))
        tell_mirrors(source, [dumped.table for dumped in report.tables], settings, dumped=True)
        report.raise_if_wrong()
    return brief(report.sums())


@_step()
def keep_mirrors(source: str) -> Xcom:
    """Compacts the mirrors that need it, merges short and old intervals of change tables, and deletes run folders,
    quarantine and files that nothing needs any more."""
    from strata_cdc.pipeline.housekeep_source import housekeep_source
    from strata_cdc.pipeline.keep_mirrors import UpkeepSums

    with saying(f"keep the tables of {source}") as tell:
        done = housekeep_source(source, settings=task_settings())
        expired = (f"deleted {url}" for url in (*done.expired.runs, *done.expired.quarantine))
        for line in (*done.mirrors, *done.merged, *expired):
            tell(line)
        done.raise_if_failed()
    return brief(UpkeepSums(source, done.mirrors))


@_step(**REPORT_LEFT.airflow)
def report_left(source: str, planned: Any) -> None:
    """Fails if rows were withheld, or if rows of a table were deleted without row events; all others are published by
    then."""
    from strata_cdc.progress.compared import compared_line

    planned_run, settings = read_planned(planned), task_settings()
    with saying("report what was withheld") as tell:
        if planned_run.slices:
            tell(f"Data Docs of the checks: {data_docs_address(source, planned_run.run)}")
        compared = compared_line(settings.source(source))
        if compared is not None:
            tell(compared)
        tell(REPORT_LEFT.line(REPORT_LEFT(source, planned_run.run, settings=settings)))


@_step()
def reconcile(source: str) -> Xcom:
    """Compares the tables with their server; fails if one differs. On schedule, only if the settings request it."""
    from strata_cdc.pipeline import comparisons

    context, settings = get_current_context(), task_settings()
    keys, tables = context["params"]["keys"], context["params"]["tables"]
    if context["dag_run"].run_type != "manual":
        keys = settings.sources[source].reconcile_keys
        if keys is None:
            say("skipped: the settings have no reconcile_keys for this source")
            raise AirflowSkipException("the settings have no reconcile_keys for this source")
    how_many = counted(keys, "row") if keys else "all rows"
    with saying(f"compare {how_many} of each table of {source} with the server") as tell:
        report = comparisons.reconcile(source, settings=settings, tables=tuple(tables or ()), keys=keys)
        sums = report.sums()
        tell(f"{sums.match} tables match, {sums.mismatch} differ, {sums.inconclusive} cannot be compared")
        report.raise_if_different()
    return brief(sums)


@task
def list_ddl() -> list[str]:
    """The statements that started this run, in brief."""
    events = get_current_context()["triggering_asset_events"]
    notices = [read_notice(event.extra["payload"]) for events_of_asset in events.values() for event in events_of_asset]
    return [f"{notice.id}: {notice.statement[:_SHOWN_CHARACTERS]}" for notice in notices[:_SHOWN_NOTICES]]
