"""What the DAGs promise to Airflow: ids, schedules, forms, the order of steps, what is tried again."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import airflow.exceptions
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import CronDataIntervalTimetable
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import FormatChecker

from strata_cdc import errors
from strata_cdc.airflow.assets import mirror_asset, table_asset
from strata_cdc.airflow.forms import check_form, describe_request, run_form, source_field
from strata_cdc.airflow.plugins.form_words import FormWordsPlugin
from strata_cdc.airflow.retries import SPARK_REFUSED, RetryTransient, failing_at_once
from strata_cdc.airflow.steps import BY_SOURCE
from strata_cdc.runs.form_fields import CHECKS
from strata_cdc.spark_jobs import decode_slices

NOW = 1_795_300_000_000_000
"""2026-11-21 22:26 UTC."""
GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
REPOSITORY = Path(__file__).resolve().parents[2]
# Airflow 3.3 reads .airflowignore with a class that pathspec has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


NAMES = {"dump_tables", "ingest_binlog", "keep_mirrors", "reconcile_sources", "snapshot_schemas", "watch_schemas"}


@pytest.fixture(scope="module")
def dags():
    """The DAGs as the processor finds them."""
    bag = DagBag(dag_folder=str(REPOSITORY / "dags"))
    assert bag.import_errors == {}
    return bag.dags


@pytest.mark.parametrize("given", [{"op_args": ("shop",)}, {"op_args": (), "op_kwargs": {"source": "shop"}}])
def test_a_task_of_a_source_is_called_by_it(dags, given):
    """However it got it; Airflow asks when the work is done, and a task that has no name then has failed."""
    template = dags["dump_tables"].get_template_env().from_string(BY_SOURCE)
    assert template.render(task=SimpleNamespace(**given)) == "shop"


def test_no_mapped_task_is_called_by_a_number(dags):
    mapped = [task for task in dags["ingest_binlog"].tasks if task.task_id.startswith("ingest.")]
    assert len(mapped) == 9
    assert all(task.map_index_template for task in mapped)
    template = dags["ingest_binlog"].get_template_env().from_string(mapped[-1].map_index_template)
    assert "source" in template.render(task=SimpleNamespace(source="source", op_args=("source",)))


def test_nothing_is_mapped_by_slice_or_table(dags):
    """A mapped task has 1,024 instances at most (`core.max_map_length`): a run has more slices, and a server more
    tables."""
    mapped = set()
    for dag in dags.values():
        for node in [*dag.tasks, *dag.task_group.get_task_group_dict().values()]:
            for name in ("_expand_input", "op_kwargs_expand_input", "expand_input"):
                found = getattr(node, name, None)
                mapped |= set(getattr(found, "value", None) or ())
    assert mapped == {"source"}


def test_exactly_these_dags(dags):
    assert set(dags) == {
        "dump_tables",
        "ingest_binlog",
        "keep_mirrors",
        "reconcile_sources",
        "snapshot_schemas",
        "watch_schemas",
    }


def test_the_example_of_a_consumer_waits_for_rows_and_for_ddl():
    bag = DagBag(dag_folder=str(REPOSITORY / "dags" / "examples" / "read_changes.py"))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    waited = dag.timetable.asset_condition.objects
    waits = {asset.uri: [watcher.name for watcher in asset.watchers] for asset in waited}
    assert waits == {"strata://shop/shop/orders": [], "strata://shop/ddl": ["strata_shop"]}
    assert [task.task_id for task in dag.topological_sort()] == ["list_intervals", "count_by_operation"]


ODD_NAMES = ["t", "t/", "t#f", "t?b=1&a=2", "a/mirror", "a", "t ", "%41", "größe", "T", "$x", "<b>", "表"]


def test_each_table_and_mirror_has_an_asset_of_its_own():
    """Whatever they are called: Airflow mends URIs, and stores them as Latin letters."""
    found = [make("shop", f"d.{name}") for name in ODD_NAMES for make in (table_asset, mirror_asset)]
    assert len({asset.uri for asset in found}) == len({asset.name for asset in found}) == 2 * len(ODD_NAMES)
    assert all(asset.uri == asset.name and asset.uri.isascii() for asset in found)
    assert table_asset("shop", "shop.orders_2$").uri == "strata://shop/shop/orders_2$"


def test_the_steps_and_their_order(dags):
    dag = dags["ingest_binlog"]
    names = [
        "list_sources",
        "ingest.land",
        "ingest.track",
        "ingest.plan",
        "ingest.decode",
        "ingest.check",
        "ingest.publish",
        "ingest.mirror",
        "ingest.report_left",
        "ingest.read_again",
    ]
    assert [task.task_id for task in dag.topological_sort()] == names
    # Rows that were not published are reported whatever becomes of the mirrors.
    for before, after in (*pairwise([*names[:-2], names[-1]]), ("ingest.publish", "ingest.report_left")):
        assert after in dag.get_task(before).get_flat_relative_ids(upstream=False)
    assert dag.get_task("ingest.publish").trigger_rule == "all_done"


@pytest.mark.parametrize(
    "name", ["dump_tables", "ingest_binlog", "keep_mirrors", "reconcile_sources", "snapshot_schemas", "watch_schemas"]
)
def test_one_run_at_a_time_and_none_for_the_past(dags, name):
    dag = dags[name]
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert dag.doc_md
    assert [task.task_id for task in dag.tasks if not task.doc_md] == []
    assert all(isinstance(task.retry_policy, RetryTransient) for task in dag.tasks)


def test_scheduled_runs_own_the_five_minutes_before_them(dags):
    timetable = dags["ingest_binlog"].timetable
    # The other cron timetable gives runs an empty interval, and they would own nothing.
    assert isinstance(timetable, CronDataIntervalTimetable)
    assert timetable.expression == "*/5 * * * *"


@pytest.fixture
def served(dags, monkeypatch):
    """The forms as the api-server has them, which has loaded the plugin and has none of our code but that."""
    monkeypatch.setattr(FormatChecker, "checkers", dict(FormatChecker.checkers))
    FormWordsPlugin.on_load()

    @cache
    def params(name):
        return DagSerialization.from_dict(DagSerialization.to_dict(dags[name])).params

    return params


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"source": "shop", "tables": ["shop.*"], "start": "2026-11-21T03:30:00Z", "end": None},
        {"gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"},
        {"gtid_set": " 3E11FA4771CA11E19E33C80AA9429562:tag:1-5:7,\n{3e11fa47-71ca-11e1-9e33-c80aa9429563}:1"},
        {"gtid_set": "", "start": ""},
        {"start": "2026-11-21 03:30:00.5+02:00"},
        {"dry_run": True},
    ],
)
def test_what_means_something_starts_a_run(served, form):
    served("ingest_binlog").deep_merge(form).validate()


WRONG = [
    ("gtid_set", "all", "GTID set"),
    ("gtid_set", 7, "GTID set"),
    ("gtid_set", "3e11fa47-71ca-11e1-9e33-c80aa9429562", "GTID set"),
    ("gtid_set", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-x", "GTID set"),
    ("gtid_set", "3e11fa47-71ca-11e1-9e33-c80aa9429562:9-5", "is empty"),
    ("gtid_set", " ", "is empty"),
    ("start", "yesterday", "time with a zone"),
    ("start", "2026-02-30T03:30:00Z", "time with a zone"),
    ("end", "2026-11-21T03:30:00", "time with a zone"),
    ("start", "0001-01-01T00:00:00+14:00", "time with a zone"),
    ("end", 1_795_300_000, "time with a zone"),
    ("tables", [], "empty list"),
    ("tables", "shop.*", "list of tables"),
    ("tables", [7], "list of tables"),
    ("tables", ["shop.*", "app"], "no dot"),
    ("tables", ["shop.*", ""], "is empty"),
    ("tables", ["shop.orders ", "shop.*"], "ends with a blank"),
    ("dry_run", "yes", "neither true nor false"),
    ("keys", 0, "number of rows"),
    ("keys", True, "number of rows"),
]


@pytest.mark.parametrize(("field", "value", "said"), WRONG)
def test_what_means_nothing_starts_no_run_and_is_told_in_words(served, field, value, said):
    """And nothing else: neither a pattern nor the schema around it."""
    params = served("reconcile_sources" if field == "keys" else "ingest_binlog")
    with pytest.raises(airflow.exceptions.ParamValidationError) as caught:
        params.deep_merge({field: value}).validate()
    told = str(caught.value)
    assert re.match(rf"Invalid input for param {field}: .+[.] (Write|Leave it out) .+[.]$", told)
    assert said in told
    assert "schema" not in told


@given(
    st.sampled_from([field for field, _, _ in WRONG]),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda some: st.lists(some, max_size=3)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_somebody_gives_is_taken_or_told_in_words(served, field, value):
    params = served("reconcile_sources" if field == "keys" else "ingest_binlog")
    with suppress(airflow.exceptions.ParamValidationError):
        params.deep_merge({field: value}).validate()
        return
    with pytest.raises(errors.Usage):
        CHECKS[params.get_param(field).schema["allOf"][0]["format"]](value)


def test_no_form_has_a_pattern(dags):
    """Airflow would show it to whoever breaks it. What somebody types, its field can say in words to be wrong."""
    for dag in dags.values():
        for name in dag.params:
            schema = dag.params.get_param(name).schema
            assert "pattern" not in str(schema)
            assert "enum" in schema or name == "source" or schema["allOf"][0]["format"] in CHECKS


@pytest.mark.parametrize(
    ("form", "span", "asked"),
    [
        ({}, (None, None), "plan what is pending of s"),
        ({"failed": True}, (None, None), "plan what is pending of s, also what failed or is blocked"),
        (
            {"tables": ["a.*", "b.c"]},
            (0, 60_000_000),
            "plan s from 1970-01-01 00:00:00+00:00 until 1970-01-01 00:01:00+00:00, of a.*, b.c only",
        ),
        ({"gtid_set": GTIDS}, (None, None), f"plan of s the transactions {GTIDS}"),
    ],
)
def test_what_a_run_is_asked_for(form, span, asked):
    assert describe_request("s", form, *span) == asked


def test_a_source_is_chosen_from_those_of_the_settings(tmp_path, monkeypatch):
    assert "enum" not in source_field().schema, "without settings the first step says what is wrong"
    (tmp_path / "strata.toml").write_text('lake = "lake"\n[sources.shop]\nconnection = "x"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    field = source_field()
    assert field.resolve() is None
    assert field.resolve("shop") == "shop"
    with pytest.raises(ParamValidationError, match="'nope' is not one of"):
        field.resolve("nope")
    with monkeypatch.context() as in_a_task:
        in_a_task.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "list_sources")
        assert source_field().resolve("gone") == "gone", "the settings had it when the run was requested"
    (tmp_path / "strata.toml").write_text("lake = ")
    assert "enum" not in source_field().schema


def test_a_dag_may_be_for_one_source():
    field = run_form(["shop"])["source"]
    assert field.resolve() == "shop", "by its schedule, too"
    with pytest.raises(ParamValidationError, match="'other' is not one of"):
        field.resolve("other")


LASTING = [errors.AccessDeniedError("no"), errors.SchemaGapError("no"), errors.SettingsError("no"), KeyError("no")]
PASSING = [
    errors.SourceUnavailableError("no"),
    errors.AlreadyRunningError("no"),
    errors.LakeUnavailableError("no"),
    ConnectionResetError(),
    OSError(),
    AirflowSkipException(),
]


def raising(error):
    """The work of a task that fails."""
    raise error


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_what_stays_wrong_fails_at_once(error):
    assert RetryTransient().evaluate(error, 1, 3).action is RetryAction.FAIL
    with pytest.raises(AirflowFailException) as caught:
        failing_at_once(raising)(error)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_may_pass_is_tried_again(error):
    assert RetryTransient().evaluate(error, 1, 3).action is RetryAction.DEFAULT
    with pytest.raises(type(error)) as caught:
        failing_at_once(raising)(error)
    assert caught.value is error


@pytest.mark.parametrize(
    ("code", "action"),
    [(SPARK_REFUSED, RetryAction.FAIL), (decode_slices.UNAVAILABLE, RetryAction.DEFAULT), (137, RetryAction.DEFAULT)],
)
def test_a_spark_job_says_by_its_exit_code_whether_to_try_again(code, action):
    error = AirflowException(f"Cannot execute: spark-submit --master local[2]. Error code is: {code}.\ntail")
    assert RetryTransient().evaluate(error, 1, 3).action is action


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"start": "yesterday"}, "'yesterday' is no time with a zone"),
        ({"end": "2026-11-21T03:30:00"}, "is no time with a zone"),
        ({"end": "2026-02-30T03:30:00Z"}, "is no time with a zone"),
        ({"start": "2026-11-21T03:30:00Z", "end": "2026-11-21T05:30:00+02:00"}, "no time between"),
        ({"table": ["shop.*"]}, "table is no field of this form: do you mean tables?"),
        (
            {"bogus": 1},
            "bogus is no field of this form (there are: source, tables, start, end, gtid_set, engine, failed, dry_run)",
        ),
        ({"gtid_range": GTIDS}, "gtid_range is now called gtid_set"),
        ({"end": "2026-11-22T03:30:00Z"}, "is in the future"),
        ({"start": "2026-11-22T03:30:00Z"}, "no time between 2026-11-22T03:30:00Z and now"),
        ({"gtid_set": "all"}, "all"),
        ({"gtid_set": GTIDS, "end": "2026-11-21T03:30:00Z"}, "not both"),
        ({"tables": []}, "tables is an empty list"),
        ({"tables": ["shop.*", "app"]}, '"app" matches no table: it has no dot'),
    ],
)
def test_what_no_step_would_heed_is_refused_by_the_first(dags, form, said):
    fields = dags["ingest_binlog"].params
    with pytest.raises(errors.Usage) as caught:
        check_form({**fields.dump(), **form}, fields, NOW)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["ingest_binlog", "keep_mirrors", "reconcile_sources", "snapshot_schemas"])
def test_an_empty_form_is_good(dags, name):
    check_form(dags[name].params.dump(), dags[name].params, NOW)


def test_both_sides_mean_the_same_exit_code():
    assert decode_slices.REFUSED == SPARK_REFUSED
