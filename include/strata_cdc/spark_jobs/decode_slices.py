"""Decodes the slices of a planned run, one Spark task a slice: `spark-submit decode_slices.py --run-url URL`.
Not here: planning, decoding and writing (`strata_cdc.pipeline`, `strata_cdc.changes`, `strata_cdc.tables`), the session
(`session.py`).

The last line on stdout is the report as JSON; what was staged is in the run folder."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from typing import TYPE_CHECKING

from strata_cdc.config.engines import Engine, EngineChoice
from strata_cdc.errors import StrataError, Transient
from strata_cdc.pipeline.decode.decode_slice import decode_table_by_table, planned_tasks, store_outcomes
from strata_cdc.runs.in_spark import in_tasks
from strata_cdc.runs.spark_output import KERNELS
from strata_cdc.spark_jobs.lifeline import end_with_task
from strata_cdc.spark_jobs.session import open_session
from strata_cdc.startup.linked import are_linked
from strata_cdc.startup.processor import processor_level
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from strata_cdc.pipeline.decode.decode_slice import DecodeTask, SliceOutcome

REFUSED = 65
"""Exit code if a retry would end the same way; the DAGs know it (`EX_DATAERR` of sysexits.h)."""
UNAVAILABLE = 75
"""Exit code if a retry may succeed (`EX_TEMPFAIL`)."""
PROGRESS_SECONDS = 5.0


def decode_all(tasks: Sequence[DecodeTask], spark: SparkSession, partitions: int) -> list[SliceOutcome]:
    """Decodes slices, each wherever Spark has a free slot; returns the outcome of each, in their order.

    An error that another try cannot fix comes as a value: Spark would try again after an exception, and would pass on
    only its text."""
    outcomes = in_tasks(spark, tasks, _decode, partitions=partitions, tell=_tell(len(tasks)))
    unlinked = sorted({machine for _, machine in outcomes if machine})
    if unlinked:
        sys.stdout.write(f"{KERNELS}for the processors of {', '.join(unlinked)}: Numba compiles them, for a minute\n")
    return [outcome for outcome, _ in outcomes]


def _decode(task: DecodeTask) -> tuple[SliceOutcome, str]:
    """The outcome, and the machine if the linked kernels are not for its processor."""
    return decode_table_by_table(task), "" if are_linked() else f"{platform.node()} ({processor_level()})"


def _tell(tasks: int) -> Callable[[int], None]:
    """Prints every few seconds how many slices are decoded."""
    shown_at = time.monotonic()

    def tell(done: int) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= PROGRESS_SECONDS:
            shown_at = time.monotonic()
            sys.stdout.write(f"decoded {done} of {tasks} slices\n")
            sys.stdout.flush()

    return tell


def main(arguments: list[str]) -> int:
    """Runs the job and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-url", required=True, help="<lake>/runs/<source>/<run>")
    parser.add_argument("--partitions", type=int, help="Spark tasks; by default one a slice")
    parser.add_argument("--because", default="requested", help="why Spark was chosen, for the report")
    given = parser.parse_args(arguments)
    end_with_task()
    run = given.run_url.rstrip("/").rpartition("/")[2]
    try:
        tasks = planned_tasks(given.run_url)
        outcomes = []
        if tasks:
            spark = open_session(f"strata decode {run}")
            try:
                outcomes = decode_all(tasks, spark, given.partitions or len(tasks))
            finally:
                spark.stop()
        for lost in (lost for outcome in outcomes for lost in outcome.failed):
            # The other tables continue; the check withholds these, and the run's last step fails.
            sys.stderr.write(json.dumps(to_plain(lost.error), ensure_ascii=False) + "\n")
        report = store_outcomes(given.run_url, outcomes, EngineChoice(Engine.SPARK, given.because))
    except StrataError as error:
        sys.stderr.write(json.dumps(to_plain(error.facts()), ensure_ascii=False) + "\n")
        return UNAVAILABLE if isinstance(error, Transient) else REFUSED
    sys.stdout.write(json.dumps(to_plain(report)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
