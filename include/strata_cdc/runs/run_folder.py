"""The folder of one run: the files that its steps leave for each other, and one reader for each file.
Not here: the decoded rows (`tables/`), the ledgers (`store/`), what the values mean (`specs.py`)."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from strata_cdc.config.engines import EngineChoice  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.errors import DamagedFileError, ErrorFacts, RunClearedError, Usage
from strata_cdc.files.storage import Folder, content_digest, list_files, list_folders
from strata_cdc.files.stored import decode_stored
from strata_cdc.runs.run_name import RunKind, RunName
from strata_cdc.runs.run_plan import RunPlan, decode_plan, encode_plan
from strata_cdc.runs.verdict import IntervalVerdict  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.tables.write import FormerFile, StagedFile  # noqa: TC001  as above

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAN = "plan.json"
STAGED = "staged"
"""Folder of the files that were decoded, below the run folder."""
DECODED = "decoded.json"
VERDICT = "verdict.json"
FORMAT = 4
"""Number of the stored forms of `decoded.json` and `verdict.json`. Every older form can still be opened, except
files whose digests were not stored (`decoded.json` of format 1): it cannot be known whether they are what was decoded.
Format 3 says whether the staged files were cleared. In format 4, the statistics of files are compressed."""


class FailedSlice(Struct, frozen=True):
    """A slice that cannot be decoded, even if it is tried again."""

    interval: int
    """Start of the interval that owns it (microseconds UTC)."""
    tables: tuple[tuple[str, str], ...]
    """Database and table of all rows that it may hold."""
    error: ErrorFacts


class DecodedRun(Struct, frozen=True):
    """The result of decoding a run."""

    files: tuple[StagedFile, ...]
    failed: tuple[FailedSlice, ...] = ()
    cleared: bool = False
    """Whether the files were deleted, or are about to be, because all of the run is published."""
    plan: str = ""
    """`content_digest` of the plan that was decoded; empty in a run of an older version."""
    engine: EngineChoice | None = None
    """What decoded it; None in a run of an older version."""
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    def put_aside(self) -> Counter[tuple[str, str]]:
        """Number of rows that cannot be published, by table and reason."""
        aside = Counter[tuple[str, str]]()
        for file in self.files:
            if not file.is_publishable:
                aside[str(file.name), f"{file.why.message} ({file.why.error})"] += file.rows
        return aside

    def lost(self, interval: int) -> dict[tuple[str, str], ErrorFacts]:
        """The tables (database, table) of an interval that have a slice which cannot be decoded, and why."""
        return {
            name: failed.error
            for failed in reversed(self.failed)
            if failed.interval == interval
            for name in failed.tables
        }

    def publishable(self, interval: int) -> list[StagedFile]:
        """The files of an interval that are to be checked and published: those of tables that were decoded
        completely."""
        lost = self.lost(interval)
        return [
            file
            for file in self.files
            if file.interval == interval and file.is_publishable and (file.database, file.table) not in lost
        ]

    def unreadable(self, interval: int) -> list[StagedFile]:
        """The files of an interval with rows that the decoder itself put into quarantine."""
        return [file for file in self.files if file.interval == interval and not file.is_publishable]


class _FormerDecoded(DecodedRun, frozen=True):
    files: tuple[FormerFile, ...]


class _Verdicts(Struct, frozen=True):
    intervals: tuple[IntervalVerdict, ...]
    format: int = FORMAT


def runs_url(lake: str, source: str) -> str:
    """Where all run folders of a source are."""
    return f"{lake.rstrip('/')}/runs/{source}"


def run_folder(lake: str, source: str, run: str) -> Folder:
    """`<lake>/runs/<source>/<run>`; a run is named by what it does, so the same work has the same folder.

    Raises:
        Usage: The text is a path, and no run has such a name.
    """
    if "/" in run or run in {"", ".", ".."}:
        raise _no_run(lake, source, run)
    return Folder.open(lake).folder(f"runs/{source}/{run}")


def write_plan(folder: Folder, plan: RunPlan) -> None:
    """Stores the plan of a run."""
    folder.write(PLAN, encode_plan(plan))


def read_plan(folder: Folder) -> RunPlan:
    """What `write_plan` stored; a plan without tables, which is never stored, is recognized by its name.

    Raises:
        Usage: There is no such run.
        DamagedFileError: The plan is incomplete.
        LakeUnavailableError: The storage does not answer.
    """
    if not folder.exists(PLAN):
        lake, _, source, run = folder.url.rsplit("/", 3)
        name = RunName.parse(run)
        if name is not None and name.kind is RunKind.NOTHING:
            return RunPlan(source, run, lake, ())
        raise _no_run(lake, source, run)
    return decode_plan(folder.read_file(PLAN), folder.join(PLAN))


def _no_run(lake: str, source: str, run: str) -> Usage:
    known = list_folders(runs_url(lake, source))
    near = difflib.get_close_matches(run, known, 1, 0.8)
    return Usage(
        f"there is no run {run or repr(run)}" + (f"; did you mean {near[0]}" if near else ""),
        source=source,
        remedy=f"`strata plan --source {source}` plans what is pending and prints the run's name"
        + (f"; the newest run is {max(known)}." if known else "; there has been no run yet."),
    )


def plan_digest(folder: Folder) -> str:
    """`content_digest` of the plan, to be stored with the result of decoding; empty if no plan is stored."""
    return content_digest(folder.read_file(PLAN)) if folder.exists(PLAN) else ""


def refuse_other_plan(folder: Folder, decoded: DecodedRun) -> None:
    """Refuses to check or publish rows by a plan other than the decoded plan.

    Raises:
        DamagedFileError: The plan was edited or replaced after it was decoded.
        LakeUnavailableError: The storage does not answer.
    """
    if decoded.plan and not decoded.cleared and plan_digest(folder) != decoded.plan:
        raise DamagedFileError(
            "the plan is not the plan that was decoded",
            file=folder.join(PLAN),
            remedy=f"Decode the run again, {_decode(folder)}, then check it.",
        )


def write_decoded(folder: Folder, decoded: DecodedRun) -> None:
    """Stores the result of all slices of a run; from then on the run counts as decoded."""
    folder.write(DECODED, msgspec.json.encode(replace(decoded, format=FORMAT)))


def _from_former(content: bytes) -> DecodedRun:
    """Formats 1 to 3: statistics are texts."""
    former = msgspec.json.decode(content, type=_FormerDecoded)
    return DecodedRun(**asdict(former) | {"files": tuple(file.now() for file in former.files)})


def read_decoded(folder: Folder) -> DecodedRun:
    """What `write_decoded` stored.

    Raises:
        Usage: The run has not been decoded.
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: The file is incomplete.
    """
    if not folder.exists(DECODED):
        raise Usage(
            "the run has not been decoded",
            file=folder.join(DECODED),
            remedy=f"Decode it first: {_decode(folder)}; then the same again.",
        )
    remedy = f"Decode the run again, which gives the same files: {_decode(folder)}."
    file, former = folder.join(DECODED), dict.fromkeys(range(1, FORMAT), _from_former)
    return decode_stored(folder.read_file(DECODED), DecodedRun, newest=FORMAT, file=file, remedy=remedy, former=former)


def note_cleared(folder: Folder) -> None:
    """Stores that all of a run is published and its staged files are deleted, or are about to be.

    Raises:
        Usage: The run has not been decoded.
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: `decoded.json` is incomplete.
    """
    decoded = read_decoded(folder)
    if not decoded.cleared:
        write_decoded(folder, replace(decoded, cleared=True))


def lacks_files(folder: Folder, decoded: DecodedRun) -> bool:
    """Whether a staged file of the run's folder is gone. Those in the folders of their tables stay when a run is
    cleared."""
    staged = folder.join(STAGED)
    mine = {file.url for file in decoded.files if file.url.startswith(f"{staged}/")}
    return bool(mine) and not mine <= set(list_files(staged))


def _decode(folder: Folder) -> str:
    _, _, source, run = folder.url.rsplit("/", 3)
    return f"`strata decode {run} --source {source}` (task `decode`)"


def read_staged(folder: Folder) -> DecodedRun:
    """What `write_decoded` stored, for a run whose files still exist.

    Raises:
        Usage: The run has not been decoded.
        RunClearedError: It is published, and its staged files were deleted.
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: The file is incomplete, or the plan has been replaced.
    """
    decoded = read_decoded(folder)
    if decoded.cleared:
        raise RunClearedError(
            "the run is published, and its staged files were cleared",
            file=folder.join(DECODED),
            remedy=f"Its verdict and Data Docs still exist. To check it again, decode it again: {_decode(folder)}.",
        )
    refuse_other_plan(folder, decoded)
    return decoded


def write_verdicts(folder: Folder, verdicts: Iterable[IntervalVerdict]) -> None:
    """Stores the verdicts of a run.

    Raises:
        LakeUnavailableError: The storage refuses them.
    """
    folder.write(VERDICT, msgspec.json.format(msgspec.json.encode(_Verdicts(tuple(verdicts))), indent=1))


def read_verdicts(folder: Folder) -> dict[int, IntervalVerdict]:
    """The verdicts of a run by the start of their interval; none if it has not been checked.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: The file is incomplete.
        StoreFormatError: A newer version of Strata wrote them.
    """
    if not folder.exists(VERDICT):
        return {}
    _, _, source, run = folder.url.rsplit("/", 3)
    remedy = f"Check the run again: `strata check {run} --source {source}` (task `check`)."
    stored = decode_stored(
        folder.read_file(VERDICT), _Verdicts, newest=FORMAT, file=folder.join(VERDICT), remedy=remedy
    )
    return {verdict.interval: verdict for verdict in stored.intervals}
