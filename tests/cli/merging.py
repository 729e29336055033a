"""A process that merges all intervals of a source that can be merged, again and again, until it is terminated:
`python -m tests.cli.merging SOURCE`.
Not here: what must hold meanwhile (`test_run_follow.py`)."""

from __future__ import annotations

import os
import signal
import sys
from threading import Event

from strata_cdc.clock import now_micros
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import StoreUnavailableError
from strata_cdc.pipeline.housekeep.merge_intervals import IntervalMergeLimits, merge_steps
from strata_cdc.store.database import open_store

HOUR = 3_600_000_000


def main(name: str) -> None:
    """Merges by the clock of an hour later, so that the newest intervals are old enough."""
    ended = Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    source = load_settings(os.environ).source(name)
    engine = open_store(source.store_url)
    limits = IntervalMergeLimits(most=1, age_seconds=0, run_hours=-1_000_000)
    problems: list[str] = []
    while not ended.wait(0.05):
        try:
            steps = list(merge_steps(source, engine, limits=limits, now=lambda: now_micros() + HOUR))
        except StoreUnavailableError:
            continue  # SQLite has one writer at a time
        problems, before = [step.line for step in steps if step.fault], problems
        assert not (problems and before), "the next upkeep must do what this could not"
        if steps:
            print(len(steps), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
