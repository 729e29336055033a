"""Decoding on a cluster of one worker and of three: what goes to and from the object store, what the tasks do, and the
seconds of the driver, which must not grow with the workers. Workers that share two cores are no faster than one is.

Run it: `python -m bench workers [MEGABYTES]` (default 400); `scripts/setup.sh tests` has installed the store.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec import Struct

from bench.workloads import WORKLOADS, make
from strata_cdc.config.settings import load_settings
from strata_cdc.files.storage import Folder
from strata_cdc.pipeline import ingest
from strata_cdc.runs.run_folder import DECODED, read_decoded
from strata_cdc.startup.spark import JOBS, short_job, submit_environment
from tests.deploy.test_wheel import build_wheel
from tests.mysql_server import start_server
from tests.s3_server import BUCKET, start_s3
from tests.spark.apart import SLOTS, pack, start_apart
from tests.store_proxy import store_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.runs.specs import PlanReport
    from tests.spark.apart import Apart
    from tests.store_proxy import StoreProxy

WORKERS = (1, 3)
HEAD = f"{'workers':>8}{'tasks':>7}{'read, MB':>10}{'written, MB':>13}{'tasks, s':>10}{'driver, CPU s':>15}{'rows':>12}"


class Tasks(Struct, frozen=True):
    """The tasks of a job, as Spark's log of events has them."""

    count: int
    seconds: float
    """Of all of them together."""


def tasks_of(events: Path) -> Tasks:
    """Those that ended well."""
    lines = [json.loads(line) for path in events.rglob("events_*") for line in path.open()]
    ended = [line for line in lines if line["Event"] == "SparkListenerTaskEnd" and not line["Task Info"]["Failed"]]
    return Tasks(len(ended), sum(line["Task Metrics"]["Executor Run Time"] for line in ended) / 1000)


def decode(cluster: Apart, planned: PlanReport, events: Path) -> float:
    """Decodes a planned run by a driver of its own; returns the driver's CPU seconds."""
    events.mkdir()
    # Every task once: what speculation adds is not the same twice.
    conf = {**cluster.conf, "spark.cores.max": str(len(cluster.workers) * SLOTS), "spark.speculation": "false"}
    conf |= {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    conf["spark.pyspark.driver.python"] = sys.executable
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.master]
    command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command += ["--driver-memory", "700m", "--driver-java-options", short_job(), str(JOBS / "decode_slices.py")]
    environment, before = submit_environment(os.environ, alone=False), _seconds_of_children()
    done = subprocess.run(
        [*command, "--run-url", planned.run_url], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return _seconds_of_children() - before


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def planned_run(folder: Path, store: StoreProxy, variables: dict[str, str], megabytes: int) -> Iterator[PlanReport]:
    """A run whose binlogs lie on the store."""
    with start_server(folder / "mysql") as server:
        make(server, WORKLOADS[0], megabytes)
        (folder / "strata.toml").write_text(
            f'lake = "s3://{BUCKET}/{uuid4().hex}"\nstore = "sqlite:///{folder}/store.db"\n[sources.bench]\n'
            'connection = "x"\nslice_mb = 16\ntables = ["bench_narrow.sbtest"]\n'
        )
        os.environ |= {**variables, "AWS_ENDPOINT_URL": store.endpoint, "TMPDIR": str(folder)}
        os.environ |= {"STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_X": server.url}
        settings = load_settings(os.environ)
        ingest.land("bench", settings=settings)
        ingest.track("bench", settings=settings)
        yield ingest.plan("bench", None, None, settings=settings)


def main(arguments: list[str]) -> None:
    """Prints a line for each number of workers."""
    megabytes = int(arguments[0]) if arguments else 400
    with (
        tempfile.TemporaryDirectory(prefix="strata-workers-") as text,
        start_s3(Path(text) / "s3.log") as variables,
        store_proxy(variables["AWS_ENDPOINT_URL"], Path(text)) as store,
        planned_run(Path(text), store, variables, megabytes) as planned,
    ):
        folder = Path(text)
        (folder / "tree").mkdir()
        archive = pack(build_wheel(folder / "tree"), folder)
        decoded = store.written(".binlog") / 1e6
        print(f"{planned.slices} slices of {decoded:,.0f} MB of binlog\n{HEAD}", flush=True)
        for workers in WORKERS:
            there = {**variables, "AWS_ENDPOINT_URL": store.endpoint}
            with start_apart(folder / f"cluster-{workers}", archive, there, workers) as cluster:
                read, written = store.read(".binlog"), store.written(".parquet")
                seconds = decode(cluster, planned, folder / f"events-{workers}")
            tasks, run = tasks_of(folder / f"events-{workers}"), Folder.open(planned.run_url)
            print(
                f"{workers:>8}{tasks.count:>7}{(store.read('.binlog') - read) / 1e6:>10,.1f}"
                f"{(store.written('.parquet') - written) / 1e6:>13,.1f}{tasks.seconds:>10.1f}{seconds:>15.1f}"
                f"{read_decoded(run).rows:>12,}",
                flush=True,
            )
            run.delete(DECODED)


if __name__ == "__main__":
    main(sys.argv[1:])
