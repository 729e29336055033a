"""Spark's two jobs without Spark: what they do, slice by slice, for tests of what calls them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strata_cdc.cli import spark_steps
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.runs.run_folder import read_decoded, read_plan, run_folder, write_verdicts
from strata_cdc.runs.specs import DecodeReport
from strata_cdc.runs.verdict import IntervalVerdict, TableVerdict, staged_digest
from strata_cdc.values import to_plain


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`strata run` starts no Spark; says which jobs were run."""
    jobs: list[str] = []

    def run_job(job: str, run_url: str, master: str, arguments: Any = (), progress: Any = None) -> str:
        jobs.append(job)
        if job == spark_steps.DECODE.program:
            tasks = planned_tasks(run_url)
            files = [file for task in tasks for file in decode_slice_to_files(task)]
            decoded = store_decoded(run_url, files)
            report = DecodeReport(run_url, len(tasks), len(decoded.files), decoded.rows, 0)
            return json.dumps(to_plain(report))
        lake, _, source, name = run_url.rsplit("/", 3)
        folder = run_folder(lake, source, name)
        plan, decoded = read_plan(folder), read_decoded(folder)
        verdicts = []
        for interval in plan.intervals:
            files = decoded.publishable(interval.start)
            tables = tuple(TableVerdict(one.name, one.rows, (1,), 1, ()) for one in plan.of_interval(interval))
            digest = staged_digest((str(file.name), file.digest) for file in files)
            verdicts.append(IntervalVerdict(source, interval.start, digest, tables))
        write_verdicts(folder, verdicts)
        return ""

    monkeypatch.setattr(spark_steps, "run_job", run_job)
    return jobs
