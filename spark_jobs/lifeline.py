"""Ends a job when the process that waits for it is gone: a task that was killed tells nobody.
Not here: what asks a job to end while it still can (Airflow's provider sends a signal)."""

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
    """Watches, from now on, the process that the environment names, and Spark's JVM, whose child a Python driver is.

    Nothing is lost by it: a step leaves whole files, or none.
    """
    if TASK_VARIABLE not in os.environ:
        return
    started_by = os.getppid()

    def is_there() -> bool:
        # A dead one that nobody has asked for is still listed.
        return waiting is not None and waiting.is_running() and waiting.status() != psutil.STATUS_ZOMBIE

    try:
        waiting: psutil.Process | None = psutil.Process(int(os.environ[TASK_VARIABLE]))
    except psutil.NoSuchProcess:
        waiting = None

    def watch() -> None:
        with suppress(psutil.NoSuchProcess):
            while is_there() and os.getppid() == started_by:
                time.sleep(seconds)
        sys.stderr.write("the task that waits for this job is gone: it ends, too\n")
        if os.getppid() == started_by:
            with suppress(OSError):
                os.kill(started_by, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
