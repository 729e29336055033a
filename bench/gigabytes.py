"""Gigabytes of binlog to Parquet, beside the server's own tool: by the command, and by the Spark job, each with its
start.

Run it: `python -m bench gigabytes [MEGABYTES] [ROUNDS]` (defaults 2048 and 3). A server writes a hundred megabytes; the
rest are copies with transactions of other servers.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bench.backlog import PART_MB, write_archive
from bench.decode import PEER
from bench.spark import SOURCE, make_lake, settings_of
from bench.timing import ChildrenCpu, Run, interleaved, print_ratios, quietly
from bench.workloads import WORKLOADS, make
from scripts.mysql import program
from strata_cdc.cli.engine_steps import EngineSteps
from strata_cdc.config.engines import Engine
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.workloads import Workload


def peer(files: Sequence[Path]) -> Run:
    """`mysqlbinlog -v` of all files."""
    return quietly([program("mysqlbinlog"), "--base64-output=DECODE-ROWS", "-v", *files])


def to_parquet(files: Sequence[Path], out: Path) -> Run:
    """`strata decode --format parquet` of all files."""
    shutil.rmtree(out, ignore_errors=True)
    return quietly([Path(sys.executable).with_name("strata"), "decode", *files, "--out", out, "--format", "parquet"])


def spark_job(folder: Path) -> Run:
    """The decode step of a planned run on Spark, from `spark-submit` to its end."""
    run = (folder / "run").read_text().partition(" ")[0]
    with ChildrenCpu() as children:
        begin = time.perf_counter()
        EngineSteps(settings_of(folder).source(SOURCE), Engine.SPARK).decode(run)
        seconds = time.perf_counter() - begin
    return Run(seconds, 0, children.seconds)


def measure(folder: Path, workload: Workload, megabytes: int, rounds: int) -> None:
    """Prints a table for one workload."""
    with start_server(folder / "server") as server:
        written = make(server, workload, PART_MB)
        write_archive(folder / "files", [path for path in server.binlogs() if path.name <= written.name], megabytes)
    files, out = sorted((folder / "files").iterdir()), folder / "out"
    lake = make_lake(folder / "lake", *files)
    runs = {
        PEER: partial(peer, files),
        "strata decode --format parquet": partial(to_parquet, files, out),
        "Spark job, local[*], slices to Parquet": partial(spark_job, lake),
    }
    measured = interleaved(runs, rounds)
    rows = sum(pq.read_metadata(path).num_rows for path in out.rglob("*.parquet"))
    size = sum(path.stat().st_size for path in files) / 1e6
    print_ratios(workload.name, measured, megabytes=size, rows=rows, base=PEER)
    for name, each in measured.items():
        print(f"{name:44}{min(run.cpu_seconds for run in each):9.2f} s CPU, the least of the rounds", flush=True)


def main(arguments: list[str]) -> None:
    """Prints a table a workload."""
    megabytes, rounds = (int(arguments[0]) if arguments else 2048), (int(arguments[1]) if arguments[1:] else 3)
    for workload in WORKLOADS:
        with tempfile.TemporaryDirectory(prefix="strata-gigabytes-") as folder:
            measure(Path(folder), workload, megabytes, rounds)
