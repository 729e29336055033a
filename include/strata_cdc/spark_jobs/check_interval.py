"""Checks what a run has staged: `spark-submit check_interval.py --run-url URL [--checks FOLDER]
[--compare-keys NUMBER|all]`.
Not here: the checks (`strata_cdc.quality`), the session (`session.py`).

A session is opened only if it is used. The last line on stdout is the report as JSON; the verdict is in the run
folder."""

from __future__ import annotations

import argparse
import json
import sys
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.errors import StrataError, Transient
from strata_cdc.quality.check_step.check_interval import Checking, check_interval
from strata_cdc.quality.check_step.compare_earlier import DEFAULT_KEYS
from strata_cdc.quality.check_step.progress import CheckProgress
from strata_cdc.quality.check_step.run_pass import SMALL_BYTES
from strata_cdc.spark_jobs.decode_slices import REFUSED, UNAVAILABLE
from strata_cdc.spark_jobs.lifeline import end_with_task
from strata_cdc.spark_jobs.session import open_session
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: list[str]) -> int:
    """Runs the checks and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-url", required=True, help="<lake>/runs/<source>/<run>")
    parser.add_argument("--checks", help="folder of users' own expectations, one file a table")
    parser.add_argument("--compare-keys", default=str(DEFAULT_KEYS), help="a number, or all")
    parser.add_argument("--small-bytes", type=int, default=SMALL_BYTES, help="above this, Spark's tasks read the files")
    given = parser.parse_args(arguments)
    end_with_task()
    lake, _, source, run = given.run_url.rstrip("/").rsplit("/", 3)

    @cache
    def open_spark() -> SparkSession:
        return open_session(f"strata check {run}")

    checking = replace(Checking.from_settings(given.checks, given.compare_keys), small_bytes=given.small_bytes)
    try:
        report = check_interval(lake, source, run, open_spark, checking, CheckProgress(_write))
        sys.stdout.write(json.dumps(to_plain(report), ensure_ascii=False) + "\n")
        report.raise_if_failed()
    except StrataError as error:
        sys.stderr.write(json.dumps(to_plain(error.facts()), ensure_ascii=False) + "\n")
        return UNAVAILABLE if isinstance(error, Transient) else REFUSED
    finally:
        if open_spark.cache_info().currsize:
            open_spark().stop()
    return 0


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
