"""A step that Spark does, with the provider's real hook and a real program in the place of spark-submit: its log has
the job's own lines, its errors are the job's, and it gets no secrets."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowSkipException

from strata_cdc.airflow.docs_link import SparkLink
from strata_cdc.airflow.retries import RetryTransient
from strata_cdc.airflow.spark_step import CheckStep, DecodeStep, SparkDiedError
from strata_cdc.airflow.task_logs import failure_lines
from strata_cdc.airflow.xcom import PlannedRun
from strata_cdc.errors import LakeUnavailableError, SchemaGapError, Usage
from strata_cdc.runs.specs import RunRemainder
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from pathlib import Path

REPORT = '{"run": "r", "slices": 2, "files": 3, "rows": 1400, "failed_slices": 0}'
NOISE = "26/11/23 06:15:37 WARN NativeCodeLoader: Unable to load native-hadoop library"


class Step:
    """A step, its program and what it said."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        self.folder, self._log = folder, caplog
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_STRATA", "spark://local")
        caplog.set_level(logging.INFO, "strata")

    def run(self, script: str, kind: type[Any] = DecodeStep, slices: int = 2, context: Any = None) -> list[str]:
        program = self.folder / "spark-submit"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        planned = PlannedRun("s", "r", f"{self.folder}/lake/runs/s/r", 1, slices, 1400, 0, None,
                             RunRemainder(0, 0, 0, 0), tables=1)  # fmt: skip
        kind(task_id="step", planned=to_plain(planned)).execute(context or {})
        return self.said

    @property
    def said(self) -> list[str]:
        return [re.sub(r"[\d.]+ s:", "N s:", record.getMessage()) for record in self._log.records
                if record.name == "strata"]  # fmt: skip

    @property
    def kept(self) -> str:
        return (self.folder / "lake/runs/s/r/spark/spark.log").read_text()


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Step:
    return Step(tmp_path, monkeypatch, caplog)


def test_its_log_has_few_lines_and_the_rest_is_in_a_file(step: Step) -> None:
    said = step.run(f"echo '{NOISE}'; echo 'decoded 1 of 2 slices'; echo '{REPORT}'")
    assert said == [
        "task: decode 1,400 rows of 1 table in 2 slices: r",
        "decoded 1 of 2 slices",
        f"Spark's output is in {step.folder}/lake/runs/s/r/spark/spark.log",
        "done in N s: 1,400 rows in 3 files",
        "next: check",
    ]
    assert NOISE in step.kept
    assert "Spark-Submit cmd: spark-submit" in step.kept


def test_while_a_job_has_pages_the_task_links_to_them(step: Step) -> None:
    pushed: dict[str, str] = {}
    ti = SimpleNamespace(try_number=1, xcom_push=pushed.__setitem__)
    said = step.run(f"echo \"Spark's pages: http://127.0.0.1:4040\"; echo '{REPORT}'", context={"ti": ti})
    assert pushed == {"_link_SparkLink": "http://127.0.0.1:4040"} == {SparkLink().xcom_key: "http://127.0.0.1:4040"}
    assert "Spark's pages: http://127.0.0.1:4040" in said


def test_a_check_is_told_what_the_settings_say(step: Step) -> None:
    report = json.dumps({"source": "s", "run": "r", "checks": 7, "errors": 0, "warnings": 1, "docs": "lake/index.html"})
    said = step.run(f"echo \"$@\" > {step.folder}/given; echo '{report}'", CheckStep)
    assert "done in N s: 7 checks, 0 errors, 1 warning; Data Docs: /strata-docs/s/r/index.html" in said
    assert "--checks  --compare-keys 100" in (step.folder / "given").read_text()


def test_without_rows_nothing_is_started(step: Step) -> None:
    with pytest.raises(AirflowSkipException):
        step.run(f"touch {step.folder}/started", slices=0)
    assert not (step.folder / "started").exists()


@pytest.mark.parametrize(
    ("facts", "code", "kind", "action"),
    [
        ({"error": "SchemaGapError", "message": "no schema for d.t", "table": "d.t", "remedy": "Take a snapshot."},
         65, SchemaGapError, RetryAction.FAIL),
        ({"error": "LakeUnavailableError", "message": "full"}, 75, LakeUnavailableError, RetryAction.DEFAULT),
        (None, 137, SparkDiedError, RetryAction.DEFAULT),
    ],
)  # fmt: skip
def test_the_error_is_the_jobs_own(step: Step, facts: Any, code: int, kind: Any, action: RetryAction) -> None:
    line = f"echo '{json.dumps(facts)}'" if facts else "echo Killed"
    with pytest.raises(kind) as caught:
        step.run(f"echo '{NOISE}'; {line}; exit {code}")
    assert step.said[-1] == "::group::Trace"
    assert RetryTransient().evaluate(caught.value, 1, 3).action is action
    lines = [*failure_lines(caught.value)]
    if facts and "table" in facts:
        assert lines == [
            "problem: no schema for d.t (SchemaGapError)", "location: table d.t", "what to do: Take a snapshot.",
        ]  # fmt: skip


def connection(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    given = {"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_STRATA", json.dumps(given))


def test_settings_of_spark_come_with_the_connection(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's Python stays that of the task."""
    conf = {"spark.pyspark.python": "./environment/bin/python", "spark.cores.max": 8, "spark.log.level": "INFO"}
    connection(monkeypatch, conf=conf)
    step.run(f"echo \"$@\" > {step.folder}/given; echo '{REPORT}'")
    given = (step.folder / "given").read_text()
    for setting in ("spark.pyspark.python=./environment/bin/python", "spark.cores.max=8", "spark.log.level=INFO",
                    f"spark.pyspark.driver.python={sys.executable}"):  # fmt: skip
        assert f"--conf {setting} " in given
    assert "spark.log.level=WARN" not in given
    connection(monkeypatch, conf="spark.cores.max=8")
    with pytest.raises(Usage, match="`conf` in the extra of the connection spark_strata is no object"):
        step.run(f"echo '{REPORT}'")


class ResourceManager(BaseHTTPRequestHandler):
    """YARN's, as far as the provider asks it: an application runs, and has succeeded at the next look."""

    states = iter(())

    def do_GET(self) -> None:
        state = next(ResourceManager.states)
        app = {"state": state, "finalStatus": "SUCCEEDED" if state == "FINISHED" else "UNDEFINED"}
        content = json.dumps({"app": app}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize(("kept", "submitted"), [({}, 1), ({"spark_job_id": "application_1_0001"}, 0)])
def test_a_task_that_is_tried_again_finds_its_driver(
    step: Step, monkeypatch: pytest.MonkeyPatch, kept: dict[str, str], submitted: int
) -> None:
    """In cluster mode; the second try of a task that was killed does not submit its job again."""
    ResourceManager.states = iter(["RUNNING", "FINISHED", "FINISHED"] if kept else ["FINISHED"])
    with HTTPServer(("127.0.0.1", 0), ResourceManager) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": address}
        given = {"conn_type": "spark", "host": "yarn", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_STRATA", json.dumps(given))
        store = SimpleNamespace(get=kept.get, set=kept.__setitem__)
        ti = SimpleNamespace(try_number=1, xcom_push=lambda *_: None, stats_tags={})
        script = f"echo x >> {step.folder}/submitted; echo 'Submitted application application_1_0001'"
        step.run(script, context={"ti": ti, "task_state_store": store})
        server.shutdown()
    assert kept == {"spark_job_id": "application_1_0001"}
    submits = step.folder / "submitted"
    assert (len(submits.read_text().splitlines()) if submits.exists() else 0) == submitted


def test_a_step_that_is_cleared_is_done_again(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DecodeStep(task_id="step", planned={}).is_job_succeeded("SUCCEEDED") is False


def test_spark_gets_no_secrets_of_airflow(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MYSQL_SHOP", "mysql://u:sEcReT@h/")
    monkeypatch.setenv("UNKNOWN_TOKEN", "sEcReT")
    step.run(f"env > {step.folder}/given; echo '{REPORT}'")
    given = (step.folder / "given").read_text()
    assert "sEcReT" not in given
    assert "PATH=" in given
    assert f"STRATA_TASK_PID={os.getpid()}" in given
    assert os.environ["AIRFLOW_CONN_MYSQL_SHOP"] == "mysql://u:sEcReT@h/"
    assert "STRATA_TASK_PID" not in os.environ
