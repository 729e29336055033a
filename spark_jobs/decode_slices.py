"""Decodes the slices of a planned run, one Spark task a slice: `spark-submit decode_slices.py --run-url URL`.
Not here: planning, decoding and writing (`strata_cdc.pipeline`, `strata_cdc.changes`, `strata_cdc.tables`), the session
(`session.py`).

The last line on stdout is the report as JSON; what was staged is in the run folder."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.lifeline import end_with_task
from spark_jobs.session import open_session
from strata_cdc.errors import StrataError, Transient
from strata_cdc.pipeline.decode.decode_slice import decode_table_by_table, planned_tasks, store_decoded
from strata_cdc.runs.specs import DecodeReport
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark import SparkContext

    from strata_cdc.pipeline.decode.decode_slice import DecodeTask
    from strata_cdc.runs.run_folder import FailedSlice
    from strata_cdc.tables.write import StagedFile

REFUSED = 65
"""Exit code if a retry would end the same way; the DAGs know it (`EX_DATAERR` of sysexits.h)."""
UNAVAILABLE = 75
"""Exit code if a retry may succeed (`EX_TEMPFAIL`)."""
PROGRESS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WorkerOutcome:
    """What a worker returns: the staged files, and the tables that have none because they failed."""

    files: tuple[StagedFile, ...] = ()
    failed: tuple[FailedSlice, ...] = ()


def decode(task: DecodeTask) -> WorkerOutcome:
    """Runs on a worker. An error that another try cannot fix is returned as a value: Spark would try again after an
    exception, and would pass on only its text."""
    files, failed = decode_table_by_table(task)
    return WorkerOutcome(tuple(files), tuple(failed))


def decode_all(tasks: Sequence[DecodeTask], context: SparkContext, partitions: int) -> list[WorkerOutcome]:
    """Decodes slices, each wherever Spark has a free slot; returns the outcome of each, in their order."""
    with _progress(context, len(tasks)):
        outcomes: list[WorkerOutcome] = context.parallelize(tasks, partitions).map(decode).collect()
    return outcomes


@contextmanager
def _progress(context: SparkContext, tasks: int) -> Iterator[None]:
    """Prints every few seconds how many tasks have ended, because the driver itself waits."""
    over = threading.Event()

    def tell() -> None:
        tracker = context.statusTracker()
        while not over.wait(PROGRESS_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            sys.stdout.write(f"decoded {done} of {tasks} slices\n")
            sys.stdout.flush()

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def main(arguments: list[str]) -> int:
    """Runs the job and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-url", required=True, help="<lake>/runs/<source>/<run>")
    parser.add_argument("--partitions", type=int, help="Spark tasks; by default one a slice")
    given = parser.parse_args(arguments)
    end_with_task()
    run = given.run_url.rstrip("/").rpartition("/")[2]
    spark = open_session(f"strata decode {run}")
    try:
        tasks = planned_tasks(given.run_url)
        outcomes = decode_all(tasks, spark.sparkContext, given.partitions or len(tasks)) if tasks else []
        failed = [lost for outcome in outcomes for lost in outcome.failed]
        for lost in failed:
            # The other tables continue; the check withholds these, and the run's last step fails.
            sys.stderr.write(json.dumps(to_plain(lost.error), ensure_ascii=False) + "\n")
        files = [file for outcome in outcomes for file in outcome.files]
        decoded = store_decoded(given.run_url, files, failed)
    except StrataError as error:
        sys.stderr.write(json.dumps(to_plain(error.facts()), ensure_ascii=False) + "\n")
        return UNAVAILABLE if isinstance(error, Transient) else REFUSED
    finally:
        spark.stop()
    aside = decoded.put_aside()
    report = DecodeReport(
        run,
        len(tasks),
        len(decoded.files),
        decoded.rows,
        len(decoded.failed),
        aside.total(),
        tuple(f"{table}: {rows:,}, {why}" for (table, why), rows in aside.most_common()),
    )
    sys.stdout.write(json.dumps(to_plain(report)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
