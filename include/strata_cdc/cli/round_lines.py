"""What `strata run --follow` shows: a line for each run that had something to do, and each problem once.
Not here: the runs (`pipeline/follow_source.py`), the steps of one run (`step_lines.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from strata_cdc.cli.terminal import say
from strata_cdc.clock import from_micros
from strata_cdc.counted import counted
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from strata_cdc.errors import ErrorFacts
    from strata_cdc.pipeline.follow_source import Round


class RoundLines:
    """Shows one run after the other."""

    def __init__(self, *, as_json: bool) -> None:
        """Begins with nothing shown.

        Args:
            as_json: Whether a program reads the lines.
        """
        self._as_json = as_json
        self._problem: ErrorFacts | None = None

    def show(self, done: Round) -> None:
        """Shows a run, unless there was nothing to do, or its problem is the one that was shown last."""
        is_new = done.problem is not None and done.problem != self._problem
        is_over = done.problem is None and self._problem is not None
        self._problem = done.problem
        if self._as_json:
            if is_new or not done.is_idle:
                say(json.dumps(to_plain(done)))
            return
        time = f"{from_micros(done.ended_at):%H:%M:%S}"
        if done.problem is not None and is_new:
            remedy = f" {done.problem.remedy}" if done.problem.remedy else ""
            say(f"{time} {done.problem.message}.{remedy}", err=True)
        if is_over:
            say(f"{time} the problem is over", err=True)
        if done.transactions or done.rows or done.mirrors:
            say(f"{time} {_line(done)}")


def _line(done: Round) -> str:
    parts = [counted(done.transactions, "transaction")]
    if done.versions:
        parts.append(counted(done.versions, "schema version"))
    if done.rows:
        parts.append(f"{counted(done.rows, 'row')} of {counted(done.tables, 'table')} published")
    if done.mirrors:
        parts.append(f"{counted(done.mirrors, 'commit')} of mirrors")
    return f"{', '.join(parts)} in {done.seconds:.1f} s"
