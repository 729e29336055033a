"""Becomes one of Airflow's components, started sooner: `python -m scripts.startup.airflow COMPONENT [OPTION...]`.

Each component makes a million objects that stay while it imports Airflow; garbage is looked for among them less often.
LocalExecutor forks a process for each task from the scheduler, so that a task has the imports instead of importing them
again; edits take effect at the next start. `STRATA_PLAIN_START=tasks,garbage` turns both off.
Not here: the components' environment and options (`scripts/services.py`).
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from strata_cdc.environment import LIBRARIES
from strata_cdc.startup.switch import QuickStart, is_on

LOADED = ("airflow.providers.apache.spark.operators.spark_submit", "strata_cdc.pipeline.ingest")
"""No DAG file, and no module beside the DAG files: each task reads these itself, as in Airflow."""


def main() -> None:
    """Does not return, but exits."""
    if is_on(QuickStart.GARBAGE):
        gc.set_threshold(50_000)
    if sys.argv[1:2] == ["scheduler"] and is_on(QuickStart.TASKS):
        for name, value in LIBRARIES.items():
            os.environ.setdefault(name, value)
        for module in LOADED:
            importlib.import_module(module)
    sys.argv = ["airflow", *sys.argv[1:]]
    importlib.import_module("airflow.__main__").main()


if __name__ == "__main__":
    main()
