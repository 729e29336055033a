"""The main job on a real MySQL, Airflow and Spark: a shop works, with DDL in the middle, and is read only afterwards.
Not here: what the shop does (`demo/`), starting services (`fleet.py`), printing the outcome (`demo_report.py`)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pymysql
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from demo.shop import chapters, play, remember
from scripts import demo_report, fleet, local_airflow, mysql, services
from scripts.dag_runs import started
from scripts.demo_proof import prove
from scripts.processes import FleetError
from scripts.state import GUEST_DATABASE, FleetState
from strata_cdc.clock import from_micros, now_micros
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from scripts.airflow_api import AirflowApi

SOURCE = "shop"
DAG = "ingest_binlog"
RUN_SECONDS = 1200
COMPONENTS = ("api-server", "scheduler", "dag-processor")
"""Components of Airflow that the demo needs: not the triggerer, which follows servers (`watch_schemas`)."""
OWN_DATABASE = "shop"
"""The shop's database on the private server."""


def start_afresh(state: FleetState, console: Console) -> None:
    """Deletes what a former demo left: its server, its lake and its runs. Nothing else is touched.

    Raises:
        FleetError: The settings were edited, so the state is no longer only the demo's.
    """
    lent = services.MYSQL_URL_VARIABLE in os.environ
    if state.settings_file.read_text() not in {state.default_settings(guest=guest) for guest in (True, False)}:
        raise FleetError(
            f"{state.settings_file} has been edited, so the lake may hold more than the demo's tables: "
            "`make clean` removes them, or name another folder in STRATA_STATE"
        )
    former = [
        path for name in ("server", "server-mariadb", "lake", "airflow") if (path := state.folder / name).exists()
    ]
    if former:
        console.print(
            "a former demo's server, lake and runs are removed: this demo starts from the beginning", style="dim"
        )
    fleet.down(state, lambda _: None)
    for path in former:
        shutil.rmtree(path)
    state.guest_store.unlink(missing_ok=True)
    state.write_settings(guest=lent)


def make_database(url: str, database: str, console: Console) -> None:
    """Makes the shop's database; an existing one on a lent server is dropped only if the user agrees.

    Raises:
        FleetError: The user did not.
    """
    with mysql.connect(url) as connection, connection.cursor() as cursor:
        if cursor.execute("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", [database]):
            agreed = sys.stdin.isatty() and console.input(f"drop database {database} on that server? [y/N] ") == "y"
            if not agreed:
                raise FleetError(
                    f"database {database} exists on that server, and nobody is here to agree to drop it: "
                    f"`DROP DATABASE {database}` there, or run `make demo` at a terminal"
                )
            cursor.execute(f"DROP DATABASE {database}")
        cursor.execute(f"CREATE DATABASE {database}")


def live(url: str, database: str, console: Console) -> dict[str, list[dict[str, Any]]]:
    """Runs the whole shop, and returns its first rows as they were before any DDL."""
    early: dict[str, list[dict[str, Any]]] = {}
    story = chapters()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
    )
    with mysql.connect(url, database) as connection, Progress(*columns, console=console) as progress:
        total = 0
        bar = progress.add_task("", total=sum(len(chapter.statements) for chapter in story), rows=0)
        for chapter in story:
            progress.update(bar, description=chapter.title)
            before = total
            for changed in play(chapter, connection):
                total += changed
                progress.update(bar, advance=1, rows=total)
            progress.console.print(f"  [green]✓[/green] {chapter.title} [dim]{total - before:,} rows[/dim]")
            early = early or remember(connection)
    return early


def start_airflow(state: FleetState) -> AirflowApi:
    """Starts what the demo needs of Airflow, and waits until it is ready for a first task."""
    local_airflow.begin(state, lambda _: None, COMPONENTS)
    return local_airflow.wait_until_up(state, COMPONENTS)


def demonstrate(state: FleetState, console: Console) -> bool:
    """The whole demo; true when what was read late equals what the server has."""
    lent = os.environ.get(services.MYSQL_URL_VARIABLE)
    database = GUEST_DATABASE if lent else OWN_DATABASE
    console.rule("1. A shop works, and its tables change meanwhile")
    # Before Airflow gets the connection.
    fleet.choose_mysql_port(state)
    # Both take some seconds, in which the shop can work.
    with ThreadPoolExecutor(1, thread_name_prefix="airflow") as pool:
        starting = pool.submit(start_airflow, state)
        with console.status("starting the server"):
            fleet.start_mysql(state, lambda text: console.print(f"  {text}", style="dim"))
        url = lent or mysql.root_url(state)
        make_database(url, database, console)
        early = live(url, database, console)
        console.rule("2. Only now its binlog is read, by Airflow")
        with console.status("starting Airflow"):
            api = starting.result()
    settings = load_settings(services.airflow_environment(state), services.connections(state).get)
    source = settings.source(SOURCE)
    console.print(f"[bold]{DAG}[/bold]")
    with started(api, DAG, {"source": SOURCE}, console, state.airflow_home / "logs") as run:
        run.follow(RUN_SECONDS, until="publish")
        # What is published can be read by everybody; the steps after it continue meanwhile.
        console.rule("3. What came out")
        demo_report.show_versions(source, database, console)
        demo_report.show_rows(source, database, console)
        equal = demo_report.show_early_rows(source, database, early, console)
        # It waits for the end of the first run; meanwhile the proof is made.
        again = {"source": SOURCE, "end": from_micros(now_micros()).isoformat(), "engine": "spark"}
        with started(api, DAG, again, console, state.airflow_home / "logs") as second:
            console.rule("4. The proof")
            with mysql.connect(url, database) as connection:
                equal &= prove(source, database, connection, console)
            run.follow(RUN_SECONDS)
            console.rule("5. The same rows again, decoded and checked by Spark")
            second.follow(RUN_SECONDS, until="publish")
    return equal & demo_report.show_same_files(source, console)


def main() -> int:
    """Runs the demo; 0 only if the proof holds."""
    console = Console(highlight=False)
    state = FleetState.from_environment(os.environ)
    # The demo starts its runs itself; scheduled ones come with `make up`.
    os.environ[services.SCHEDULES_VARIABLE] = "off"
    # They may name a user's server, and the demo has its own.
    for variable in ("AIRFLOW_CONN_MYSQL_SHOP", "STRATA_SETTINGS"):
        os.environ.pop(variable, None)
    began = time.monotonic()
    # So that nothing is left running when the demo is ended by a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        start_afresh(state, console)
        equal = demonstrate(state, console)
    except (FleetError, StrataError, pymysql.err.MySQLError) as error:
        console.print("[red]the demo failed:[/red]")
        # Arguments of PyMySQL's errors are pairs of a number and a text.
        console.print(
            str(error.args[-1] if isinstance(error, pymysql.err.MySQLError) else error), markup=False, soft_wrap=True
        )
        return 1
    finally:
        with console.status("stopping everything"):
            # No run is active, or somebody wants to end at once: Airflow needs seconds to end by itself.
            fleet.down(state, lambda _: None, airflow_seconds=0)
    if not equal:
        console.print("[red]what was decoded differs from what the server has[/red]")
        return 1
    console.print(
        f"\n[green]every table equals the server's[/green], after {time.monotonic() - began:.0f} s. "
        "`make up` shows these runs in Airflow."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
