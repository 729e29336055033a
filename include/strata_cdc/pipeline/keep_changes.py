"""The upkeep of a source's change tables by its settings: what the DAG, the command line and `strata run` call.
Not here: the work (`housekeep/merge_intervals.py`), mirrors (`keep_mirrors.py`)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from strata_cdc.clock import now_micros
from strata_cdc.errors import StrataError
from strata_cdc.lake.known_lake import known_if_stored
from strata_cdc.pipeline.housekeep.left_uploads import upload_steps
from strata_cdc.pipeline.housekeep.merge_intervals import MergeScope, merge_steps
from strata_cdc.pipeline.housekeep.unneeded_files import unneeded_steps
from strata_cdc.store.database import find_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.config.settings import Settings
    from strata_cdc.pipeline.housekeep.merge_intervals import MergeStep

_LOG: Final = logging.getLogger(__name__)
PAUSE_SECONDS: Final = 30.0
"""From the end of one upkeep to the next one, between the runs of a source that is followed."""
LEAST_SECONDS: Final = 0.5
"""Of an upkeep that has begun, after each run, even if the next run is due."""


def keep_changes(
    source: str, *, settings: Settings, seconds: float | None = None, scope: MergeScope = MergeScope.SHORT
) -> list[MergeStep]:
    """Merges short intervals of the past and their files, and deletes merged files that are old. If it has all the time
    that it wants, it also deletes files that no commit names, and ends uploads that were left.

    Args:
        source: The source's name.
        settings: The settings.
        seconds: After so long, no further step is begun; None: all is done.
        scope: Which intervals are looked at.

    Raises:
        StrataError: The store or the lake does not answer.
    """
    began, done = time.monotonic(), []
    for step in _steps(source, settings, scope):
        done.append(step)
        if seconds is not None and time.monotonic() - began >= seconds:
            break
    if seconds is None:
        configured = known_if_stored(settings.source(source))
        done += unneeded_steps(configured, now=now_micros())
        done += upload_steps(configured, now=now_micros())
    return done


def _steps(source: str, settings: Settings, scope: MergeScope = MergeScope.SHORT) -> Iterator[MergeStep]:
    configured = known_if_stored(settings.source(source))
    engine = find_store(configured.store_url)
    if engine is not None:
        yield from merge_steps(configured, engine, scope=scope)


class ChangesKeeper:
    """The same upkeep, a little between two runs of a source that is followed. An error is logged, and what could not
    be done is tried again later.

    Args:
        source: The source's name.
        settings: The settings.
        pause: Seconds from the end of one upkeep to the next one.
        least: Seconds that it has after each run, whatever is left until the next one.
    """

    def __init__(
        self, source: str, settings: Settings, pause: float = PAUSE_SECONDS, least: float = LEAST_SECONDS
    ) -> None:
        self._source, self._settings, self._pause, self._least = source, settings, pause, least
        self._steps: Iterator[MergeStep] | None = None
        self._next = 0.0

    def keep(self, seconds: float) -> None:
        """Does steps, at least one, until some seconds are over; nothing while it pauses."""
        began, seconds = time.monotonic(), max(seconds, self._least)
        if self._steps is None:
            if began < self._next:
                return
            self._steps = _steps(self._source, self._settings)
        try:
            while self._steps is not None:
                if next(self._steps, None) is None:
                    self._end()
                if time.monotonic() - began >= seconds:
                    return
        except StrataError as error:
            _LOG.warning("short intervals could not be merged: %s", error)
            self._end()

    def _end(self) -> None:
        self._steps, self._next = None, time.monotonic() + self._pause
