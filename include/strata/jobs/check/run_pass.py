"""The pass over all staged files of a run: in threads of this process, or as one stage of Spark where it is worth one.
Not here: the pass over one file (`checks/one_pass.py`), what follows from it (`checks/pass_engine.py`)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from strata.checks.image_chain import broken_between, split_edges
from strata.checks.one_pass import Pass, pass_over
from strata.checks.pass_engine import Between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from strata.checks.one_pass import FileTask
    from strata.jobs.check.progress import CheckProgress

SMALL_BYTES = 1 << 30
"""Of staged files together: threads read so much in the time in which Spark and its Python workers start."""
PARTS = 64
"""Of the keys of a table, by their hash, where Spark compares files with each other."""


class Passed:
    """What the pass has found."""

    def __init__(self) -> None:
        self.passes: dict[str, Pass] = {}
        """By the URL of the file."""
        self.between: dict[str, Between] = {}
        """By group, where Spark has compared its files."""


def is_small(sizes: Iterable[int]) -> bool:
    """Whether threads of one process are enough for files of these sizes (bytes)."""
    return sum(sizes) <= SMALL_BYTES


def pass_in_threads(tasks: Sequence[FileTask], progress: CheckProgress) -> Passed:
    """Reads and judges all files here; Arrow and the kernels let other threads run.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    found = Passed()

    def run(task: FileTask) -> Pass:
        passed = pass_over(task)
        progress.advance(1, task.file.rows)
        return passed

    # The largest first: the last thread to end has a small one.
    ordered = sorted(tasks, key=lambda task: -task.file.size_bytes)
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="check") as pool:
        for task, passed in zip(ordered, pool.map(run, ordered), strict=True):
            found.passes[task.file.url] = passed
    return found


def pass_in_spark(tasks: Sequence[FileTask], context: Any, progress: CheckProgress) -> Passed:
    """The same as one stage of Spark; of the images of files that go on in others, only hashes are shuffled.

    Args:
        tasks: The files.
        context: A SparkContext.
        progress: Is told what is done.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    found = Passed()
    groups = sorted({task.group for task in tasks})
    numbers = {group: at for at, group in enumerate(groups)}
    files, rows = context.accumulator(0), context.accumulator(0)

    def run(task: FileTask) -> Iterator[tuple[int, Any]]:
        passed = pass_over(task)
        files.add(1)
        rows.add(task.file.rows)
        yield -1, Pass(passed.profile, None, passed.firsts)
        if passed.edges is not None:
            for part, edges in split_edges(passed.edges, PARTS):
                yield numbers[task.group] * PARTS + part, (passed.profile.first, task.file.url, edges)

    with progress.following(lambda: (files.value, rows.value)):
        shuffled = context.parallelize(tasks, len(tasks)).flatMap(run).groupByKey(max(1, len(tasks)))
        outcomes = shuffled.flatMap(_compared).collect()
    for key, value in outcomes:
        if key < 0:
            found.passes[value.profile.url] = value
        else:
            group = groups[key // PARTS]
            found.between[group] = found.between.get(group, Between(0, ())).joined(value)
    return found


def _compared(grouped: tuple[int, Any]) -> list[tuple[int, Any]]:
    """Profiles as they are; the files of one part of a group's keys compared with each other."""
    key, values = grouped
    if key < 0:
        return [(key, value) for value in values]
    parts = sorted(values, key=lambda part: part[0])
    found = broken_between([edges for _, _, edges in parts])
    first = [(parts[number][1], at, side) for number, at, side in zip(*(one.tolist() for one in found), strict=True)]
    return [(key, Between.of(first))]


def run_pass(tasks: Sequence[FileTask], open_spark: Callable[[], Any], progress: CheckProgress) -> Passed:
    """Reads and judges all files, wherever that is quicker.

    Args:
        tasks: The files.
        open_spark: Gives a SparkSession; asked only if one is used.
        progress: Is told what is done.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    if is_small(task.file.size_bytes for task in tasks):
        return pass_in_threads(tasks, progress)
    return pass_in_spark(tasks, open_spark().sparkContext, progress)
