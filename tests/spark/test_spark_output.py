"""What becomes of a Spark job's output when it fails."""

from __future__ import annotations

import traceback

from strata_cdc.errors import DamagedFileError, Permanent
from strata_cdc.runs.spark_output import job_failure


def test_the_error_of_a_task_is_found_in_sparks_own_report() -> None:
    raised = "".join(traceback.format_exception_only(DamagedFileError("the file has 3 rows, not 4")))
    output = (
        f"Job aborted due to stage failure: Traceback (most recent call last):\n  File x\n{raised}\n\tat java.lang\n"
    )
    failure = job_failure(1, "", output)
    assert type(failure) is DamagedFileError
    assert failure.message == "the file has 3 rows, not 4"


def test_what_reported_nothing_shows_the_end_of_its_output() -> None:
    failure = job_failure(-9, "", "first\n\nlast\n")
    assert type(failure) is Permanent
    assert failure.message.endswith("signal 9; its last output:\nfirst\nlast")
