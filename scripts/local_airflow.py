"""Airflow of the local fleet: its database, its components, its set-up once it answers.
Not here: the commands and the environment of its components (`services.py`), its REST calls (`airflow_api.py`)."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sqlite3
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from scripts import services
from scripts.airflow_api import AirflowApi
from scripts.processes import Fleet, deadline
from scripts.state import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scripts.state import FleetState

START_SECONDS = 120


def begin(state: FleetState, say: Callable[[str], None], components: Sequence[str] = services.AIRFLOW) -> None:
    """Prepares the database and starts the components that do not run; they need some more seconds."""
    fleet = Fleet(state.folder)
    if fleet.running("api-server") is None:
        state.choose_port("airflow")
    prepare(state, say)
    for component in components:
        if fleet.running(component) is None:
            say(f"starting Airflow's {component}")
            fleet.start(services.airflow(component, state))


def prepare(state: FleetState, say: Callable[[str], None]) -> None:
    """Migrates the database to this version, and writes passwords where Airflow looks for them."""
    environment = services.airflow_environment(state)
    home = Path(environment["AIRFLOW_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    passwords = {
        services.ADMIN: environment.get("AIRFLOW_ADMIN_PASSWORD") or state.secret("airflow-admin"),
        services.WATCHER: environment.get("AIRFLOW_WATCHER_PASSWORD") or state.secret("airflow-watcher"),
    }
    file = Path(environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    write_whole(file, json.dumps(passwords), mode=0o600)
    stamp, version = home / "migrated", importlib.metadata.version("apache-airflow")
    url = environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    database = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else None
    if database and database.exists() and stamp.exists() and stamp.read_text() == version:
        return
    if database and not database.exists() and migrated_database().exists():
        shutil.copyfile(migrated_database(), database)
        share(database)
        stamp.write_text(version)
        return
    say("preparing Airflow's database")
    fleet = Fleet(state.folder)
    log = fleet.log("airflow-migrate")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        command = services.airflow("db", state, "migrate").command
        done = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise fleet.failure("airflow-migrate", "failed")
    if database:
        share(database)
    stamp.write_text(version)


def migrated_database() -> Path:
    """The empty database of this version of Airflow that set-up has made: a demo and a first `make up` begin with
    it."""
    return Path(sys.prefix) / f"strata.airflow-{importlib.metadata.version('apache-airflow')}.db"


def share(database: Path) -> None:
    """Readers and the writer do not wait for each other: five processes share this file."""
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def wait_until_up(state: FleetState, components: Sequence[str] = services.AIRFLOW) -> AirflowApi:
    """Waits until every component has reported itself, gives Airflow its connections, and returns a client."""
    fleet = Fleet(state.folder)
    url = f"http://{services.LOOPBACK}:{state.port('airflow')}"
    api = AirflowApi(url, services.ADMIN, state.secret("airflow-admin"))
    health = None
    for _ in deadline(START_SECONDS):
        for component in components:
            if fleet.running(component) is None:
                raise fleet.failure(component, "ended while it was starting")
        health = api.health()
        if health is not None and _all_healthy(health, fleet, components):
            api.put_connections(services.connections(state))
            # The server makes the API for tasks at its first request, which takes seconds.
            api.warm()
            return api
    raise fleet.failure("api-server", f"or another component was not healthy within {START_SECONDS} s: {health}")


def _all_healthy(health: dict[str, dict[str, str | None]], fleet: Fleet, components: Sequence[str]) -> bool:
    """True when each component has reported after its process started: the reports of a killed component stay."""
    for component in components:
        if component == "api-server":
            continue
        name = component.replace("-", "_")
        beat = health.get(name, {}).get(f"latest_{name}_heartbeat")
        process = fleet.running(component)
        if beat is None or process is None:
            return False
        if datetime.fromisoformat(beat).timestamp() < process.create_time():
            return False
    return health["metadatabase"]["status"] == "healthy"
