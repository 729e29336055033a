"""A Spark job ends with the task that waits for it, however that ends: processes stand for task, JVM and driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DRIVER = """
import time
from strata_cdc.spark_jobs.lifeline import end_with_task
end_with_task(0.05)
print("works", flush=True)
time.sleep(300)
"""
STARTS = "import os, subprocess, sys; {}; print(os.getpid(), flush=True); subprocess.run({!r})"
SECONDS = 120


@pytest.mark.parametrize("killed", ["task", "jvm"])
def test_whoever_is_killed_above_the_driver_takes_all_with_it(killed: str) -> None:
    jvm = [sys.executable, "-c", STARTS.format("pass", [sys.executable, "-c", DRIVER])]
    task = [sys.executable, "-c", STARTS.format("os.environ['STRATA_TASK_PID'] = str(os.getpid())", jvm)]
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'include'}"}
    with subprocess.Popen(
        task, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(2)]
        assert process.stdout.readline() == "works\n"
        os.kill(pids[killed == "jvm"], signal.SIGKILL)
        began = time.monotonic()
        # The pipe ends with the last that has it.
        process.stdout.read()
        assert time.monotonic() - began < SECONDS
