"""What short commands load: nothing that they do not use."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

HEAVY = ("airflow", "duckdb", "great_expectations", "numba", "pandas", "polars", "pyspark", "sqlglot")
COMMAND = """
import atexit, sys
heavy = sys.argv.pop().split()
atexit.register(lambda: print("\\nloaded:", *(name for name in heavy if name in sys.modules)))
from strata_cdc.cli.main import main
sys.exit(main())
"""
READERS = (
    "stream --from beginning --until landed",
    "sql 'SELECT * FROM shop.t'",
    "row history shop.t 3",
    "row blame shop.t 3",
    "undo --table shop.t --from 2020-01-01T00:00:00Z",
    "views",
    "reconcile",
)
LIVES = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "UPDATE t SET v = 'c' WHERE id = 1; DELETE FROM t WHERE id = 2",
    "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5, DROP COLUMN v; INSERT INTO t VALUES (3, 4)",
    "SELECT 'nothing is new'",
)


def _loaded(folder: Path, server: MysqlServer, command: str, heavy: Sequence[str]) -> list[str]:
    """Which of some packages the command loads."""
    environment = {**os.environ, "STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_X": server.url}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *shlex.split(command), " ".join(heavy)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    _, *loaded = done.stdout.splitlines()[-1].split()
    return loaded


def test_a_command_loads_what_it_uses(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("CREATE DATABASE shop")
    (tmp_path / "strata.toml").write_text(
        'lake = "lake"\nstore = "sqlite:///s.db"\n[sources.shop]\nconnection = "x"\ntables = ["shop.*"]\n'
        'mirrors = ["shop.*"]\n'
    )
    for life in LIVES:
        server.run_sql(life, "shop")
        assert _loaded(tmp_path, server, "run", HEAVY) == []
    loaded = {command: _loaded(tmp_path, server, command, ["pandas"]) for command in READERS}
    assert not any(loaded.values()), loaded


@pytest.mark.parametrize("command", ["--version", "-h"])
def test_help_loads_no_data(server: MysqlServer, tmp_path: Path, command: str) -> None:
    assert _loaded(tmp_path, server, command, ["numpy", "pyarrow", "sqlalchemy", "pymysql"]) == []
