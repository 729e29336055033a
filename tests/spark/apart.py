"""A standalone Spark cluster whose machines have nothing in common but the network: each worker has its own copy of
Spark, its own folders and no variable of the repository's; what jobs need comes in a packed environment.
Not here: what runs on it (`test_apart.py`)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark

from scripts.ports import free_port
from strata_cdc.startup.spark import QUICK, SHARED_CLASSES, archive_option, short_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 120
SLOTS = 2
"""Of each worker."""
USED = "import pandas, pyarrow.parquet, strata_cdc.pipeline.decode.decode_slice, strata_cdc.quality.check_step.run_pass"
"""Of Python's modules, by tasks."""
UNUSED = (
    "cryptography", "deltalake", "fastapi", "jinja2", "numpy/f2py", "numpy/typing", "pandas/tests", "pyarrow/include",
    "pyarrow/libarrow_flight", "pyarrow/src", "pyarrow/tests", "pydantic", "pygments",
    "rich", "sqlalchemy", "starlette", "uvicorn", "zstandard/_cffi",
)  # fmt: skip
"""Of the packages' files: no task loads them, and they are half of what each driver and executor unpacks."""
CLASSES = "spark.jsa"
"""Each machine's archive of Spark's classes, in its folder: a JVM starts in less of the processor's time with it."""


def pack(wheel: Path, folder: Path) -> Path:
    """An environment as docs/runbook.md makes it, with uv instead of pip."""
    uv = [str(REPOSITORY / "scripts" / "uv.sh"), "-q", "--no-config"]
    packed = folder / "environment"
    subprocess.run([*uv, "venv", "--relocatable", "--python", sys.executable, str(packed)], check=True)
    install = [*uv, "pip", "install", "--python", str(packed / "bin" / "python"), str(wheel), "pandas", "psutil"]
    subprocess.run(install, check=True)
    # pip compiles what it installs, uv does not, and each executor would compile its own copy.
    subprocess.run([str(packed / "bin" / "python"), "-c", USED], check=True)
    # Not compressed, because each driver and each executor unpacks it; a .tar is unpacked by Java, without links.
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=0) as file:
        file.add(packed, ".", filter=lambda member: None if _is_unused(member.name) else member)
    shutil.rmtree(packed)
    return archive


def _is_unused(path: str) -> bool:
    return path.rpartition("/site-packages/")[2].startswith(UNUSED)


@dataclass
class Machine:
    """One of the cluster's."""

    folder: Path
    process: subprocess.Popen[bytes]

    def python_workers(self) -> list[psutil.Process]:
        """The processes that run tasks' Python."""
        found = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if "pyspark.daemon" in " ".join(child.cmdline()):
                        found.append(child)
        return found

    def executors(self) -> list[psutil.Process]:
        """The JVMs of executors."""
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children()
            return [child for child in children if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline())]
        return []

    def kill(self) -> None:
        """With all that it runs, as when a machine is switched off."""
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self.process.kill()
        self.process.wait()


@dataclass
class Apart:
    """The running cluster."""

    master: str
    workers: list[Machine]
    archive: Path
    drivers: Path
    """Where drivers unpack it; a killed one leaves it there."""

    @property
    def conf(self) -> dict[str, str]:
        """What a job needs to be told, whoever submits it."""
        return {
            "spark.archives": f"{self.archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{short_job()} -Djava.io.tmpdir={self.drivers}",
            "spark.cores.max": str(2 * SLOTS),
            "spark.executor.cores": str(SLOTS),
            "spark.executor.memory": "700m",
            # In their own folders, where the worker deletes them: work/APPLICATION/EXECUTOR in the machine's.
            "spark.executor.extraJavaOptions": f"{_with_classes(Path('../../..'))} -Djava.io.tmpdir=.",
            "spark.speculation": "true",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.1",
        }

    @property
    def connection(self) -> str:
        """`AIRFLOW_CONN_SPARK_STRATA`."""
        host, _, port = self.master.rpartition(":")
        extra = {"deploy-mode": "client", "conf": self.conf}
        return json.dumps({"conn_type": "spark", "host": host, "port": int(port), "extra": extra})


@contextmanager
def start_apart(folder: Path, archive: Path, variables: Mapping[str, str], workers: int = 3) -> Iterator[Apart]:
    """The cluster, as long as the block lasts.

    Args:
        folder: An empty one.
        archive: The packed environment.
        variables: What each machine knows of the object store.
        workers: How many.
    """
    port, ui = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    running: list[Machine] = []
    try:
        running.append(_start(folder / "master", {}, "master.Master", "--port", str(port), "--webui-port", str(ui)))
        _wait(ui, '"status" : "ALIVE"')
        machines = [
            _start(folder / f"worker-{number}", variables, "worker.Worker", "--cores", str(SLOTS), "--memory", "2g",
                   "--work-dir", str(folder / f"worker-{number}" / "work"), master)
            for number in range(workers)
        ]  # fmt: skip
        running += machines
        _wait(ui, f'"aliveworkers" : {workers}')
        drivers = folder / "drivers"
        drivers.mkdir()
        yield Apart(master, machines, archive, drivers)
    finally:
        for machine in reversed(running):
            machine.kill()


def _start(folder: Path, variables: Mapping[str, str], kind: str, *words: str) -> Machine:
    home, temporary = folder / "home", folder / "tmp"
    for path in (home, temporary):
        path.mkdir(parents=True)
    spark = folder / "spark"
    # A machine's own files: hard links need no time, and nobody writes to them.
    shutil.copytree(Path(pyspark.__file__).parent, spark, copy_function=os.link)
    if SHARED_CLASSES.exists():
        os.link(SHARED_CLASSES, folder / CLASSES)
    java = Path(str(shutil.which("java"))).parent
    environment = {
        "PATH": f"{java}:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_DIRS": str(temporary),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": _with_classes(folder),
        **variables,
    }
    command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *words]
    with (folder / "log").open("wb") as log:
        return Machine(folder, subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log))


def _with_classes(machine: Path) -> str:
    """Options of a JVM on a machine; one that finds no archive there, or one that does not fit, starts without it."""
    return f"{QUICK} {archive_option('SharedArchiveFile', machine / CLASSES)}"


def _wait(port: int, text: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/json/", timeout=5) as answer:
            if text in answer.read().decode():
                return
        time.sleep(0.2)
    raise AssertionError(f"the master does not show {text}")
