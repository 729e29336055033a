"""The few lines of a task's log: what was requested, what was done, what is next; for a failure the problem, its
location and what to do, after the trace, which is folded.
Not here: the reports (`strata_cdc.pipeline`), what Spark prints (`spark_step.py`)."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from strata_cdc.airflow.older import AirflowFailException
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context

_LOG = logging.getLogger("strata")
_FOLD, _UNFOLD = "::group::", "::endgroup::"
"""What Airflow's page shows as a part that can be opened; groups may be nested."""


def say(line: str) -> None:
    """Logs one line."""
    _LOG.info("%s", line)


@contextmanager
def saying(request: str, following: str = "") -> Iterator[Callable[[str], None]]:
    """Logs the request, what the block reports and how long it took, and what is next.

    Args:
        request: What the task is to do.
        following: What comes after it, if it succeeds.

    Yields:
        A function for the result, called once for each line.
    """
    began = time.monotonic()
    lines: list[str] = []
    say(f"task: {request}")
    try:
        yield lines.append
    except StrataError:
        # Airflow logs the trace next; `show_failure` comes after it.
        say(f"{_FOLD}Trace")
        raise
    for line in lines[:1]:
        say(f"done in {time.monotonic() - began:.1f} s: {line}")
    for line in lines[1:]:
        say(f"  {line}")
    if following:
        say(f"next: {following}")


def show_failure(context: Context) -> None:
    """Ends the log of a task that failed, or is to be tried again, with what a person needs to know."""
    error: Any = context.get("exception")
    if isinstance(error, AirflowFailException) and error.__cause__ is not None:
        error = error.__cause__
    # Two groups are open: Airflow's own, and the trace.
    for _ in range(2):
        say(_UNFOLD)
    if error is None:
        # `airflow dags test` of 3.1 and 3.2 does not pass it; the trace is there.
        return
    # Not every error names its source: the store that does not answer is used by this task's source.
    task = context["ti"]
    called = getattr(task, "rendered_map_index", None)
    for line in failure_lines(error, f"{task.task_id} of {called}" if called else task.task_id):
        _LOG.error("%s", line)


def failure_lines(error: BaseException | str | None, otherwise: str = "") -> Iterator[str]:
    """The problem, its location and what to do, a line each.

    Args:
        error: What was raised.
        otherwise: The location, if the error names none.
    """
    if not isinstance(error, StrataError):
        yield f"problem: {type(error).__name__}: {error}" if isinstance(error, BaseException) else f"problem: {error}"
        return
    facts = error.facts()
    yield f"problem: {facts.message} ({facts.error})"
    facts_of_location = {"source": facts.source, "table": facts.table, "GTID": facts.gtid, "file": facts.file}
    location = [f"{name} {value}" for name, value in facts_of_location.items() if value]
    if facts.offset is not None:
        location.append(f"offset {facts.offset}")
    if location or otherwise:
        yield f"location: {', '.join(location) or otherwise}"
    if facts.remedy:
        yield f"what to do: {facts.remedy}"
