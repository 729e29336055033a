"""A cluster whose machines have nothing in common but the network and an object store: the same rows, once, whatever
is killed, and by the connection alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psutil
import pytest

from strata_cdc.airflow.spark_step import CheckStep, DecodeStep
from strata_cdc.airflow.xcom import PlannedRun
from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.config.settings import Settings, load_settings
from strata_cdc.files.storage import Folder
from strata_cdc.mirrors import open as open_mirror
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_here import decode_here
from strata_cdc.quality.check_step.check_interval import check_here
from strata_cdc.runs.run_folder import DECODED, read_decoded, read_verdicts
from strata_cdc.startup.spark import JOBS, submit_environment
from strata_cdc.tables.read import read_changes
from strata_cdc.values import to_plain
from tests.deploy.test_wheel import wheel
from tests.s3_server import BUCKET
from tests.spark.apart import Apart, pack, start_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.runs.specs import PlanReport
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.slow, pytest.mark.soak]
__all__ = ["wheel"]

TRANSACTIONS = 20
INSERTED = TRANSACTIONS * 2000
MADE = """
CREATE DATABASE shop; USE shop; SET SESSION cte_max_recursion_depth = 1000000;
CREATE TABLE items (id INT PRIMARY KEY, label VARCHAR(600));
"""
INSERT = """INSERT INTO items WITH RECURSIVE n (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})
  SELECT i, CONCAT('label ', REPEAT(i, 80)) FROM n;"""
CHANGED = f"""
ALTER TABLE items ADD COLUMN price DECIMAL(8, 2) NOT NULL DEFAULT 1 FIRST;
UPDATE items SET price = id / 100 + 2 WHERE id <= {INSERTED // 3};
ALTER TABLE items RENAME COLUMN label TO name;
DELETE FROM items WHERE id % 3 = 0;
"""
LIFE = MADE + "".join(INSERT.format(first=at * 2000 + 1, last=at * 2000 + 2000) for at in range(TRANSACTIONS)) + CHANGED
ROWS = INSERTED + 2 * (INSERTED // 3)
SECONDS = 600


@pytest.fixture(scope="module")
def settings(
    server: MysqlServer, s3_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """A lake on the object store, and everything landed."""
    folder = tmp_path_factory.mktemp("source")
    server.run_sql(LIFE)
    text = (
        f'lake = "s3://{BUCKET}/{uuid4().hex}"\nstore = "sqlite:///{folder}/store.db"\n[sources.shop]\n'
        'connection = "x"\nslice_mb = 1\ntables = ["shop.*"]\nmirrors = ["shop.*"]\n'
    )
    (folder / "strata.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {**s3_environment, "STRATA_SETTINGS": str(folder / "strata.toml"), "TMPDIR": str(folder),
                            "AIRFLOW_CONN_X": server.url}.items():  # fmt: skip
            patched.setenv(name, value)
        patched.setattr(tempfile, "tempdir", str(folder))
        settings = load_settings(os.environ)
        for step in (ingest.land, ingest.track):
            step("shop", settings=settings)
        yield settings


@pytest.fixture(scope="module")
def planned(settings: Settings) -> PlanReport:
    report = ingest.plan("shop", None, None, settings=settings)
    assert report.slices >= 12
    return report


@pytest.fixture(scope="module")
def here(planned: PlanReport) -> dict[str, str]:
    """What a process without Spark makes of the run."""
    assert decode_here(planned.run_url, EngineSettings(Engine.LOCAL)).rows == ROWS
    check_here(planned.run_url, None, 100)
    return decoded(planned)


@pytest.fixture(scope="module")
def cluster(
    wheel: Path, here: dict[str, str], s3_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Apart]:
    archive = pack(wheel, tmp_path_factory.mktemp("packed"))
    with start_apart(tmp_path_factory.mktemp("cluster"), archive, s3_environment) as cluster:
        yield cluster


def decoded(planned: PlanReport) -> dict[str, str]:
    return {file.url: file.digest for file in read_decoded(Folder.open(planned.run_url)).files}


def forget(planned: PlanReport) -> None:
    Folder.open(planned.run_url).delete(DECODED)


def step(kind: type[Any], planned: PlanReport) -> None:
    """As a task does it, by the connection alone."""
    run = PlannedRun(**{**to_plain_fields(planned), "engine": "spark"})
    kind(task_id="step", planned=to_plain(run)).execute({})


def to_plain_fields(planned: PlanReport) -> dict[str, Any]:
    return {name: getattr(planned, name) for name in planned.__struct_fields__}


def start(cluster: Apart, job: str, *words: str) -> subprocess.Popen[str]:
    """A driver of its own."""
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.master]
    conf = {**cluster.conf, "spark.pyspark.driver.python": sys.executable}
    command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    environment = submit_environment(os.environ, alone=False)
    return subprocess.Popen(
        [*command, "--driver-memory", "700m", str(JOBS / job), *words],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_a_connection_is_all_that_it_takes(
    cluster: Apart, planned: PlanReport, here: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_STRATA", cluster.connection)
    forget(planned)
    seen: set[str] = set()

    def watch() -> None:
        while not over.wait(0.2):
            for worker in cluster.workers:
                for process in worker.python_workers():
                    try:
                        assert Path(process.cwd()).is_relative_to(worker.folder)
                        seen.add(process.cmdline()[0])
                    except psutil.Error:
                        continue

    over = threading.Event()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        step(DecodeStep, planned)
    finally:
        over.set()
        watcher.join()
    assert seen == {"./environment/bin/python"}
    assert decoded(planned) == here
    step(CheckStep, planned)
    assert not [
        failure for verdict in read_verdicts(Folder.open(planned.run_url)).values() for failure in verdict.failures
    ]


def test_a_worker_an_executor_and_a_driver_are_killed(
    cluster: Apart, planned: PlanReport, here: dict[str, str]
) -> None:
    """Two drivers do the same run at once; one of them dies, and so do a machine and an executor of another one."""
    forget(planned)
    lost, left = (start(cluster, "decode_slices.py", "--run-url", planned.run_url) for _ in range(2))
    deadline = time.monotonic() + SECONDS
    while sum(bool(worker.python_workers()) for worker in cluster.workers) < 2:
        assert left.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for child in psutil.Process(lost.pid).children(recursive=True):
        child.kill()
    lost.kill()
    busy = [worker for worker in cluster.workers if worker.executors()]
    busy[0].executors()[0].kill()
    if left.poll() is None:
        cluster.workers[-1].kill()
    lost.communicate()
    said, _ = left.communicate(timeout=SECONDS)
    assert left.returncode == 0, said[-4000:]
    assert decoded(planned) == here


def test_what_was_decoded_there_is_published_once(settings: Settings, planned: PlanReport, server: MysqlServer) -> None:
    ingest.publish("shop", planned.run, settings=settings)
    ingest.mirror("shop", settings=settings)
    changes = read_changes(settings.lake, "shop", "shop.items", columns=["_seq", "_row"])
    assert changes.num_rows == ROWS == changes.group_by(["_seq", "_row"]).aggregate([]).num_rows
    rows = open_mirror(settings.lake, "shop", "shop.items").to_arrow()
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*), SUM(id), SUM(price) FROM shop.items")
        assert (rows.num_rows, sum(rows["id"].to_pylist()), sum(rows["price"].to_pylist())) == cursor.fetchone()
