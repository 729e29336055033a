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

from scripts import services
from scripts.processes import Fleet, Program, deadline
from scripts.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 60
JOB_SECONDS = 240


@dataclass
class Cluster:
    """A running cluster."""

    fleet: Fleet
    state: State
    master: str
    workers: list[psutil.Process] = field(default_factory=list)

    def submit(self, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one of `spark_jobs/` on the cluster."""
        return submit(self.master, self.state, job, *arguments)


def submit(master: str, state: State, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs one of `spark_jobs/` on any master, as the DAG's operator does."""
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", master]
    command += ["--conf", "spark.log.level=WARN", "--conf", "spark.driver.host=127.0.0.1", "--driver-memory", "1g"]
    return subprocess.run(
        [*command, str(REPOSITORY / "spark_jobs" / job), *arguments],
        env=services.airflow_environment(state),
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS,
        check=False,
    )


@contextmanager
def start_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster for the time of a `with` block."""
    state = State.from_environment({"STRATA_STATE": str(folder)})
    fleet = Fleet(state.folder)
    state.choose_port("spark")
    ui = state.choose_port("spark-ui")
    names = ["spark-master", *(f"spark-worker-{number}" for number in range(workers))]
    try:
        fleet.start(services.spark("spark-master", state))
        _wait_for(f"http://127.0.0.1:{ui}/json/", '"status" : "ALIVE"', fleet, names[0])
        worker = services.spark("spark-worker", state)
        cluster = Cluster(fleet, state, f"spark://127.0.0.1:{state.port('spark')}")
        for name in names[1:]:
            cluster.workers.append(fleet.start(Program(name, worker.command, worker.environment)))
        _wait_for(f"http://127.0.0.1:{ui}/json/", f'"aliveworkers" : {workers}', fleet, names[-1])
        yield cluster
    finally:
        for name in reversed(names):
            fleet.stop(name, seconds=5)


def _wait_for(url: str, text: str, fleet: Fleet, name: str) -> None:
    for _ in deadline(START_SECONDS):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if text in answer.read().decode():
                    return
        except OSError:
            continue
    raise fleet.failure(name, "did not come up")
