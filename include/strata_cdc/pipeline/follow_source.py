"""Runs of a source, one after the other, until they are ended.
Not here: one run (`run_source.py`), signals and what is shown (the command line)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import now_micros
from strata_cdc.errors import ErrorFacts, StrataError, Transient

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from strata_cdc.pipeline.run_source import WholeReport


class Round(Struct, frozen=True):
    """The outcome of one of these runs, in numbers."""

    ended_at: int
    """Microseconds UTC."""
    seconds: float
    transactions: int = 0
    """That were landed and tracked."""
    versions: int = 0
    """New schema versions."""
    rows: int = 0
    """Published rows."""
    tables: int = 0
    """Tables of these rows."""
    mirrors: int = 0
    """Commits of mirrors."""
    problem: ErrorFacts | None = None
    """What ended the run, or what it could not publish."""

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do, and nothing is wrong."""
        return not (self.transactions or self.rows or self.mirrors or self.problem)


class FollowPace(Struct, frozen=True):
    """How often a source is run."""

    every: float
    """Seconds from the start of a run to the start of the next one; a run that takes longer is followed at once."""
    longest_pause: float = 60.0
    """Seconds between two tries while something outside of Strata is not available; the first pause is `every`."""


def follow_source(
    run: Callable[[], WholeReport],
    pace: FollowPace,
    ended: Event,
    show: Callable[[Round], None],
    now: Callable[[], int] = now_micros,
) -> None:
    """Runs until `ended` is set; a run that has begun is finished.

    What is withheld (a failed check, a gap, a mirror that is wrong) is shown with each run that finds it, and the other
    tables continue.

    Args:
        run: Does one run.
        pace: How often.
        ended: Set to end it.
        show: Called after each run.
        now: The time, microseconds UTC.

    Raises:
        StrataError: A run has failed, and trying it again cannot help. If only rows were withheld: the error of the
            last run, after the end.
    """
    withheld: StrataError | None = None
    pause = pace.every
    while not ended.is_set():
        began = time.monotonic()
        try:
            report = run()
        except Transient as error:
            show(Round(now(), time.monotonic() - began, problem=error.facts()))
            ended.wait(pause)
            pause = min(2 * pause, max(pace.longest_pause, pace.every))
            continue
        pause = pace.every
        withheld = _what_is_withheld(report)
        show(_round_of(report, withheld, now(), time.monotonic() - began))
        ended.wait(max(0.0, began + pace.every - time.monotonic()))
    if withheld is not None:
        raise withheld


def _what_is_withheld(report: WholeReport) -> StrataError | None:
    try:
        report.raise_if_withheld()
    except StrataError as error:
        return error
    return None


def _round_of(report: WholeReport, withheld: StrataError | None, ended_at: int, seconds: float) -> Round:
    published = [table for run in report.runs for table in run.published.tables if table.rows]
    return Round(
        ended_at,
        seconds,
        report.tracked.transactions,
        report.tracked.versions,
        sum(run.published.rows for run in report.runs),
        len({table.table for table in published}),
        report.mirrors.commits if report.mirrors else 0,
        withheld.facts() if withheld else None,
    )
