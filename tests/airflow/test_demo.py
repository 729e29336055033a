"""`make demo` as a stranger runs it: scheduler, LocalExecutor, Spark, and the proof at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from scripts.processes import FLEET_VARIABLE

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO_SECONDS = 1500


def test_the_demo_proves_itself_and_leaves_nothing_running(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "scripts.demo"],
        cwd=REPOSITORY,
        env={**os.environ, "STRATA_STATE": str(tmp_path), "COLUMNS": "140"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "every table equals the server's" in done.stdout
    assert "419,900" in done.stdout
    assert "differs" not in done.stdout
    assert not list(members(str(tmp_path)))


def members(state):
    for process in psutil.process_iter():
        try:
            if process.environ().get(FLEET_VARIABLE) == state:
                yield process
        except psutil.Error:
            continue
