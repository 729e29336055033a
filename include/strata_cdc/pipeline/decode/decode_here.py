"""Decoding a planned run in threads of this process: the same staged files as Spark's tasks make.
Not here: decoding a slice (`decode_slice.py`), when this is chosen (`config/engines.py`), Spark (`spark_jobs/`)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import TYPE_CHECKING, Final

from strata_cdc.config.engines import Engine, choose_engine
from strata_cdc.errors import Transient
from strata_cdc.pipeline.decode.decode_slice import decode_table_by_table, planned_tasks, store_outcomes
from strata_cdc.startup.spark import why_no_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strata_cdc.changes.plan import Slice
    from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows
    from strata_cdc.config.engines import EngineChoice, EngineSettings
    from strata_cdc.pipeline.decode.decode_slice import DecodeTask, SliceOutcome
    from strata_cdc.runs.specs import DecodeReport

SLICE_BYTES: Final = 192 << 20
"""Memory of a thread that decodes, whatever its slice: Arrow's batches, row groups, dictionaries."""
BYTES_PER_BYTE: Final = 3
"""Memory for a byte of a slice: the events, which are mapped, and the Parquet files until they are closed."""


class _StoppedError(Transient):
    """Another slice has ended the run."""


def decode_here(
    run_url: str,
    settings: EngineSettings,
    chosen: Callable[[EngineChoice], None] = lambda _: None,
    progress: Callable[[int, int], None] | None = None,
) -> DecodeReport | None:
    """Chooses the engine of a planned run, and decodes its slices unless Spark is to do it.

    Killed at any time, it leaves files that the next call writes again, with the same names and content.

    Args:
        run_url: `<lake>/runs/<source>/<run>`.
        settings: What the engine depends on.
        chosen: Called with the choice, before anything is decoded.
        progress: Called with the number of slices decoded and of all slices.

    Returns:
        The report; None if Spark was chosen.

    Raises:
        LakeUnavailableError: The storage does not answer or is full.
        Usage: The run has no plan.
        DamagedFileError: The plan is not whole.
    """
    tasks = planned_tasks(run_url)
    choice = choose_engine(sum(task.planned_slice.size_bytes for task in tasks), settings, why_no_spark)
    chosen(choice)
    if choice.engine is Engine.SPARK:
        return None
    threads = threads_for(tasks, settings.local_memory_mb << 20)
    return store_outcomes(run_url, _decode_all(tasks, threads, progress), choice)


def threads_for(tasks: Sequence[DecodeTask], memory_bytes: int) -> int:
    """How many threads may decode at once, each one the largest of the slices."""
    largest = max((task.planned_slice.size_bytes for task in tasks), default=0)
    by_memory = memory_bytes // (SLICE_BYTES + BYTES_PER_BYTE * largest)
    return max(1, min(os.cpu_count() or 1, len(tasks), by_memory))


def _decode_all(
    tasks: Sequence[DecodeTask], threads: int, progress: Callable[[int, int], None] | None
) -> list[SliceOutcome]:
    stopped = Event()

    def read(planned_slice: Slice) -> Iterator[ChangeBatch | QuarantinedRows | Hole]:
        for step in tasks[0].read_slice(planned_slice):
            if stopped.is_set():
                raise _StoppedError("decoding was stopped")
            yield step

    # The largest first: the last thread to end has a small one.
    ordered = sorted(tasks, key=lambda task: -task.planned_slice.size_bytes)
    outcomes: list[SliceOutcome] = []
    with ThreadPoolExecutor(threads, thread_name_prefix="decode") as pool:
        try:
            futures = [pool.submit(decode_table_by_table, task, read=read) for task in ordered]
            for future in as_completed(futures):
                outcomes.append(future.result())
                if progress is not None:
                    progress(len(outcomes), len(tasks))
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
    return outcomes
