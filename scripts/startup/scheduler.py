"""Becomes Airflow's scheduler with what every task imports loaded: `python -m scripts.startup.scheduler [OPTION...]`.

LocalExecutor forks a process for each task from the scheduler, so that a task has the imports instead of importing them
again. Edits take effect at the next start; `STRATA_PLAIN_START=tasks` turns it off.
Not here: the scheduler's environment and options (`scripts/services.py`).
"""

from __future__ import annotations

import importlib
import os
import sys

from strata_cdc.environment import LIBRARIES
from strata_cdc.startup.switch import QuickStart, is_on

LOADED = ("airflow.providers.apache.spark.operators.spark_submit", "strata_cdc.pipeline.ingest")
"""No DAG file, and no module beside the DAG files: each task reads these itself, as in Airflow."""


def main() -> None:
    """Does not return, but exits."""
    if is_on(QuickStart.TASKS):
        for name, value in LIBRARIES.items():
            os.environ.setdefault(name, value)
        for module in LOADED:
            importlib.import_module(module)
    sys.argv = ["airflow", "scheduler", *sys.argv[1:]]
    importlib.import_module("airflow.__main__").main()


if __name__ == "__main__":
    main()
