"""Sets of DAGs that a user's file makes, and the steps of a source in a DAG of a user's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import CronDataIntervalTimetable
from airflow.serialization.serialized_objects import DagSerialization

from strata_cdc.airflow import steps
from strata_cdc.airflow.dag_set import NAMES, DagSet
from strata_cdc.airflow.forms import request_of, run_form
from strata_cdc.airflow.groups import known_groups
from strata_cdc.errors import Usage
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.plan import closable
from strata_cdc.pipeline.plan.pending import WorkChoice
from tests.interposed import interposed

# Airflow 3.3 reads .airflowignore with a class that pathspec has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
SETTINGS = """
lake = "lake"
[sources.a]
connection = "x"
watch_replication_stream = true
[sources.b]
connection = "y"
watch_replication_stream = true
[sources.c]
connection = "z"
[groups.both]
sources = ["a", "b"]
[groups.others]
sources = ["c"]
"""
EMPTY = dict.fromkeys(("tables", "start", "end", "gtid_set", "engine", "failed"))
NOON = 1_795_262_400_000_000
"""2026-11-21 12:00 UTC."""


@pytest.fixture(autouse=True)
def _settings(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").write_text(SETTINGS)
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "settings.toml"))


def dags_of(tmp_path, text):
    """The DAGs of a user's file, as Airflow stores and reads them."""
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "mine.py").write_text(f"from strata_cdc.airflow import *\nimport airflow.sdk as sdk\n{text}")
    bag = DagBag(dag_folder=str(tmp_path / "dags"))
    assert bag.import_errors == {}
    return {name: DagSerialization.from_dict(DagSerialization.to_dict(dag)) for name, dag in bag.dags.items()}


def test_two_sets_in_one_file(tmp_path):
    made = """
from strata_cdc.airflow import dags
dags(globals(), sources=["a", "b"], prefix="ab_", schedules={"ingest_binlog": "*/15 * * * *", "keep_mirrors": None})
dags(globals(), sources=["c"], prefix="c_", default_args={"owner": "data", "queue": "mysql", "retries": 1}, tags=["t"])
"""
    dags = dags_of(tmp_path, made)
    assert set(dags) == {f"{prefix}_{name}" for prefix in ("ab", "c") for name in NAMES}
    assert {dag.fileloc for dag in dags.values()} == {str(tmp_path / "dags" / "mine.py")}
    assert dags["ab_keep_mirrors"].timetable.summary == "None"
    assert dags["ab_ingest_binlog"].timetable.summary == "*/15 * * * *"
    of_c = dags["c_ingest_binlog"]
    assert of_c.tags == {"strata", "t"}
    assert {(task.owner, task.queue, task.retries) for task in of_c.tasks} == {("data", "mysql", 1)}
    assert list(of_c.get_task("list_sources").op_args) == [["c"]]
    assert of_c.params["source"] == "c", "by its schedule, too"
    assert dags["ab_ingest_binlog"].params["source"] is None
    watched = {name: dags[f"{name}_watch_schemas"].timetable for name in ("ab", "c")}
    assert [asset.uri for asset in watched["ab"].asset_condition.objects] == ["strata://a/ddl", "strata://b/ddl"]
    assert watched["c"].summary == "None"
    groups = {name: f"{name}_ingest_binlog" for name in ("ab", "c")}
    assert dags[groups["ab"]].get_task("publish_group").op_kwargs_expand_input.value == {"group": ["both"]}
    assert dags[groups["c"]].get_task("publish_group").op_kwargs_expand_input.value == {"group": ["others"]}


def test_a_cron_expression_gets_spans_of_time():
    with DagSet(schedules={"ingest_binlog": "@hourly"}).make_dag("ingest_binlog", None) as dag:
        pass
    assert isinstance(dag.timetable, CronDataIntervalTimetable)


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        ({"ingest_binlogs": None}, "there is no DAG ingest_binlogs: do you mean ingest_binlog?"),
        ({"watch_schemas": "@daily"}, "watch_schemas has no schedule: DDL on the watched sources starts it"),
    ],
)
def test_what_would_be_ignored_is_refused(schedules, message):
    with pytest.raises(Usage) as refused:
        DagSet(schedules=schedules)
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ('dags(globals(), sources="shop")', "sources is a list, and not a text: 'shop'"),
        ('dags(globals(), tags="t")', "tags is a list, and not a text: 't'"),
        ('dags(globals())\ndags(globals(), sources=["c"])', "this file has a DAG dump_tables already"),
        (
            'dags(globals(), sources=["a", "bb"])',
            "the settings have no source 'bb': do you mean b? (there are: a, b, c)",
        ),
        (
            'from strata_cdc.airflow import ingest\n@sdk.dag()\ndef own():\n    ingest("d")\nown()',
            "the settings have no source 'd'",
        ),
        *(
            (
                f'dags(globals(), schedules={{"ingest_binlog": "{text}"}})',
                f"schedule '{text}' of ingest_binlog is no cron",
            )
            for text in ("@once", "*/5 * * *", "")
        ),
    ],
)
def test_a_call_that_would_make_other_dags_is_refused(tmp_path, calls, message):
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "mine.py").write_text(f"from airflow import sdk\nfrom strata_cdc.airflow import dags\n{calls}")
    (error,) = DagBag(dag_folder=str(tmp_path / "dags")).import_errors.values()
    assert message in error


@pytest.mark.parametrize("at", ["settings that cannot be read", "a task"])
def test_settings_that_may_be_others_refuse_no_source(tmp_path, monkeypatch, at):
    """The first step of a run says that there is no such source."""
    if at == "a task":
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "list_sources")
    else:
        (tmp_path / "settings.toml").write_text("[")
    assert "my_ingest_binlog" in dags_of(tmp_path, 'dags(globals(), sources=["of_later"], prefix="my_")')


def test_a_group_belongs_to_the_set_with_all_of_its_sources():
    assert list(known_groups()) == ["both", "others"]
    assert list(known_groups(["a", "b"])) == ["both"]
    assert list(known_groups(["a", "c"])) == ["others"], "b is in another set"


OWN = """
from strata_cdc.airflow import ingest, run_form

@sdk.task
def before(): ...

@sdk.task
def after(): ...

@sdk.dag(schedule="@daily", params=run_form())
def own():
    before() >> [ingest("a"), ingest("b", group_id="b", dump_dag="b_dump_tables")] >> after()

own()
"""


def test_the_steps_in_a_dag_of_ones_own(tmp_path):
    dag = dags_of(tmp_path, OWN)["own"]
    for group in ("ingest", "b"):
        assert dag.get_task(f"{group}.land").upstream_task_ids == {"before"}
        assert dag.get_task(f"{group}.report_left").downstream_task_ids == {"after"}
        assert dag.get_task(f"{group}.read_again").downstream_task_ids == {"after"}
    assert list(dag.get_task("b.plan").op_args) == ["b"]
    assert dag.get_task("b.read_again").trigger_dag_id == "b_dump_tables"
    assert set(dag.params) == set(EMPTY)
    assert not {"source", "dry_run"} & set(dag.params), "the steps would ignore them"


def test_a_run_without_a_form_requests_what_is_pending():
    assert request_of({"color": "red"}, NOON) == EMPTY
    given = {**{name: field.value for name, field in run_form().items()}, "tables": ["s.t"]}
    assert request_of(given, NOON) == {**EMPTY, "tables": ["s.t"], "failed": False}
    with pytest.raises(Usage, match="not both"):
        request_of({"gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "end": "2026-11-21T03:30:00Z"}, NOON)


def context(run_type, begin=None, end=None, **params):
    return {
        "params": params,
        "dag_run": SimpleNamespace(run_type=run_type),
        "data_interval_start": begin,
        "data_interval_end": end,
    }


def test_the_span_of_a_run():
    begin, end = "2026-11-21T11:55:00+00:00", "2026-11-21T12:00:00+00:00"
    five_minutes = (NOON - 300_000_000, NOON)
    assert steps._span(context("scheduled", begin, end)) == five_minutes
    assert steps._span(context("backfill", begin, end)) == five_minutes
    assert steps._span(context("scheduled", end, end)) == (None, None), "a plain cron expression has no spans"
    assert steps._span(context("asset_triggered")) == (None, None)
    assert steps._span(context("manual", begin, end)) == (None, None), "somebody who names none means all"
    assert steps._span(context("manual", begin, end, start=begin)) == (five_minutes[0], None)
    with pytest.raises(Usage, match="no span of time"):
        steps._span(context("backfill", end, end))


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
def test_a_scheduled_run_takes_what_has_a_time_of_the_future(monkeypatch, run_type):
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://root@127.0.0.1:1/")
    begin, end = "2026-11-21T11:55:00+00:00", "2026-11-21T12:00:00+00:00"
    given = context(run_type, begin, end) | {"params": {name: field.value for name, field in run_form().items()}}
    asked = []

    def planned(_, source, start, end, **options):
        asked.append((start, end, options.get("choice")))
        raise Usage("enough")

    with (
        interposed(lambda _: given, (steps, "get_current_context")),
        interposed(lambda *_: True, (closable, "is_source_ahead")),
        interposed(planned, (ingest, "plan")),
        pytest.raises(Usage, match="enough"),
    ):
        steps.plan.function("a")
    is_owed = run_type == "scheduled"
    assert asked == [(None, None, WorkChoice.PENDING) if is_owed else (NOON - 300_000_000, NOON, None)]
