"""What the DAGs promise to Airflow: ids, schedules, forms, the order of steps, what is tried again."""

from __future__ import annotations

import os
from copy import deepcopy
from itertools import pairwise
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import CronDataIntervalTimetable
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowException, ParamValidationError

from dags import steps
from dags.forms import check_form
from dags.retries import SPARK_REFUSED, RetryTransient
from spark_jobs import decode_slices
from strata import errors

REPOSITORY = Path(__file__).resolve().parents[2]
# Airflow 3.3 reads .airflowignore with a class that pathspec has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")


@pytest.fixture(scope="module")
def dags():
    """The DAGs as the processor finds them."""
    bag = DagBag(dag_folder=str(REPOSITORY / "dags"))
    assert bag.import_errors == {}
    return bag.dags


def test_exactly_these_dags(dags):
    assert set(dags) == {"dump_tables", "ingest_binlog", "reconcile_sources", "snapshot_schemas", "watch_schemas"}


def test_the_steps_and_their_order(dags):
    dag = dags["ingest_binlog"]
    names = [
        "list_sources",
        "ingest.land",
        "ingest.track",
        "ingest.plan",
        "ingest.has_rows",
        "ingest.decode",
        "ingest.check",
        "ingest.publish",
        "ingest.mirror",
        "ingest.report_left",
    ]
    assert [task.task_id for task in dag.topological_sort()] == names
    # The last two are beside each other: what is left out is told whatever becomes of the mirrors.
    for before, after in (*pairwise(names[:-1]), ("ingest.publish", "ingest.report_left")):
        assert after in dag.get_task(before).get_flat_relative_ids(upstream=False)
    assert dag.get_task("ingest.publish").trigger_rule == "all_done_min_one_success"


@pytest.mark.parametrize(
    "name", ["dump_tables", "ingest_binlog", "reconcile_sources", "snapshot_schemas", "watch_schemas"]
)
def test_one_run_at_a_time_and_none_for_the_past(dags, name):
    dag = dags[name]
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert dag.doc_md
    assert all(isinstance(task.retry_policy, RetryTransient) for task in dag.tasks)


def test_scheduled_runs_own_the_five_minutes_before_them(dags):
    timetable = dags["ingest_binlog"].timetable
    # The other cron timetable gives runs an empty interval, and they would own nothing.
    assert isinstance(timetable, CronDataIntervalTimetable)
    assert timetable.expression == "*/5 * * * *"


@pytest.mark.parametrize(
    ("form", "good"),
    [
        ({}, True),
        ({"source": "shop", "tables": ["shop.*"], "start": "2026-11-21T03:30:00Z", "end": None}, True),
        ({"gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"}, True),
        ({"start": "2026-11-21 03:30:00.5+02:00"}, True),
        ({"start": "yesterday"}, False),
        ({"end": "2026-11-21T03:30:00"}, False),
        ({"tables": []}, False),
        ({"source": 7}, False),
        ({"tables": "shop.*"}, False),
    ],
)
def test_the_form_is_checked_before_a_run_starts(dags, form, good):
    params = deepcopy(dags["ingest_binlog"].params)
    if good:
        params.update(form)
        params.validate()
    else:
        with pytest.raises(ParamValidationError):
            params.update(form)


LASTING = [errors.AccessDeniedError("no"), errors.SchemaGapError("no"), errors.SettingsError("no"), KeyError("no")]
PASSING = [errors.SourceUnavailableError("no"), errors.LakeUnavailableError("no"), ConnectionResetError(), OSError()]


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_what_stays_wrong_fails_at_once(error):
    assert RetryTransient().evaluate(error, 1, 3).action is RetryAction.FAIL


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_may_pass_is_tried_again(error):
    assert RetryTransient().evaluate(error, 1, 3).action is RetryAction.DEFAULT


@pytest.mark.parametrize(
    ("code", "action"),
    [(SPARK_REFUSED, RetryAction.FAIL), (decode_slices.UNAVAILABLE, RetryAction.DEFAULT), (137, RetryAction.DEFAULT)],
)
def test_a_spark_job_says_by_its_exit_code_whether_to_try_again(code, action):
    error = AirflowException(f"Cannot execute: spark-submit --master local[2]. Error code is: {code}.\ntail")
    assert RetryTransient().evaluate(error, 1, 3).action is action


GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"start": "yesterday"}, "yesterday is no time with a zone"),
        ({"end": "2026-11-21T03:30:00"}, "is no time with a zone"),
        ({"end": "2026-02-30T03:30:00Z"}, "is no time with a zone"),
        ({"start": "2026-11-21T03:30:00Z", "end": "2026-11-21T05:30:00+02:00"}, "no time between"),
        ({"table": ["shop.*"]}, "table is no field of this form: do you mean tables?"),
        ({"bogus": 1}, "bogus is no field of this form (there are: source, tables, start, end, gtid_set, failed)"),
        ({"gtid_range": GTIDS}, "gtid_range is called gtid_set now"),
        ({"gtid_set": "all"}, "all"),
        ({"gtid_set": GTIDS, "end": "2026-11-21T03:30:00Z"}, "not both"),
        ({"tables": []}, "tables is an empty list"),
        ({"tables": ["shop.*", "app"]}, '"app" matches no table: it has no dot'),
    ],
)
def test_what_no_step_would_heed_is_refused_by_the_first(dags, form, said):
    fields = dags["ingest_binlog"].params
    with pytest.raises(errors.Usage) as caught:
        check_form({**fields.dump(), **form}, fields)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["ingest_binlog", "reconcile_sources", "snapshot_schemas"])
def test_an_empty_form_is_good(dags, name):
    check_form(dags[name].params.dump(), dags[name].params)


def test_both_sides_mean_the_same_exit_code():
    assert decode_slices.REFUSED == SPARK_REFUSED


# The hook leaves its pipe to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_spark_gets_no_secrets_of_airflow(monkeypatch, tmp_path):
    """The real hook starts a real program in the place of spark-submit, which prints what it was given."""
    program = tmp_path / "spark-submit"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/given\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_STRATA", "spark://local")
    monkeypatch.setenv("AIRFLOW_CONN_MYSQL_SHOP", "mysql://u:sEcReT@h/")
    monkeypatch.setenv("UNKNOWN_TOKEN", "sEcReT")
    operator = steps.spark("check", "check_interval.py")
    operator.execute({})
    given = (tmp_path / "given").read_text()
    assert "sEcReT" not in given
    assert "PATH=" in given
    assert os.environ["AIRFLOW_CONN_MYSQL_SHOP"] == "mysql://u:sEcReT@h/"
