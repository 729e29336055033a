"""The steps that Spark may do, done in the task: no program is started, the log says what decodes and why."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException
from msgspec.structs import asdict

from strata_cdc.airflow.spark_step import CheckStep, DecodeStep, SparkDiedError
from strata_cdc.airflow.xcom import PlannedRun
from strata_cdc.errors import ChecksFailedError
from strata_cdc.files.storage import Folder
from strata_cdc.pipeline.housekeep.clean_runs import clear_staged
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.runs.run_folder import read_verdicts
from strata_cdc.values import to_plain
from tests.pipeline.owed_world import TABLES, World


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The XCom of a small run; whoever starts a program finds none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_STRATA", "spark://local")
    world = World(tmp_path)
    for table in TABLES:
        world.change(table, [1, 2])
    world.now += 1_000_000
    world.land()
    return to_plain(PlannedRun(**asdict(world.plan(RunRequest())), engine="auto"))


def test_a_small_run_is_decoded_and_checked_by_its_tasks(
    planned: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "strata")
    for kind in (DecodeStep, CheckStep):
        kind(task_id="step", planned=planned).execute({})
    said = [record.getMessage() for record in caplog.records if record.name == "strata"]
    assert "engine: local (1 MB of binlog; local_mb is 1,024)" in said
    assert any(re.fullmatch(r"done in [\d.]+ s: 6 rows in 3 files", line) for line in said)
    assert any("checks, 0 errors, 0 warnings" in line for line in said)
    assert not [line for line in said if "Spark's output" in line]
    (verdict,) = read_verdicts(Folder.open(planned["run_url"])).values()
    assert verdict.passed
    assert verdict.engine.startswith("local (")


def test_what_was_decoded_on_request_by_spark_is_checked_by_it(planned: dict[str, Any]) -> None:
    DecodeStep(task_id="step", planned=planned).execute({})
    # The program is found beside this Python, and finds no shell.
    with pytest.raises(SparkDiedError, match="exit code 127"):
        CheckStep(task_id="step", planned={**planned, "engine": "spark"}).execute({})


def test_a_check_that_fails_fails_its_task(planned: dict[str, Any]) -> None:
    """A table has none of the rows that the plan counted."""
    DecodeStep(task_id="step", planned=planned).execute({})
    file = Path(planned["run_url"], "decoded.json")
    decoded = json.loads(file.read_text())
    file.write_text(json.dumps({**decoded, "files": decoded["files"][1:]}))
    with pytest.raises(ChecksFailedError):
        CheckStep(task_id="step", planned=planned).execute({})


def test_what_another_process_has_published_meanwhile_is_not_checked_again(planned: dict[str, Any]) -> None:
    """Publishing, which follows in any case, reports what is published."""
    for kind in (DecodeStep, CheckStep):
        kind(task_id="step", planned=planned).execute({})
    folder = Folder.open(planned["run_url"])
    before = read_verdicts(folder)
    clear_staged(folder)
    with pytest.raises(AirflowSkipException, match="published"):
        CheckStep(task_id="step", planned=planned).execute({})
    assert read_verdicts(folder) == before
