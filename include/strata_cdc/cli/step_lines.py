"""What `strata run` shows while it works: a line for each step, and in a terminal the progress of the current one.
Not here: the steps (`pipeline/`), the report at the end (`run.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from strata_cdc.cli.terminal import Terminal
from strata_cdc.counted import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.landing.land_state import LandProgress

_WIDTH = 9
"""Of the longest name of a step."""
_LINE_SECONDS = 10.0
"""Without a terminal, the interval between two lines of progress of a step that takes long."""


_TELLING_SECONDS = 5.0
"""A step that has worked for so long has a rate."""
_UNITS = ((3600, "hour"), (60, "minute"), (1, "second"))


class StepLines:
    """Shows steps; a `with` block clears the bar of the last one."""

    def __init__(self, *, shown: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins with nothing.

        Args:
            shown: Whether anything is; a program that reads JSON wants no lines.
            clock: Seconds.
        """
        self._console = Terminal(highlight=False, quiet=not shown)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._bar = Progress(
            *columns, console=self._console, transient=True, disable=not (shown and self._console.is_terminal)
        )
        self._step = ""
        self._task = self._bar.add_task("", visible=False)
        self._clock = clock
        self._began = self._shown_at = clock()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, step: str) -> None:
        """A step begins."""
        self._step, self._shown_at = step, self._clock()
        self._began = self._shown_at
        self._bar.reset(self._task, total=None, description=f"{step:<{_WIDTH}}", visible=True)

    def landed(self, progress: LandProgress) -> None:
        """The landing has come so far."""
        self._so_far(str(progress), progress.transactions, progress.of_transactions)

    def decoded(self, slices: int, of_slices: int) -> None:
        """So many slices are decoded."""
        self._so_far(f"{slices:,} of {counted(of_slices, 'slice')}", slices, of_slices)

    def end(self, step: str, summary: str) -> None:
        """A step is done."""
        self._bar.update(self._task, visible=False)
        self._line(step, summary)

    def _so_far(self, line: str, done: int, of: int) -> None:
        now = self._clock()
        line += time_left(now - self._began, done, of)
        self._bar.update(self._task, description=f"{self._step:<{_WIDTH}} {line}", completed=done, total=of or None)
        if not self._console.is_terminal and now - self._shown_at >= _LINE_SECONDS:
            self._shown_at = now
            self._line(self._step, line)

    def _line(self, step: str, text: str) -> None:
        # A statement in it may have several lines.
        self._console.print(f"{step:<{_WIDTH}} {' '.join(text.splitlines())}", soft_wrap=True)


def time_left(seconds: float, done: int, of: int) -> str:
    """What is left of a step, at the rate so far; empty as long as too little is done to tell.

    Args:
        seconds: Since it began.
        done: So much is done.
        of: Of so much.
    """
    if seconds < _TELLING_SECONDS or not 0 < done < of:
        return ""
    left = seconds * (of - done) / done
    unit, name = next((unit for unit in _UNITS if left >= 2 * unit[0]), _UNITS[-1])
    return f", about {counted(max(1, round(left / unit)), name)} left"
