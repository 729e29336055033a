"""Runs of a source, one after the other, until they are ended.
Not here: one run (`run_source.py`), signals and what is shown (the command line)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.clock import now_micros
from strata_cdc.errors import ChecksFailedError, ErrorFacts, StrataError, Transient

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event

    from strata_cdc.pipeline.run_source import WholeReport

_LONGEST_PAUSE_SECONDS: Final = 60.0


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
    """What ended the run, or what it or a run before it could not publish and waits."""

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do, and nothing is wrong."""
        return not (self.transactions or self.rows or self.mirrors or self.problem)


def follow_source(
    run: Callable[[], WholeReport],
    every: float,
    ended: Event,
    show: Callable[[Round], None],
    keep: Callable[[float], None] = lambda _: None,
) -> None:
    """Runs until `ended` is set; a run that has begun is finished.

    What is withheld (a failed check, a gap, a mirror that is wrong) is the problem of each run until nothing is
    withheld any more; the other tables continue.

    Args:
        run: Does one run.
        every: Seconds from the start of a run to the start of the next one; a run that takes longer is followed at
            once. While something outside of Strata is not available, the pauses become longer.
        ended: Set to end it.
        show: Called after each run.
        keep: Called after each run with the seconds that are left until the next one: does some upkeep.

    Raises:
        StrataError: A run has failed, and trying it again cannot help; or, after the end, rows that these runs have
            withheld still are.
    """
    withheld: StrataError | None = None
    pause = every
    while not ended.is_set():
        began = time.monotonic()
        try:
            report = run()
        except Transient as error:
            show(Round(now_micros(), time.monotonic() - began, problem=error.facts()))
            ended.wait(pause)
            pause = min(2 * pause, max(_LONGEST_PAUSE_SECONDS, every))
            continue
        pause = every
        withheld = _what_is_withheld(report, withheld)
        show(_round_of(report, withheld, now_micros(), time.monotonic() - began))
        keep(max(0.0, began + every - time.monotonic()))
        ended.wait(max(0.0, began + every - time.monotonic()))
    if withheld is not None:
        raise withheld


def _what_is_withheld(report: WholeReport, before: StrataError | None) -> StrataError | None:
    """What a run withholds; else the rows that were withheld before, as long as any wait for a person or for the
    history: they are no part of the runs that follow."""
    try:
        report.raise_if_withheld()
    except StrataError as error:
        return error
    are_left = report.left.failed or report.left.held
    return before if are_left and isinstance(before, ChecksFailedError) else None


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
