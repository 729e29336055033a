"""What the scheduler meets when it parses the DAGs: nothing heavy, quickly, without touching anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from strata_cdc.airflow.dag_set import NAMES

REPOSITORY = Path(__file__).resolve().parents[2]
PARSE_SECONDS = 1.0
"""Of this process alone, so that a busy machine changes little; of the first file, which loads what all share, too."""
LINES = 80

PARSE = """
import importlib, json, socket, sys, time
import airflow.sdk  # the processor that parses has it loaded, and the provider that all Spark steps are made with
import airflow.providers.apache.spark.operators.spark_submit, airflow.providers.standard.operators.trigger_dagrun

class NoSocket(socket.socket):
    def __init__(self, *arguments, **options):
        raise AssertionError("a socket was opened while a DAG was parsed")

socket.socket = NoSocket
seconds = {}
for name in NAMES:
    began = time.process_time()
    importlib.import_module(f"strata_cdc.airflow.{name}")
    seconds[name] = time.process_time() - began
heavy = {"numpy", "pandas", "pyarrow", "pyspark", "numba", "great_expectations", "deltalake"}
heavy.add("strata_cdc.airflow.lineage_facets")
print(json.dumps({"seconds": seconds, "heavy": sorted(heavy & set(sys.modules))}))
"""


@pytest.fixture(scope="module")
def parsed():
    """All files in one process, in which a table of tests must not have loaded anything."""
    done = subprocess.run(
        [sys.executable, "-c", PARSE.replace("NAMES", repr(NAMES))],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PATH": "", "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'include'}", "HOME": "/nonexistent"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_no_dag_file_loads_anything_heavy(parsed):
    assert parsed["heavy"] == []


def test_each_dag_file_parses_in_less_than_a_second(parsed):
    assert {name: seconds for name, seconds in parsed["seconds"].items() if seconds >= PARSE_SECONDS} == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_dag_file_is_a_table_of_contents(name):
    assert len((REPOSITORY / "include/strata_cdc/airflow" / f"{name}.py").read_text().splitlines()) <= LINES
