"""Starts and stops everything that Strata needs on one machine: `python -m scripts.fleet up|down|status|run NAME`.
Not here: what a component is (`services.py`), processes and pid files (`processes.py`)."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from scripts import services
from scripts.airflow_api import AirflowApi
from scripts.processes import Fleet, FleetError, deadline
from scripts.state import State
from strata.wire.connection import ServerAddress, open_connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.processes import Program

START_SECONDS = 120
STOP_SECONDS = 30
ACCESS_DENIED = 1045


def up(state: State, say: Callable[[str], None]) -> AirflowApi:
    """Brings up what is not up yet; does nothing to what is."""
    start_mysql(state, say)
    begin_airflow(state, say)
    return await_airflow(state, say)


def down(state: State, say: Callable[[str], None]) -> None:
    """Stops every process of the fleet, whichever way it was started or lost."""
    fleet = Fleet(state.folder)
    # The scheduler first, so that no task is started meanwhile; MySQL last, tasks use it.
    for name in ("scheduler", "triggerer", "dag-processor", "api-server", "mysql"):
        if fleet.running(name) or fleet.members(name):
            say(f"stopping {name}")
        fleet.stop(name, seconds=STOP_SECONDS)


def status(state: State, say: Callable[[str], None]) -> bool:
    """Says what runs; true when everything does."""
    fleet = Fleet(state.folder)
    names = services.AIRFLOW if services.MYSQL_URL_VARIABLE in os.environ else ("mysql", *services.AIRFLOW)
    running = {name: fleet.running(name) for name in names}
    for name, process in running.items():
        say(f"{name:14} {'not running' if process is None else f'running, pid {process.pid}'}")
    if running["api-server"]:
        say(f"{'Airflow':14} http://127.0.0.1:{state.port('airflow')}")
    return all(running.values())


def connect(url: str, database: str | None = None) -> pymysql.Connection:
    """A connection to a server that a URL names, with the URL's options, in autocommit mode."""
    return open_connection(replace(ServerAddress.from_url(url), database=database), autocommit=True)


def start_mysql(state: State, say: Callable[[str], None]) -> None:
    """Starts the private server, unless it runs or the user gave another."""
    fleet = Fleet(state.folder)
    if services.MYSQL_URL_VARIABLE in os.environ or fleet.running("mysql"):
        return
    state.choose_port("mysql")
    program = services.mysqld(state)
    data = state.folder / "server" / "data"
    if not data.exists():
        say("making the MySQL server's data directory")
        _initialize(program, data, fleet)
    say(f"starting MySQL on port {state.port('mysql')}")
    fleet.start(program)
    for _ in deadline(START_SECONDS):
        try:
            _secure(state)
        except pymysql.err.OperationalError:
            if fleet.running("mysql") is None:
                raise fleet.failure("mysql", "ended while it was starting") from None
        else:
            return
    raise fleet.failure("mysql", f"did not answer within {START_SECONDS} s")


def _initialize(program: Program, data: Path, fleet: Fleet) -> None:
    """Makes the data directory beside its place first: a half-made one would never start."""
    making = data.with_name("data.making")
    shutil.rmtree(making, ignore_errors=True)
    making.parent.mkdir(parents=True, exist_ok=True)
    options = [option for option in program.command if option.startswith(("--no-defaults", "--user"))]
    log = fleet.log("mysql")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        done = subprocess.run(
            [program.command[0], *options, f"--datadir={making}", "--initialize-insecure"],
            stdout=output,
            stderr=output,
            check=False,
        )
    if done.returncode != 0:
        raise fleet.failure("mysql", "could not make its data directory")
    making.rename(data)


def _secure(state: State) -> None:
    """Gives root, who has no password on a new server, the one of this machine, and makes Strata's account."""
    try:
        connection = connect(services.root_url(state))
    except pymysql.err.OperationalError as error:
        if error.args[0] != ACCESS_DENIED:
            raise
        connection = connect(f"mysql://root@{services.LOOPBACK}:{state.port('mysql')}/")
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("ALTER USER root@localhost IDENTIFIED BY %s", [state.secret("mysql-root")])
    make_account(services.root_url(state), services.strata_url(state), host="localhost")


def make_account(root_url: str, url: str, *, host: str) -> None:
    """Makes the account that a URL of Strata's names, with the grants it needs and no more."""
    address = ServerAddress.from_url(url)
    account = [address.user, host]
    with connect(root_url) as connection, connection.cursor() as cursor:
        # Not in the binlog: accounts are a server's own.
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("CREATE USER IF NOT EXISTS %s@%s", account)
        cursor.execute("ALTER USER %s@%s IDENTIFIED BY %s", [*account, address.password])
        cursor.execute("GRANT SELECT, SHOW VIEW, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO %s@%s", account)
        cursor.execute("GRANT ALL ON strata.* TO %s@%s", account)


def begin_airflow(state: State, say: Callable[[str], None]) -> None:
    """Prepares Airflow's database and starts the components that do not run; they need some seconds more."""
    fleet = Fleet(state.folder)
    if fleet.running("api-server") is None:
        state.choose_port("airflow")
    prepare_airflow(state, say)
    for component in services.AIRFLOW:
        if fleet.running(component) is None:
            say(f"starting Airflow's {component}")
            fleet.start(services.airflow(component, state))


def prepare_airflow(state: State, say: Callable[[str], None]) -> None:
    """Brings Airflow's database to this version, and writes passwords where Airflow looks for them."""
    environment = services.airflow_environment(state)
    passwords = Path(environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    passwords.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(passwords, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(
            {
                services.ADMIN: environment.get("AIRFLOW_ADMIN_PASSWORD") or state.secret("airflow-admin"),
                services.WATCHER: environment.get("AIRFLOW_WATCHER_PASSWORD") or state.secret("airflow-watcher"),
            },
            file,
        )
    stamp = Path(environment["AIRFLOW_HOME"]) / "migrated"
    version = importlib.metadata.version("apache-airflow")
    url = environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    database = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else None
    if database and database.exists() and stamp.exists() and stamp.read_text() == version:
        return
    say("preparing Airflow's database")
    fleet = Fleet(state.folder)
    log = fleet.log("airflow-migrate")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        command = [*services.airflow("db", state).command, "migrate"]
        done = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise fleet.failure("airflow-migrate", "failed")
    if database:
        with sqlite3.connect(database) as connection:
            # Readers and the writer do not wait for each other: five processes share this file.
            connection.execute("PRAGMA journal_mode=WAL")
    stamp.write_text(version)


def await_airflow(state: State, say: Callable[[str], None]) -> AirflowApi:
    """Waits until every component has reported itself, and returns a signed-in client."""
    fleet = Fleet(state.folder)
    api = client(state)
    for _ in deadline(START_SECONDS):
        for component in services.AIRFLOW:
            if fleet.running(component) is None:
                raise fleet.failure(component, "ended while it was starting")
        health = api.health()
        if health is not None and _all_healthy(health, fleet):
            return api
    say(f"what Airflow says of itself: {api.health()}")
    raise fleet.failure("api-server", f"or another component was not healthy within {START_SECONDS} s")


def _all_healthy(health: dict[str, dict[str, str | None]], fleet: Fleet) -> bool:
    """True when each component has reported after its process started: the reports of a killed one outlive it."""
    for component in services.AIRFLOW[1:]:
        name = component.replace("-", "_")
        beat = health.get(name, {}).get(f"latest_{name}_heartbeat")
        process = fleet.running(component)
        if beat is None or process is None:
            return False
        if datetime.fromisoformat(beat).timestamp() < process.create_time():
            return False
    return health["metadatabase"]["status"] == "healthy"


def client(state: State) -> AirflowApi:
    """A client of the fleet's own Airflow."""
    return AirflowApi(f"http://127.0.0.1:{state.port('airflow')}", services.ADMIN, state.secret("airflow-admin"))


def run(component: str, state: State) -> None:
    """Becomes one component, in the foreground: what a container does."""
    if component == "init":
        prepare_airflow(state, print)
        if "STRATA_MYSQL_ROOT_URL" in os.environ:
            url = services.airflow_environment(state)["AIRFLOW_CONN_MYSQL_SHOP"]
            make_account(os.environ["STRATA_MYSQL_ROOT_URL"], url, host="%")
        return
    if component in {"spark-master", "spark-worker"}:
        program = services.spark(component, state)
    elif component in services.AIRFLOW:
        program = services.airflow(component, state)
    else:
        raise FleetError(f"there is no component {component}")
    os.execvpe(program.command[0], list(program.command), dict(program.environment))


def announce(state: State, say: Callable[[str], None]) -> None:
    """Tells where to look; the password is shown once, afterwards only where it is kept."""
    say(f"Airflow: http://127.0.0.1:{state.port('airflow')}")
    shown = state.folder / "run" / "password.shown"
    if shown.exists():
        say(f'sign in as {services.ADMIN}; the password is "airflow-admin" in {state.folder / "secrets.json"}')
    else:
        say(f"sign in as {services.ADMIN} with the password {state.secret('airflow-admin')} (shown this once)")
        shown.touch()
    if services.MYSQL_URL_VARIABLE not in os.environ:
        say(f"MySQL: 127.0.0.1:{state.port('mysql')}; scripts/mysql_shell.sh opens a client on it")
    say("make down stops everything")


def main(arguments: list[str]) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="fleet", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "down", "status"):
        commands.add_parser(name)
    commands.add_parser("run").add_argument("component")
    chosen = parser.parse_args(arguments)
    state = State.from_environment(os.environ)
    began = time.monotonic()

    def say(text: str) -> None:
        print(text, flush=True)

    try:
        if chosen.command == "run":
            run(chosen.component, state)
        elif chosen.command == "up":
            up(state, say)
            say(f"everything is up after {time.monotonic() - began:.0f} s")
            announce(state, say)
        elif chosen.command == "down":
            down(state, say)
        else:
            return 0 if status(state, say) else 3
    except FleetError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
