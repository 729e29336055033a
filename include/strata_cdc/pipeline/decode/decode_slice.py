"""Decoding one planned slice into staged files: what a Spark task does, and anything else that has a slice.
Not here: planning (`pipeline/plan/plan_slices.py`), decoding (`changes/`), writing (`tables/write.py`), Spark
(`spark_jobs/`)."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.binlog_changes import read_slice
from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.errors import CorruptEventError, DamagedFileError
from strata_cdc.files.storage import Folder
from strata_cdc.runs.run_folder import (
    PLAN,
    STAGED,
    DecodedRun,
    FailedSlice,
    lacks_files,
    note_cleared,
    plan_digest,
    read_plan,
    write_decoded,
)
from strata_cdc.runs.run_past import neighbours_of
from strata_cdc.runs.specs import DecodeReport
from strata_cdc.tables.layout import changes_url
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.write import ChangeWriter
from strata_cdc.ticdc.landed_slice import has_rows, read_sink_slice
from strata_cdc.unforeseen import as_strata_error, may_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.changes.plan import Slice
    from strata_cdc.changes.port import Hole, ReadSlice
    from strata_cdc.config.engines import EngineChoice
    from strata_cdc.errors import StrataError
    from strata_cdc.runs.run_plan import PlannedSlice
    from strata_cdc.tables.write import StagedFile


class DecodeTask(Struct, frozen=True):
    """A slice with all that its task needs to know."""

    planned_slice: PlannedSlice
    staging: str
    """Folder of the run's staged files, path or URL."""
    changes: str | None = None
    """Folder of the source's change tables, where files are written that a commit can name."""
    plan: tuple[str, str, int] | None = None
    """Where another process finds the task: the run's URL, the plan's digest, the task's number."""

    def read_slice(self, planned_slice: Slice) -> Iterator[ChangeBatch | QuarantinedRows | Hole]:
        """Reads rows of the slice, as `ReadSlice`: its landed segment holds events of a binlog, or rows of a sink."""
        if has_rows(planned_slice.segment):
            return read_sink_slice(planned_slice)
        return read_slice(planned_slice, near=partial(neighbours_of, self.staging.rpartition("/")[0]))

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickled, it is its number: thousands of tasks have the same definitions."""
        return super().__reduce__() if self.plan is None else (_planned_task, self.plan)


def planned_tasks(run_url: str) -> list[DecodeTask]:
    """The slices of a run.

    Raises:
        LakeUnavailableError: The storage does not answer.
        Usage: The run has no plan.
        DamagedFileError: The plan is not whole.
    """
    folder = Folder.open(run_url)
    plan, digest = read_plan(folder), plan_digest(folder)
    staging, changes = folder.join(STAGED), changes_url(plan.lake, plan.source)
    return [
        DecodeTask(planned_slice, staging, changes, (run_url, digest, number))
        for number, planned_slice in enumerate(plan.slices)
    ]


def _planned_task(run_url: str, digest: str, number: int) -> DecodeTask:
    return _tasks_of(run_url, digest)[number]


@lru_cache(maxsize=1)
def _tasks_of(run_url: str, digest: str) -> list[DecodeTask]:
    """The tasks of a plan, which a process reads once."""
    tasks = planned_tasks(run_url)
    if not tasks or tasks[0].plan != (run_url, digest, 0):
        raise DamagedFileError(
            "the plan was replaced while its slices were decoded",
            file=f"{run_url}/{PLAN}",
            remedy="Decode the run again (task `decode`).",
        )
    return tasks


def decode_slice_to_files(
    task: DecodeTask, limits: FileLimits = FileLimits(), *, read: ReadSlice | None = None
) -> list[StagedFile]:
    """Decodes one of `planned_tasks`; the same task gives the same files, by name and content.

    Args:
        task: The slice.
        limits: How large files become.
        read: Reads the slice's rows instead of the task itself.

    Raises:
        CorruptEventError: With file, offset and GTID; nothing of the slice is to be used.
        LakeUnavailableError: The storage does not answer or is full.
    """
    planned_slice = task.planned_slice
    with ChangeWriter(
        task.staging,
        source=planned_slice.source,
        interval=planned_slice.interval_start,
        slice_key=planned_slice.key,
        limits=limits,
        changes=task.changes,
    ) as writer:
        for step in (read or task.read_slice)(planned_slice):
            if isinstance(step, ChangeBatch):
                writer.write(step)
            elif isinstance(step, QuarantinedRows):
                writer.quarantine(step)
            # A gap of the stream is in the plan already: the tracker stored it, whether or not a slice covers it.
        return list(writer.close())


class SliceOutcome(Struct, frozen=True):
    """The result of decoding a slice."""

    files: tuple[StagedFile, ...] = ()
    failed: tuple[FailedSlice, ...] = ()
    """The tables without files, and why."""


def decode_table_by_table(task: DecodeTask, *, read: ReadSlice | None = None) -> SliceOutcome:
    """As `decode_slice_to_files`; what cannot be decoded as a whole is decoded a table at a time, so that a fault costs
    the rows of its own table alone. One of the slice's events costs all of its tables.

    Raises:
        LakeUnavailableError: The storage does not answer or is full.
    """
    tables = task.planned_slice.tables
    # Of some of its tables, a task is no task of the plan.
    task = replace(task, plan=None)
    try:
        return SliceOutcome(tuple(decode_slice_to_files(task, read=read)))
    except Exception as error:
        if may_pass(error):
            raise
        is_of_events = isinstance(error, CorruptEventError) and error.table is None
        if is_of_events or len(tables) <= 1:
            name = str(tables[0].name) if len(tables) == 1 else None
            return SliceOutcome(failed=(failed_slice(task.planned_slice, as_strata_error(error, name)),))
    parts = [
        decode_table_by_table(replace(task, planned_slice=replace(task.planned_slice, tables=(table,))), read=read)
        for table in tables
    ]
    return SliceOutcome(
        tuple(file for part in parts for file in part.files), tuple(lost for part in parts for lost in part.failed)
    )


def failed_slice(planned_slice: PlannedSlice, error: StrataError) -> FailedSlice:
    """What is kept of a slice that cannot be decoded: none of its tables' rows of the interval can be published."""
    return FailedSlice(
        planned_slice.interval_start,
        tuple((table.database, table.table) for table in planned_slice.tables),
        error.facts(),
    )


def store_decoded(
    run_url: str,
    files: Iterable[StagedFile],
    failed: Iterable[FailedSlice] = (),
    choice: EngineChoice | None = None,
) -> DecodedRun:
    """Stores what all tasks of a run returned, as `decoded.json`; from here on the run counts as decoded."""
    staged = tuple(sorted(files, key=lambda file: file.url))
    folder = Folder.open(run_url)
    decoded = DecodedRun(staged, tuple(failed), plan=plan_digest(folder), engine=choice)
    write_decoded(folder, decoded)
    if lacks_files(folder, decoded):
        # Another process that does the same run has published it meanwhile, and deleted the files.
        note_cleared(folder)
    return decoded


def store_outcomes(run_url: str, outcomes: Sequence[SliceOutcome], choice: EngineChoice | None = None) -> DecodeReport:
    """The same from the outcome of each slice, in any order; returns the report of the step."""
    failed = sorted((lost for outcome in outcomes for lost in outcome.failed), key=lambda lost: lost.tables)
    decoded = store_decoded(run_url, (file for outcome in outcomes for file in outcome.files), failed, choice)
    aside = decoded.put_aside()
    return DecodeReport(
        run_url.rstrip("/").rpartition("/")[2],
        len(outcomes),
        len(decoded.files),
        decoded.rows,
        len(decoded.failed),
        aside.total(),
        tuple(f"{table}: {rows:,}, {why}" for (table, why), rows in aside.most_common()),
        choice,
    )
