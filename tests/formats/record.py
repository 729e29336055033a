"""Records what a version of Strata stores: `python -m tests.formats.record NAME [CHECKOUT]` writes `golden/NAME`, from
a real MySQL, by the code of a checkout (this one by default). A new number of a stored form needs one.
Not here: what must be read from it (`test_formats.py`)."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.state import REPOSITORY
from tests.mysql_server import start_server

GOLDEN = Path(__file__).with_name("golden")
BEFORE = """
CREATE DATABASE d; USE d;
CREATE TABLE a (id INT PRIMARY KEY, state ENUM('new', 'paid') NOT NULL, note VARCHAR(20));
CREATE TABLE b (id INT PRIMARY KEY, price DECIMAL(8, 2));
INSERT INTO a VALUES (1, 'new', 'first'), (2, 'paid', NULL);
INSERT INTO b VALUES (1, 10.50);
ALTER TABLE a ADD COLUMN channel INT NOT NULL DEFAULT 7 FIRST;
UPDATE a SET note = 'changed' WHERE id = 2;
ALTER TABLE b MODIFY price VARCHAR(20);
INSERT INTO b VALUES (2, 'free');
"""
"""What the first run publishes."""
AFTER = """
ALTER TABLE a MODIFY state ENUM('paid', 'new') NOT NULL;
DELETE FROM a WHERE id = 1;
INSERT INTO b VALUES (3, 'dear');
"""
"""What the second run has planned, and no more."""
RECORDED_IN = Path("/tmp/strata-formats")
"""The folder of every recording: plans and lists of staged files name their lake by its whole path."""


def settings(folder: Path) -> str:
    """One source, with its lake and its store in a folder."""
    source = f'[sources.s]\nconnection = "s"\nstore = "sqlite:///{folder}/store.db"\ntables = ["d.*"]\n'
    return f'lake = "{folder}/lake"\n{source}'


def record(folder: Path, checkout: Path) -> None:
    """Two runs in an empty folder."""
    (folder / "strata.toml").write_text(settings(folder))
    with tempfile.TemporaryDirectory(dir=REPOSITORY / ".strata") as data, start_server(Path(data)) as server:
        environment = {
            **os.environ,
            # What an old checkout needs besides may be in the caller's own.
            "PYTHONPATH": os.pathsep.join([str(checkout / "include"), str(checkout), os.environ.get("PYTHONPATH", "")]),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            # The rows are few, and kernels of another checkout are not linked.
            "NUMBA_DISABLE_JIT": "1",
            "STRATA_SETTINGS": str(folder / "strata.toml"),
            "AIRFLOW_CONN_S": server.url,
        }
        for life, *words in ((BEFORE, "published"), (AFTER,)):
            server.run_sql(life, "d" if life == AFTER else None)
            command = [sys.executable, str(Path(__file__).with_name("one_run.py")), *words]
            subprocess.run(command, cwd=folder, env=environment, check=True)


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("checkout", type=Path, nargs="?", default=REPOSITORY)
    given = parser.parse_args()
    RECORDED_IN.mkdir()
    try:
        record(RECORDED_IN, given.checkout.resolve())
        (RECORDED_IN / "strata.toml").unlink()
        (RECORDED_IN / "lake/landing/s/.lock").unlink(missing_ok=True)
        for docs in RECORDED_IN.glob("lake/runs/s/*/docs"):
            shutil.rmtree(docs)
        shutil.copytree(RECORDED_IN, GOLDEN / given.name)
    finally:
        shutil.rmtree(RECORDED_IN)


if __name__ == "__main__":
    main()
