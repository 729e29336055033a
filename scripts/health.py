"""Asks one component whether it is well: `python -m scripts.health NAME`, exit code 0 or 1; what containers call.
Not here: starting anything (`fleet.py`)."""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

from scripts.airflow_api import AirflowApi
from scripts.services import AIRFLOW, WORKER_UI_PORT, airflow_environment
from scripts.state import State


def is_well(component: str, state: State) -> bool:
    """True when the component serves, or, where it has no page of its own, has reported to Airflow lately."""
    if component in AIRFLOW:
        url = airflow_environment(state)["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].removesuffix("/execution/")
        health = AirflowApi(url, "", "").health() or {}
        name = "metadatabase" if component == "api-server" else component.replace("-", "_")
        return bool(health.get(name, {}).get("status") == "healthy")
    if component == "init":
        return (Path(airflow_environment(state)["AIRFLOW_HOME"]) / "migrated").exists()
    port = WORKER_UI_PORT if component == "spark-worker" else os.environ["STRATA_SPARK_UI_PORT"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(0 if is_well(sys.argv[1], State.from_environment(os.environ)) else 1)
