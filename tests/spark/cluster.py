"""A real standalone Spark cluster from the pip package, on loopback: one master, some workers.
Not here: what runs on it (the tests beside this file)."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from scripts import services
from scripts.ports import free_port
from scripts.processes import Fleet, Program, deadline
from strata_cdc.startup.spark import JOBS, short_job
from tests.states import make_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from scripts.state import FleetState

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 180
JOB_SECONDS = 600


@dataclass
class Cluster:
    """A running cluster."""

    fleet: Fleet
    state: FleetState
    master: str
    workers: list[psutil.Process] = field(default_factory=list)

    def submit(self, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one of `spark_jobs/` on the cluster."""
        return submit(self.master, self.state, job, *arguments)


def submit(master: str, state: FleetState, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs one of `spark_jobs/` on any master, as the DAG's operator does."""
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", master]
    command += ["--conf", "spark.log.level=WARN", "--conf", "spark.driver.host=127.0.0.1", "--driver-memory", "1g"]
    command += ["--driver-java-options", short_job(), "--conf", f"spark.executor.extraJavaOptions={short_job()}"]
    return subprocess.run(
        [*command, str(JOBS / job), *arguments],
        env=services.airflow_environment(state),
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS,
        check=False,
    )


@contextmanager
def start_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster for the time of a `with` block."""
    state = make_state(folder)
    fleet = Fleet(state.folder)
    port, ui = free_port(), free_port()
    here = {"spark-master": "127.0.0.1", "7077": str(port), "8081": str(ui), "/strata/spark": str(folder / "spark")}
    here["spark://spark-master:7077"] = master = f"spark://127.0.0.1:{port}"
    names = ["spark-master", *(f"spark-worker-{number}" for number in range(workers))]
    try:
        fleet.start(_program("spark-master", "spark-master", here, state))
        _wait_for(f"http://127.0.0.1:{ui}/json/", '"status" : "ALIVE"', fleet, names[0])
        cluster = Cluster(fleet, state, master)
        for name in names[1:]:
            cluster.workers.append(fleet.start(_program(name, "spark-worker", here, state)))
        _wait_for(f"http://127.0.0.1:{ui}/json/", f'"aliveworkers" : {workers}', fleet, names[-1])
        yield cluster
    finally:
        for name in reversed(names):
            fleet.stop(name, seconds=5)


def _program(name: str, service: str, here: dict[str, str], state: FleetState) -> Program:
    """One of the containers' commands, on this machine's addresses and folders."""
    given = yaml.safe_load((REPOSITORY / "docker-compose.yaml").read_text())["services"][service]
    # Without tini, which is the container's.
    words = [here.get(word, word) for word in (*given["entrypoint"][2:], *given["command"])]
    environment = services.airflow_environment(state) | {"SPARK_DAEMON_JAVA_OPTS": short_job()}
    return Program(name, [str(Path(sys.executable).with_name(words[0])), *words[1:]], environment)


def _wait_for(url: str, text: str, fleet: Fleet, name: str) -> None:
    for _ in deadline(START_SECONDS):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if text in answer.read().decode():
                    return
        except OSError:
            continue
    raise fleet.failure(name, "did not come up")
