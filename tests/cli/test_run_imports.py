"""What a run with a few rows loads: nothing that only larger runs, failed checks and queries need."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

HEAVY = ("airflow", "duckdb", "great_expectations", "numba", "pandas", "polars", "pyspark", "sqlglot")
RUN = f"""
import atexit, sys
atexit.register(lambda: print("loaded:", *(name for name in {HEAVY} if name in sys.modules)))
from strata_cdc.cli.main import main
sys.argv = ["strata", "run"]
sys.exit(main())
"""
LIVES = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "UPDATE t SET v = 'c' WHERE id = 1; DELETE FROM t WHERE id = 2",
    "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5, DROP COLUMN v; INSERT INTO t VALUES (3, 4)",
    "SELECT 'nothing is new'",
)


def test_a_run_loads_what_it_uses(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("CREATE DATABASE shop")
    (tmp_path / "strata.toml").write_text(
        'lake = "lake"\nstore = "sqlite:///s.db"\n[sources.shop]\nconnection = "x"\ntables = ["shop.*"]\n'
        'mirrors = ["shop.*"]\n'
    )
    environment = {**os.environ, "STRATA_SETTINGS": str(tmp_path / "strata.toml"), "AIRFLOW_CONN_X": server.url}
    for life in LIVES:
        server.run_sql(life, "shop")
        done = subprocess.run(
            [sys.executable, "-c", RUN], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1].split() == ["loaded:"]
