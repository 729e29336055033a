"""What the scheduler meets when it parses the DAG files: exactly these DAGs, quickly, without touching anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DAG_FILES = ("dump_tables", "ingest_binlog", "reconcile_sources", "snapshot_schemas", "watch_schemas")
PARSE_SECONDS = 3.0
"""Of this process alone, so that a busy machine changes little."""
LINES = 80

PARSE = """
import importlib, json, socket, sys, time
import airflow.sdk  # the processor that parses has it loaded
from airflow.sdk.definitions.dag import DAG

class NoSocket(socket.socket):
    def __init__(self, *arguments, **options):
        raise AssertionError("a socket was opened while a DAG was parsed")

socket.socket = NoSocket
began = time.process_time()
module = importlib.import_module("dags.NAME")
took = time.process_time() - began
heavy = {"numpy", "pandas", "pyarrow", "pyspark", "numba", "great_expectations", "deltalake"} & set(sys.modules)
print(json.dumps({"seconds": took, "heavy": sorted(heavy)}))
"""


@pytest.mark.parametrize("name", DAG_FILES)
def test_a_dag_file_parses_quickly_and_loads_nothing_heavy(name):
    done = subprocess.run(
        [sys.executable, "-c", PARSE.replace("NAME", name)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PATH": "", "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'include'}", "HOME": "/nonexistent"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["heavy"] == []
    assert found["seconds"] < PARSE_SECONDS


@pytest.mark.parametrize("name", DAG_FILES)
def test_a_dag_file_is_a_table_of_contents(name):
    assert len((REPOSITORY / "dags" / f"{name}.py").read_text().splitlines()) <= LINES


def test_every_file_is_a_dag_or_ignored():
    ignored = (REPOSITORY / "dags" / ".airflowignore").read_text().split()
    files = {path.name for path in (REPOSITORY / "dags").glob("*.py")}
    assert files == {f"{name}.py" for name in DAG_FILES} | set(ignored)
