"""A function over a list of values in Spark's tasks, by the DataFrame API alone, which Spark Connect has, too.
Not here: the session (`spark_jobs/session.py`), what the tasks do (`pipeline/decode/`, `quality/check_step/`)."""

from __future__ import annotations

import pickle
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

V = TypeVar("V")
R = TypeVar("R")

LOOK_SECONDS: Final = 1.0
_ROWS: Final = "number INT, value BINARY"
_SCHEMA: Final = pa.schema([pa.field("number", pa.int32()), pa.field("value", pa.binary())])


def in_tasks(
    spark: Any,
    values: Sequence[V],
    run: Callable[[V], R],
    *,
    partitions: int | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> list[R]:
    """Runs a function for each value, wherever Spark has a free slot; returns the results in the order of the values.

    Args:
        spark: The session.
        values: What is pickled, and not empty.
        run: A function of a module that the workers have.
        partitions: The number of tasks; by default one for each value.
        tell: Called with the number of tasks that have ended, every second.
    """
    tasks = partitions or len(values)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, value in _read(batches):
            yield _batch([(number, run(value))])

    with without_pandas_warning(), _following(spark, tasks, tell):
        answers = _spread(spark, values, tasks).mapInArrow(work, _ROWS).toArrow()
    return [value for _, value in sorted(_read(answers.to_batches()), key=lambda row: row[0])]


def in_tasks_and_groups(
    spark: Any,
    values: Sequence[V],
    run: Callable[[V], Iterable[tuple[int, Any]]],
    join: Callable[[int, list[Any]], Any],
    *,
    tell: Callable[[int], None] = lambda _: None,
) -> list[tuple[int, Any]]:
    """Runs a function for each value, in a task each, and another one over all of its results with the same key.

    Args:
        spark: The session.
        values: What is pickled, and not empty.
        run: Gives keys and results.
        join: Gets a key and the results with it, in no order.
        tell: As of `in_tasks`, of the first function's tasks.

    Returns:
        The keys, and what `join` made of each.
    """
    tasks = len(values)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, value in _read(batches):
            yield from (_batch([row]) for row in run(value))

    def joined(key: tuple[Any, ...], group: pa.Table) -> pa.Table:
        number = key[0].as_py()
        return pa.Table.from_batches(
            [_batch([(number, join(number, [value for _, value in _read(group.to_batches())]))])]
        )

    with without_pandas_warning(), _following(spark, tasks, tell):
        keyed = _spread(spark, values, tasks).mapInArrow(work, _ROWS).repartition(tasks, "number")
        answers = keyed.groupBy("number").applyInArrow(joined, _ROWS).toArrow()
    return list(_read(answers.to_batches()))


def _spread(spark: Any, values: Sequence[Any], tasks: int) -> Any:
    """A DataFrame with a row for each value, evenly in this many partitions."""
    rows = pa.Table.from_batches([_batch(enumerate(values))])
    return spark.createDataFrame(rows).repartitionById(tasks, "number")


def _batch(rows: Iterable[tuple[int, Any]]) -> pa.RecordBatch:
    numbers, values = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int32()), pa.array(map(pickle.dumps, values), pa.binary())], schema=_SCHEMA
    )


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    for batch in batches:
        for number, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            yield number, pickle.loads(value)  # noqa: S301  what this job has pickled


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """PySpark 4.3 warns of pandas 3 when it is imported, and later; the functions used here work with pandas 3."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


# Progress ----------------------------------------------------------------------------------------


def is_remote(spark: Any) -> bool:
    """Whether a session is of Spark Connect: it has no context."""
    return ".connect." in type(spark).__module__


@contextmanager
def _following(spark: Any, tasks: int, tell: Callable[[int], None]) -> Iterator[None]:
    """Inside the block, `tell` is called with the number of ended tasks of the stage with this many tasks."""
    done = 0

    def look(stages: Iterable[tuple[int, int]]) -> None:
        nonlocal done
        done = max([done, *(ended for of, ended in stages if of == tasks)])
        tell(done)

    if is_remote(spark):

        def handle(stages: Any, **_: Any) -> None:
            look((stage.num_tasks, stage.num_completed_tasks) for stage in stages or ())

        spark.registerProgressHandler(handle)
        try:
            yield
        finally:
            spark.removeProgressHandler(handle)
        return
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def poll() -> None:
        while not over.wait(LOOK_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            look((stage.numTasks, stage.numCompletedTasks) for stage in stages if stage is not None)

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    try:
        yield
    finally:
        over.set()
        poller.join()
