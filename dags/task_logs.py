"""What a task's log says in a few lines: what was asked, what was done, what is next; of a failure the problem, the
place and the command, behind its trace, which is folded.
Not here: the reports (`strata_cdc.pipeline`), what Spark prints (`spark_step.py`)."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context

_LOG = logging.getLogger("strata")
_FOLD, _UNFOLD = "::group::", "::endgroup::"
"""What Airflow's page shows as something to open; one may be in another."""


def say(line: str) -> None:
    """One line."""
    _LOG.info("%s", line)


@contextmanager
def saying(asked: str, following: str = "") -> Iterator[Callable[[str], None]]:
    """Says what was asked, what the block tells of it and in how long, and what is next.

    Args:
        asked: What the task is to do.
        following: What comes after it, if it succeeds.

    Yields:
        Takes what was done, in a line or more.
    """
    began = time.monotonic()
    lines: list[str] = []
    say(f"asked: {asked}")
    try:
        yield lines.append
    except StrataError:
        # Airflow logs the trace next; `show_failure` comes behind it.
        say(f"{_FOLD}Trace")
        raise
    for line in lines[:1]:
        say(f"done in {time.monotonic() - began:.1f} s: {line}")
    for line in lines[1:]:
        say(f"  {line}")
    if following:
        say(f"next: {following}")


def show_failure(context: Context) -> None:
    """Ends the log of a task that failed, or is to be tried again, with what somebody has to know."""
    error: Any = context.get("exception")
    # Airflow's own group is open, and the one of the trace.
    for _ in range(2):
        say(_UNFOLD)
    # Not every error knows whose it is: a store that does not answer is that of some source.
    task = context["ti"]
    called = getattr(task, "rendered_map_index", None)
    for line in failure_lines(error, f"{task.task_id} of {called}" if called else task.task_id):
        _LOG.error("%s", line)


def failure_lines(error: BaseException | str | None, otherwise: str = "") -> Iterator[str]:
    """The problem, the place and what to run, a line each.

    Args:
        error: What was raised.
        otherwise: The place, where the error names none.
    """
    if not isinstance(error, StrataError):
        yield f"problem: {type(error).__name__}: {error}" if isinstance(error, BaseException) else f"problem: {error}"
        return
    facts = error.facts()
    yield f"problem: {facts.message} ({facts.error})"
    found = {"source": facts.source, "table": facts.table, "GTID": facts.gtid, "file": facts.file}
    place = [f"{name} {value}" for name, value in found.items() if value]
    if facts.offset is not None:
        place.append(f"offset {facts.offset}")
    if place or otherwise:
        yield f"place: {', '.join(place) or otherwise}"
    if facts.remedy:
        yield f"what to do: {facts.remedy}"
