"""Decoding one planned slice into staged files: what a Spark task does, and anything else that has a slice.
Not here: planning (`jobs/plan/plan_slices.py`), decoding (`rows/`), writing (`tables/write.py`), Spark
(`spark_jobs/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata.jobs.run.run_folder import Decoded, FailedSlice, read_plan, write_decoded
from strata.rows.decode import ChangeBatch, QuarantinedRows, decode_slice
from strata.rows.plan import Slice
from strata.tables.write import ChangeWriter, StagedFile
from strata.wire.files import open_binlog
from strata.wire.storage import Folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata.errors import StrataError

STAGED = "staged"
"""Folder of a run's staged files, in the run folder."""


def planned_tasks(run_url: str) -> list[dict[str, Any]]:
    """The slices of a run, each with all that a task needs to know, as plain values.

    Raises:
        LakeUnavailableError: The run has no plan.
    """
    folder = Folder.open(run_url)
    return [{**piece, "staging": folder.join(STAGED)} for piece in read_plan(folder).slices]


def decode_slice_to_files(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Decodes one of `planned_tasks`; the same task gives the same files, by name and content.

    Returns:
        `StagedFile`s as plain values.

    Raises:
        CorruptEventError: With file, offset and GTID; nothing of the slice is to be used.
        LakeUnavailableError: The storage does not answer or is full.
    """
    piece = Slice.from_json(task)
    with (
        open_binlog(piece.segment) as binlog,
        ChangeWriter(
            task["staging"], source=piece.source, interval=task["interval_start"], slice_key=piece.key
        ) as writer,
    ):
        for step in decode_slice(piece, binlog):
            if isinstance(step, ChangeBatch):
                writer.write(step)
            elif isinstance(step, QuarantinedRows):
                writer.quarantine(step)
            # A hole is in the plan already: the tracker noted it, whether or not a slice covers it.
        return [file.to_json() for file in writer.close()]


def failed_slice(task: dict[str, Any], error: StrataError) -> FailedSlice:
    """What is kept of a slice that cannot be decoded: none of its tables' rows of the interval can be published."""
    tables = tuple((table["database"], table["table"]) for table in task["tables"])
    return FailedSlice(task["interval_start"], tables, error.to_json())


def store_decoded(run_url: str, files: Iterable[dict[str, Any]], failed: Iterable[FailedSlice] = ()) -> dict[str, int]:
    """Stores what all tasks of a run returned, as `decoded.json`; from here on the run counts as decoded.

    Returns:
        How many files and rows there are, and how many slices could not be decoded.
    """
    staged = tuple(sorted(map(StagedFile.from_json, files), key=lambda file: file.url))
    decoded = Decoded(staged, tuple(failed))
    write_decoded(Folder.open(run_url), decoded)
    return {"files": len(staged), "rows": sum(file.rows for file in staged), "failed_slices": len(decoded.failed)}
