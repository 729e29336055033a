"""`make demo` as a stranger runs it: scheduler, LocalExecutor, Spark, and the proof at its end."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scripts import fleet, local_airflow
from scripts.processes import Fleet
from scripts.state import FleetState
from tests.airflow.pictures import take_pictures
from tests.states import make_state

pytestmark = [pytest.mark.airflow, pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs" / "pictures"
"""With `outlines.json`: what is to be read on each."""
DEMO_SECONDS = 1500


def test_the_demo_proves_itself_and_leaves_nothing_running(tmp_path):
    make_state(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "scripts.demo"],
        cwd=REPOSITORY,
        env={**os.environ, "STRATA_STATE": str(tmp_path), "COLUMNS": "140"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "every table equals the server's" in done.stdout
    assert "419,900" in done.stdout
    assert re.search(r"decoded by local .*: 20 files\ndecoded by spark .*: 20 files\nthe same bytes", done.stdout)
    assert "differs" not in done.stdout
    check_connections(tmp_path)
    check_backfill(tmp_path)
    check_command_line(tmp_path)
    assert not [one for name in fleet.COMPONENTS for one in Fleet(tmp_path).members(name)]


def check_connections(folder):
    """Airflow's page has them, and their passwords are not there to be read."""
    with closing(sqlite3.connect(folder / "airflow" / "airflow.db")) as database:
        found = database.execute("SELECT conn_id, host FROM connection ORDER BY conn_id").fetchall()
    assert found == [("airflow_strata", "127.0.0.1"), ("mysql_shop", "127.0.0.1"), ("spark_strata", "local[2]")]
    secret = FleetState(folder).secret("mysql-strata").encode()
    kept = {path.name for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()}
    assert kept == {"secrets.json"}


def check_backfill(folder):
    span = "--from-date 2026-11-20T10:00 --to-date 2026-11-20T10:10"
    shell(folder, f'make airflow ARGS="backfill create --dag-id ingest_binlog {span}"')
    with closing(sqlite3.connect(folder / "airflow" / "airflow.db")) as database:
        query = "SELECT count(*) FROM dag_run WHERE dag_id = 'ingest_binlog' AND run_type = 'backfill'"
        assert database.execute(query).fetchone()[0] >= 2


def check_command_line(folder):
    """What the demo left is read with its own settings and connection."""
    state = FleetState(folder)
    fleet.start_mysql(state, lambda _: None)
    try:
        said = shell(folder, 'eval "$(make env)" && .venv/bin/strata status')
        check_pictures(state)
    finally:
        fleet.down(state, lambda _: None)
    assert "published" in said


def check_pictures(state):
    """The pictures of docs/ show what the pages say today. `make pictures` keeps these, else they are thrown away."""
    if shutil.which("chromium") is None:
        return
    kept = os.environ.get("STRATA_PICTURES")
    folder = Path(kept) if kept else state.folder
    server = ("api-server",)
    local_airflow.begin(state, lambda _: None, server)
    api = local_airflow.wait_until_up(state, server)
    api.close()
    outlines = take_pictures(api.url, state.secret("airflow-admin"), folder)
    if kept:
        (PICTURES / "outlines.json").write_text(json.dumps(outlines, indent=1) + "\n")
    stored = json.loads((PICTURES / "outlines.json").read_text())
    assert outlines == stored, "docs/pictures is out of date: make pictures"
    assert {path.stem for path in PICTURES.glob("*.webp")} == set(stored)


def shell(folder, command):
    environment = {**os.environ, "STRATA_STATE": str(folder)}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout
