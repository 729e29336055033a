"""A source, a lake and an Airflow of a test's own, and the DAGs run in them as `airflow dags test` runs them.
Not here: what is tested (the tests beside this file)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts import services
from scripts.local_airflow import migrated_database, share
from strata_cdc.clock import from_micros
from strata_cdc.config.settings import Settings, load_settings
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.read import read_changes
from tests.states import make_state

if TYPE_CHECKING:
    from scripts.state import FleetState
    from tests.mysql_server import MysqlServer

AIRFLOW = str(Path(sys.executable).with_name("airflow"))
DATE = "2026-11-21T03:30:00+00:00"
RUN_SECONDS = 900
PASSWORD = "correct-horse-battery-staple"
"""Of the account that Strata uses: must not be found anywhere afterwards."""


def make_account(server: MysqlServer, name: str = "strata", password: str = PASSWORD) -> str:
    """An account with the documented grants; returns its URL."""
    server.run_sql(
        f"CREATE USER IF NOT EXISTS {name}@localhost IDENTIFIED BY '{password}';"
        f"GRANT SELECT, SHOW VIEW, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {name}@localhost;"
        f"GRANT ALL ON strata.* TO {name}@localhost;"
    )
    return f"mysql://{name}:{password}@127.0.0.1:{server.port}/"


@dataclass
class Pipeline:
    """One state folder with everything that Airflow needs."""

    folder: Path
    url: str
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> FleetState:
        """The state, as `make up` keeps it."""
        return make_state(self.folder)

    @property
    def environment(self) -> dict[str, str]:
        """What Airflow is started with."""
        # By default no api-server runs that could be asked, so that connections come this way.
        spark = {"AIRFLOW_CONN_SPARK_STRATA": services.connections(self.state)["spark_strata"]}
        shop = {"AIRFLOW_CONN_MYSQL_SHOP": self.url}
        return {**services.airflow_environment(self.state), **spark, **shop, **self.variables}

    @property
    def settings(self) -> Settings:
        """The settings as the steps see them."""
        return load_settings(self.environment)

    def prepare(self) -> None:
        """Makes Airflow's database: a copy of the one that set-up has migrated."""
        if not migrated_database().exists():
            self.run("db", "migrate")
            return
        self.state.airflow_home.mkdir(parents=True, exist_ok=True)
        database = self.state.airflow_home / "airflow.db"
        shutil.copyfile(migrated_database(), database)
        share(database)

    def run(self, *command: str) -> str:
        """One `airflow` command; returns what it printed."""
        code, said = self._call(*command)
        assert code == 0, said[-6000:]
        return said

    def test_dag(self, dag: str, conf: dict[str, Any] | None = None) -> str:
        """Runs a DAG by hand in one process; returns what it printed, whether it failed or not."""
        return self._call(*_test_command(dag, conf or {}))[1]

    def _call(self, *command: str) -> tuple[int, str]:
        """Runs an `airflow` command; one that takes too long goes with all that it started."""
        process = subprocess.Popen(
            [AIRFLOW, *command],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                said, _ = process.communicate(timeout=RUN_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            return process.returncode, said

    def ingest(self, **conf: Any) -> str:
        """A run of `ingest_binlog` that must succeed."""
        said = self.test_dag("ingest_binlog", conf)
        assert "state=success" in said.rsplit("DagRun Finished", 1)[-1], said[-6000:]
        return said

    def kill_ingest_when(self, sign: str, **conf: Any) -> None:
        """Starts a run and kills all of its processes at once when a file that matches `sign` is in the lake."""
        command = [AIRFLOW, *_test_command("ingest_binlog", conf)]
        with (self.folder / "killed.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            deadline = time.monotonic() + RUN_SECONDS
            while not any(self.state.lake.glob(sign)):
                assert process.poll() is None, "the run was over before it could be killed"
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def asset_events(self, uri: str) -> list[dict[str, Any]]:
        """What the events of an asset carry, in the order in which Airflow stored them."""
        query = "SELECT e.extra FROM asset_event e JOIN asset a ON a.id = e.asset_id WHERE a.uri = ? ORDER BY e.id"
        return [json.loads(extra) for extra in self._stored(query, uri)]

    def labels(self, task_id: str) -> list[str]:
        """What the pages call the parts of a mapped task."""
        query = "SELECT rendered_map_index FROM task_instance WHERE task_id = ? ORDER BY map_index"
        return self._stored(query, task_id)

    def _stored(self, query: str, value: str) -> list[Any]:
        with closing(sqlite3.connect(self.state.airflow_home / "airflow.db", timeout=30)) as database:
            return [found for (found,) in database.execute(query, [value])]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The published changes of a table of database `shop`, in stream order, as comparable rows."""
        found = read_changes(self.settings.lake, "shop", TableName("shop", table))
        ordered = found.sort_by([("_seq", "ascending"), ("_row", "ascending")])
        names = sorted(name for name in ordered.column_names if name != "_interval")
        return [tuple(str(row[name]) for name in names) for row in ordered.to_pylist()]

    def runs(self) -> list[tuple[str, str]]:
        """The spans of the runs so far, as the form of `ingest_binlog` takes them."""
        plans = [path.read_text() for path in sorted((self.state.lake / "runs" / "shop").glob("*/plan.json"))]
        found = [json.loads(plan)["intervals"] for plan in plans]
        return [(_as_time(intervals[0]["start"]), _as_time(intervals[-1]["end"])) for intervals in found]

    def published(self) -> list[str]:
        """The Delta logs in the lake."""
        return sorted(str(path) for path in self.state.lake.glob("changes/**/_delta_log/*.json"))


def _test_command(dag: str, conf: dict[str, Any]) -> list[str]:
    """It reads the other DAGs, too, before it runs one: told where that is, it does so once."""
    file = services.REPOSITORY / "dags" / "strata.py"
    where = ("--bundle-name", "dags-folder", "--dagfile-path", str(file))
    return ["dags", "test", *where, dag, "--conf", json.dumps(conf)]


def _as_time(micros: int) -> str:
    return from_micros(micros).isoformat()
