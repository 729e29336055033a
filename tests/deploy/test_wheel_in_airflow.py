"""The wheel in somebody's Airflow, beside the versions that Airflow's own constraints name: their DAGs, another set of
Strata's DAGs, and the steps of a source in a DAG of theirs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.mirrors import open as open_mirror
from tests.as_new import make_as_new
from tests.deploy.test_wheel import SETTINGS, wheel

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

__all__ = ["wheel"]

pytestmark = [
    *(pytest.mark.mysql, pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow),
    # Installing a second Airflow is a tenth of all that `make test` costs.
    pytest.mark.soak,
]

REPOSITORY = Path(__file__).resolve().parents[2]
VERSIONS = ("3.1", "3.2")
"""Those of Airflow that the repository's own environment does not have; `airflow_X.txt` names the packages."""
SECONDS = 600
DAGS = {
    # Folders of these names are on the path of many: Strata's wheel has none.
    "plugins/__init__.py": "MINE = True\n",
    "spark_jobs/__init__.py": "MINE = True\n",
    "dags/strata.py": "from strata_cdc.airflow import dags\n\ndags(globals())\n",
    "dags/mine.py": '''"""A DAG of somebody else, and a second set of Strata's."""

from airflow.sdk import dag, task

import plugins
import spark_jobs
from strata_cdc.airflow import dags, ingest, run_form

assert plugins.MINE and spark_jobs.MINE
dags(
    globals(),
    sources=["shop"],
    prefix="fast_",
    schedules={"ingest_binlog": "* * * * *"},
    default_args={"owner": "data", "queue": "mysql"},
    tags=["orders"],
)


@task
def before():
    print("the first task of mine")


@task
def after():
    print("the last task of mine")


@dag(schedule=None, params=run_form())
def mine():
    before() >> ingest("shop") >> after()


mine()
''',
}
SHOW_DAGS = """
import json
try:
    from airflow.dag_processing.dagbag import DagBag
except ModuleNotFoundError:  # 3.1
    from airflow.models.dagbag import DagBag

bag = DagBag(FOLDER)
assert bag.import_errors == {}, bag.import_errors
print(json.dumps({
    name: {
        "file": dag.fileloc,
        "tags": sorted(dag.tags),
        "owners": sorted({task.owner for task in dag.tasks}),
        "timetable": getattr(dag.timetable, "expression", None) or getattr(dag.timetable, "_expression", None),
    }
    for name, dag in bag.dags.items()
}))
"""


class TheirAirflow:
    """An environment, a folder with DAGs, and how Airflow is called there."""

    def __init__(self, folder: Path, url: str) -> None:
        self.home, self._bin = folder / "home", folder / "env" / "bin"
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("STRATA", "AIRFLOW", "PYTHON"))
        } | {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_X": url,
            "AIRFLOW_CONN_SPARK_STRATA": '{"conn_type": "spark", "host": "local[2]"}',
            "STRATA_SETTINGS": str(self.home / "strata.toml"),
            "PYTHONPATH": str(self.home),
        }

    def install(self, wheel: Path, version: str) -> None:
        """The wheel with its extras beside a version of Airflow, and the files of the user."""
        packages = Path(__file__).with_name(f"airflow_{version}.txt")
        uv("venv", "--python", sys.executable, str(self._bin.parent))
        extras = f"strata-cdc[airflow,spark,checks] @ {wheel.as_uri()}"
        uv("pip", "install", "--python", str(self._bin / "python"), "-c", str(packages), extras)
        for name, text in {**DAGS, "strata.toml": SETTINGS}.items():
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(text)

    def have_settings_in_no_file(self) -> None:
        """From now on the settings are a variable's text."""
        path = Path(self._environment.pop("STRATA_SETTINGS"))
        text = SETTINGS.replace('"lake"', f'"{self.home}/lake"').replace("sqlite:///", f"sqlite:///{self.home}/")
        self._environment["STRATA_SETTINGS_TEXT"] = text
        path.unlink()

    def call(self, *words: str, code: int = 0) -> str:
        """One command of the environment, which must exit with this code."""
        done = subprocess.run(
            [str(self._bin / words[0]), *words[1:]],
            cwd=self.home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stdout[-6000:]
        return done.stdout

    def test_dag(self, dag: str, *, state: str = "success", **conf: object) -> str:
        """A run that must end in this state."""
        words = ("airflow", "dags", "test", dag, "--conf", json.dumps(conf))
        said = self.call(*words, code=int(state == "failed"))
        assert f"state={state}" in said.rpartition("DagRun Finished")[2], said[-6000:]
        return said


def uv(*words: str) -> None:
    """By the index that pip is set to; unlike the repository's own environment, as pip would install it."""
    command = [str(REPOSITORY / "scripts" / "uv.sh"), "-q", "--no-config", *words]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_ingest_binlog_runs_in_it(version: str, wheel: Path, server: MysqlServer, tmp_path: Path) -> None:
    make_as_new(server)
    airflow = TheirAirflow(tmp_path, server.url)
    airflow.install(wheel, version)
    airflow.call("airflow", "db", "migrate")

    shown = airflow.call("python", "-W", "ignore", "-c", SHOW_DAGS.replace("FOLDER", repr(str(airflow.home / "dags"))))
    dags = json.loads(shown.strip().splitlines()[-1])
    names = {"dump_tables", "ingest_binlog", "keep_mirrors", "reconcile_sources", "snapshot_schemas", "watch_schemas"}
    assert set(dags) == names | {f"fast_{name}" for name in names} | {"mine"}
    assert {dags[name]["file"] for name in names} == {str(airflow.home / "dags" / "strata.py")}
    fast = dags["fast_ingest_binlog"]
    assert (fast["owners"], fast["tags"], fast["timetable"]) == (["data"], ["orders", "strata"], "* * * * *")
    assert fast["file"] == str(airflow.home / "dags" / "mine.py")
    plugins = airflow.call("airflow", "plugins", "--output", "json")
    assert {f"strata_{name}" for name in ("schema_history", "data_docs", "form_words", "freshness")} <= set(
        re.findall(r"strata_\w+", plugins)
    )
    assert "strata-cdc" in airflow.call("airflow", "providers", "list")

    server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.items (id INT PRIMARY KEY, v JSON)")
    server.run_sql("INSERT INTO shop.items VALUES (1, '[]'), (2, NULL); ALTER TABLE shop.items ADD n DECIMAL(8, 2)")
    # From before the binlog: neither the task that refuses it nor those after it are tried again.
    said = airflow.test_dag("ingest_binlog", state="failed", start="2019-01-01T00:00:00Z", end="2019-01-02T00:00:00Z")
    assert "new_state=failed" in said
    assert "up_for_retry" not in said
    airflow.test_dag("ingest_binlog")
    server.run_sql("UPDATE shop.items SET n = id; DELETE FROM shop.items WHERE id = 2")
    said = airflow.test_dag("fast_ingest_binlog", engine="spark")
    assert "Spark's output is in" in said
    server.run_sql("INSERT INTO shop.items VALUES (3, '{}', 3)")
    airflow.have_settings_in_no_file()
    said = airflow.test_dag("mine")
    assert "the last task of mine" in said
    rows = open_mirror(str(airflow.home / "lake"), "shop", "shop.items").to_arrow().sort_by("id").to_pydict()
    assert rows["id"] == [1, 3]
    assert [str(value) for value in rows["n"]] == ["1.00", "3.00"]
    shutil.rmtree(tmp_path / "env")  # 1.6 GB
