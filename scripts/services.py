"""The services of a fleet but MySQL: the command and the environment of each, on this machine as in the containers.
Not here: starting and stopping them (`fleet.py`), MySQL (`mysql.py`), what they keep (`state.py`)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.mysql import strata_url
from scripts.processes import Program
from scripts.state import REPOSITORY
from strata_cdc.config.settings import connection_variable
from strata_cdc.startup.spark import submit_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scripts.state import FleetState

AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
ADMIN = "admin"
WATCHER = "watcher"
"""The account by which the replication watcher asks Airflow which of its events are stored; it may look only."""
LOOPBACK = "127.0.0.1"
CONTAINER_VARIABLE = "STRATA_CONTAINER"
"""Set where the environment is all about this fleet."""
SPARK_HOST_VARIABLE = "STRATA_SPARK_HOST"
"""Where the cluster's master is; without it Spark is this machine alone."""
SCHEDULES_VARIABLE = "STRATA_SCHEDULES"
"""`off`: runs start by hand only."""
MYSQL_URL_VARIABLE = "STRATA_DEMO_MYSQL_URL"
"""A server of the user's instead of the private one."""
_CONNECT_ARGS = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS_ASYNC")


def airflow(component: str, state: FleetState, *arguments: str) -> Program:
    """One of Airflow's components, or another of its commands in the same environment."""
    command = [str(Path(sys.executable).with_name("airflow")), component, *arguments]
    if component in AIRFLOW:
        command = [sys.executable, "-m", "scripts.startup.airflow", component, *arguments]
    if component in {"scheduler", "triggerer"}:
        # On one machine the api-server reads the log files itself.
        command.append("--skip-serve-logs")
    return Program(component, command, airflow_environment(state))


def airflow_environment(state: FleetState) -> dict[str, str]:
    """Everything that Airflow, its tasks and the Spark drivers that they start need to know, but `connections`.

    In a container what the environment says already stands, connections too: that is how the same programs are pointed
    at PostgreSQL and a cluster. On a user's machine it may be about an Airflow of theirs, which must not be touched.
    """
    home = state.airflow_home
    url = f"http://127.0.0.1:{state.port('airflow')}"
    chosen = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # Each slot is a process that waits: 100 MB.
        "AIRFLOW__CORE__PARALLELISM": "2",
        # Seconds. A task whose process has ended keeps its slot for up to as long, 5 s by default.
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        # A task waits for a server that does not answer as long as by default: 3 times 5 s.
        "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "15",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin,{WATCHER}:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": LOOPBACK,
        "AIRFLOW__API__PORT": str(state.port("airflow")),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "STRATA_SETTINGS": str(state.settings_file),
    }
    if os.environ.get(SCHEDULES_VARIABLE) == "off":
        chosen["AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE"] = "False"
        # Somebody waits for each step, and not for hours.
        chosen["AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME"] = "0.2"
        # Nobody edits a DAG file meanwhile: each time that it reads them all is seconds of a core.
        chosen["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"] = "600"
    own = {connection_variable(name): text for name, text in connections(state).items()}
    if CONTAINER_VARIABLE in os.environ:
        given, chosen = dict(os.environ), own | chosen
    else:
        # Other connections are kept: they are how a source of theirs is named.
        theirs = ("AIRFLOW__", "AIRFLOW_HOME", "AIRFLOW_CONFIG")
        given = {key: text for key, text in os.environ.items() if key not in own and not key.startswith(theirs)}
    secrets = {
        "AIRFLOW__CORE__FERNET_KEY": "fernet",
        "AIRFLOW__API__SECRET_KEY": "airflow-sessions",
        "AIRFLOW__API_AUTH__JWT_SECRET": "airflow-tokens",
    }
    chosen |= {variable: state.secret(name) for variable, name in secrets.items() if variable not in given}
    found = {**chosen, **given}
    if found["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith("sqlite:"):
        found = dict.fromkeys(_CONNECT_ARGS, "scripts.airflow_sqlite.CONNECT_ARGS") | found
    return _spark_environment(found)


def connections(state: FleetState) -> dict[str, str]:
    """The connections that the DAGs use, by id, as Airflow's variables have them; those of the environment go first."""
    account = f"{WATCHER}:{state.secret('airflow-watcher')}"
    spark = {"host": "local[2]", "extra": {"deploy-mode": "client", "spark-binary": "spark-submit"}}
    own = {
        "mysql_shop": os.environ.get(MYSQL_URL_VARIABLE) or strata_url(state),
        "airflow_strata": f"http://{account}@127.0.0.1:{state.port('airflow')}/",
        "spark_strata": json.dumps({"conn_type": "spark", **spark}),
    }
    return {name: os.environ.get(connection_variable(name)) or text for name, text in own.items()}


def _spark_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Spark and Python are this environment's; in the containers Spark is a cluster."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{given.get('PATH', os.defpath)}"
    return {**submit_environment(given, REPOSITORY, alone=SPARK_HOST_VARIABLE not in given), "PATH": path}
