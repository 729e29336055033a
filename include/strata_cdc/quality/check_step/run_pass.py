"""The pass over all staged files of a run: in threads of this process, or in Spark's tasks if that is faster.
Not here: the pass over one file (`quality/checks/one_pass.py`), what follows from it
(`quality/checks/pass_engine.py`)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import accumulate
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

from strata_cdc.quality.checks.before_after import split_edges
from strata_cdc.quality.checks.kept_edges import PARTS, FileEdges
from strata_cdc.quality.checks.one_pass import FileResult, PassBuffers, pass_over
from strata_cdc.quality.checks.pass_results import Between, PassResults
from strata_cdc.quality.checks.profile import FileProfile
from strata_cdc.runs.in_spark import in_tasks_and_groups
from strata_cdc.unforeseen import may_pass, what_happened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.quality.check_step.progress import CheckProgress
    from strata_cdc.quality.checks.one_pass import FileTask

SMALL_BYTES = 1 << 30
"""Of staged files together: threads read so much in the time in which Spark and its Python workers start."""

_own = local()
"""Of each thread, and of each of Spark's workers, what it reads into."""


def _pass_over(task: FileTask) -> FileResult:
    if not hasattr(_own, "buffers"):
        _own.buffers = PassBuffers()
    try:
        return pass_over(task, _own.buffers)
    except Exception as error:
        if may_pass(error):
            raise
        return FileResult(FileProfile(task.file.url, error=what_happened(error)), None)


def is_small(sizes: Iterable[int], small_bytes: int) -> bool:
    """Whether threads of one process are enough for files of these sizes (bytes)."""
    return sum(sizes) <= small_bytes


def pass_in_threads(tasks: Sequence[FileTask], progress: CheckProgress) -> PassResults:
    """Reads and judges all files here; Arrow and the kernels let other threads run."""

    def run(task: FileTask) -> tuple[FileTask, FileResult]:
        passed = _pass_over(task)
        progress.advance(1, task.file.rows)
        return task, passed

    # The largest first: the last thread to end has a small one.
    ordered = sorted(tasks, key=lambda task: -task.file.size_bytes)
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="check") as pool:
        # A future that has given its result is kept by nobody: the edges of a large run are too many for memory.
        return PassResults.from_files(
            done.result() for done in as_completed([pool.submit(run, task) for task in ordered])
        )


def pass_in_spark(tasks: Sequence[FileTask], spark: Any, progress: CheckProgress) -> PassResults:
    """The same in Spark's tasks; of the images of files that continue in others, only hashes are shuffled.

    Args:
        spark: A session.
        progress: Receives what is done.
    """
    files: dict[str, FileResult] = {}
    between: dict[str, Between] = {}
    groups = sorted({task.group for task in tasks})
    numbers = {group: at for at, group in enumerate(groups)}
    # Which files are done is not known, so that it is at least this many rows.
    least = list(accumulate(sorted(task.file.rows for task in tasks)))
    done = 0

    def tell(files: int) -> None:
        nonlocal done
        done = files

    numbered = [_NumberedTask(number, numbers[task.group], task) for number, task in enumerate(tasks)]
    with progress.following(lambda: (done, least[done - 1] if done else 0)):
        outcomes = in_tasks_and_groups(spark, numbered, _with_edges, _compared, tell=tell) if tasks else []
    for key, value in outcomes:
        if key < 0:
            files[value.profile.url] = value
        else:
            group = groups[key // PARTS]
            between[group] = between.get(group, Between()).joined(value)
    return PassResults(files, between)


class _NumberedTask(NamedTuple):
    number: int
    group: int
    task: FileTask


def _with_edges(numbered: _NumberedTask) -> Iterator[tuple[int, Any]]:
    """The pass over a file under a negative key, and what is to be compared with other files under those of its
    group."""
    passed = _pass_over(numbered.task)
    yield -1 - numbered.number, FileResult(passed.profile, None, passed.firsts)
    if passed.edges is not None:
        for part, edges in split_edges(passed.edges, PARTS):
            yield numbered.group * PARTS + part, FileEdges(passed.profile.first, numbered.task.file.url, edges)


def _compared(key: int, values: list[Any]) -> Any:
    """A profile as it is; the files of one part of a group's keys compared with each other."""
    return values[0] if key < 0 else Between.from_edges(values)
