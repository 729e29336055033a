"""Starts and stops everything that Strata needs on one machine: `python -m scripts.fleet` with one of these.

up | down | status     starts all, stops all, shows what runs
env                    settings and connection of the fleet's source, for `eval "$(make env)"`
airflow ...            any of Airflow's commands, on the fleet's Airflow
mysql ...              MySQL's client on the private server
run COMPONENT          becomes one component of Airflow, in the foreground: what a container runs
healthy COMPONENT      exit code 0 if it has reported to Airflow lately: the health check of a container

Not here: what a component is (`services.py`, `mysql.py`, `local_airflow.py`), processes (`processes.py`).
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from scripts import local_airflow, mysql, services
from scripts.airflow_api import AirflowApi
from scripts.processes import Fleet, FleetError, deadline
from scripts.state import FleetState

if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS = 120
STOP_SECONDS = 30
PARSE_SECONDS = 60
DAGS = ("ingest_binlog", "snapshot_schemas")
COMPONENTS = ("mysql", *services.AIRFLOW)


def up(state: FleetState, say: Callable[[str], None]) -> AirflowApi:
    """Starts what does not run yet; does not touch what runs."""
    start_mysql(state, say)
    local_airflow.begin(state, say)
    return local_airflow.wait_until_up(state)


def down(state: FleetState, say: Callable[[str], None], *, airflow_seconds: float = STOP_SECONDS) -> None:
    """Stops every process of the fleet, no matter how it was started or lost.

    Args:
        state: The fleet's state.
        say: Called for each component that is stopped.
        airflow_seconds: How long Airflow's components may take to end by themselves.
    """
    fleet = Fleet(state.folder)

    def stop(name: str) -> None:
        if fleet.members(name):
            say(f"stopping {name}")
            fleet.stop(name, seconds=STOP_SECONDS if name == "mysql" else airflow_seconds)

    # First the components that start tasks and follow servers; afterwards nothing uses MySQL.
    first = ("scheduler", "triggerer")
    with ThreadPoolExecutor(len(COMPONENTS), thread_name_prefix="stop") as pool:
        list(pool.map(stop, first))
        list(pool.map(stop, [name for name in COMPONENTS if name not in first]))


def status(state: FleetState, say: Callable[[str], None]) -> bool:
    """Shows what runs; true if everything does."""
    fleet = Fleet(state.folder)
    running = {name: fleet.running(name) for name in COMPONENTS if name != "mysql" or not _is_lent()}
    for name, process in running.items():
        say(f"{name:14} {'not running' if process is None else f'running, pid {process.pid}'}")
    if running["api-server"]:
        say(f"{'Airflow':14} http://127.0.0.1:{state.port('airflow')}")
    return all(running.values())


def _is_lent() -> bool:
    """True if the user gave a server instead of the private server."""
    return services.MYSQL_URL_VARIABLE in os.environ


def choose_mysql_port(state: FleetState) -> None:
    """Chooses a port for the private server, unless it runs or the user gave another: its last one may be taken."""
    if not _is_lent() and not Fleet(state.folder).running("mysql"):
        state.choose_port("mysql")


def start_mysql(state: FleetState, say: Callable[[str], None]) -> None:
    """Starts the private server, unless it runs or the user gave another.

    Raises:
        FleetError: It did not start, with the end of its log.
    """
    fleet = Fleet(state.folder)
    if _is_lent() or fleet.running("mysql"):
        return
    choose_mysql_port(state)
    say(f"starting {state.flavour} on port {state.port('mysql')}")
    program, accounts = mysql.private_server(state)
    fleet.start(program)
    for _ in deadline(START_SECONDS):
        try:
            mysql.connect(mysql.root_url(state)).close()
        except pymysql.err.OperationalError:
            if fleet.running("mysql") is None:
                raise fleet.failure("mysql", "ended while it was starting") from None
        else:
            accounts.unlink()
            return
    raise fleet.failure("mysql", f"did not answer within {START_SECONDS} s")


def run(component: str, state: FleetState) -> None:
    """Becomes one component; `init` prepares what they need."""
    if component == "init":
        local_airflow.prepare(state, print)
        if "STRATA_MYSQL_ROOT_URL" in os.environ:
            with mysql.connect(os.environ["STRATA_MYSQL_ROOT_URL"]) as connection, connection.cursor() as cursor:
                cursor.execute("SET sql_log_bin = 0")
                for statement in mysql.grants(services.connections(state)["mysql_shop"], host="%"):
                    cursor.execute(statement)
    elif component in services.AIRFLOW:
        services.airflow(component, state).become()
    else:
        raise FleetError(f"there is no component {component}")


def is_healthy(component: str, state: FleetState) -> bool:
    """True when a component of Airflow serves, or has reported lately; when `init` has ended."""
    environment = services.airflow_environment(state)
    if component == "init":
        return (Path(environment["AIRFLOW_HOME"]) / "migrated").exists()
    url = environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"].removesuffix("/execution/")
    name = "metadatabase" if component == "api-server" else component.replace("-", "_")
    health = AirflowApi(url, "", "").health() or {}
    return bool(health.get(name, {}).get("status") == "healthy")


def show_environment(state: FleetState) -> None:
    """Prints what the command line needs, for a shell to read; the password is not shown on a terminal."""
    if sys.stdout.isatty():
        raise FleetError('settings and connection, with its password, are for a shell: eval "$(make env)"')
    settings = services.airflow_environment(state)["STRATA_SETTINGS"]
    print(f"export STRATA_SETTINGS={shlex.quote(settings)}")
    print(f"export AIRFLOW_CONN_MYSQL_SHOP={shlex.quote(services.connections(state)['mysql_shop'])}")


def announce(state: FleetState, api: AirflowApi, say: Callable[[str], None]) -> None:
    """Shows what runs, and at the end the page's address, the user, and what to click first; the password is shown
    once, afterwards only the file that has it."""
    # The first time, its files are still being parsed.
    any(all(map(api.has_dag, DAGS)) for _ in deadline(PARSE_SECONDS))
    paused = api.paused_dags()
    if paused:
        say(f"paused: {' and '.join(paused)}; they run by schedule once their switch on the page Dags is on, or by")
        for dag in paused:
            say(f'  make airflow ARGS="dags unpause --yes {dag}"')
    if not _is_lent():
        say(f"MySQL: 127.0.0.1:{state.port('mysql')}; scripts/mysql_shell.sh opens a client on it")
    say('eval "$(make env)" lets .venv/bin/strata use the same settings; make down stops everything')
    say("")
    say(f"Airflow: {api.url}")
    shown = state.folder / "run" / "password.shown"
    if shown.exists():
        say(f'sign in as {services.ADMIN}; the password is "airflow-admin" in {state.folder / "secrets.json"}')
    else:
        say(f"sign in as {services.ADMIN} with the password {state.secret('airflow-admin')} (shown this once)")
        shown.touch()
    say(f"  1. Schema history: what every table was, and when        {api.url}/plugin/schema-history")
    say(f"  2. a run: Trigger, left empty, does all pending work      {api.url}/dags/ingest_binlog")
    say(f"  3. Assets: the tables, an event for each publication      {api.url}/assets")


def start_all(state: FleetState) -> None:
    """Starts everything, and shows what to do with it."""
    began = time.monotonic()
    api = up(state, _say)
    _say(f"everything is up after {time.monotonic() - began:.0f} s")
    announce(state, api, _say)


def _say(text: str) -> None:
    print(text, flush=True)


def main(arguments: list[str]) -> int:
    """The command line of this module."""
    state = FleetState.from_environment(os.environ)
    commands: dict[str, Callable[..., int | None]] = {
        "up": lambda: start_all(state),
        "down": lambda: down(state, _say),
        "status": lambda: 0 if status(state, _say) else 3,
        "env": lambda: show_environment(state),
        "airflow": lambda command="--help", *rest: services.airflow(command, state, *rest).become(),
        "mysql": lambda *rest: mysql.run_client(state, list(rest)),
        "run": lambda component="": run(component, state),
        "healthy": lambda component: 0 if is_healthy(component, state) else 1,
    }
    if not arguments or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return commands[arguments[0]](*arguments[1:]) or 0
    except FleetError as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
