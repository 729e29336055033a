"""Ends a job when the process that waits for it has ended: a task that was killed cannot end its job.
Not here: how a living task ends its job (Airflow's provider sends a signal)."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress

import psutil

from strata_cdc.startup.spark import TASK_VARIABLE

LOOK_SECONDS = 1.0


def end_with_task(seconds: float = LOOK_SECONDS) -> None:
    """Watches from now on the process that the environment names, and Spark's JVM, which is the parent of a Python
    driver.

    Nothing is lost when the job ends: a step leaves complete files, or none.
    """
    if TASK_VARIABLE not in os.environ:
        return
    started_by = os.getppid()

    def is_there() -> bool:
        # A process that has ended is listed until its parent has waited for it.
        return waiting is not None and waiting.is_running() and waiting.status() != psutil.STATUS_ZOMBIE

    try:
        waiting: psutil.Process | None = psutil.Process(int(os.environ[TASK_VARIABLE]))
    except psutil.NoSuchProcess:
        waiting = None

    def watch() -> None:
        with suppress(psutil.NoSuchProcess):
            while is_there() and os.getppid() == started_by:
                time.sleep(seconds)
        sys.stderr.write("the task that waits for this job has ended, so the job ends too\n")
        if os.getppid() == started_by:
            with suppress(OSError):
                os.kill(started_by, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
