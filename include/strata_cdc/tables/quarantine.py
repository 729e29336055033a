"""Quarantine: staged files that failed their checks, stored with the reason, where no reader finds them.
Not here: checking them (`quality/checks/`), publishing those that passed (`commit.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.files.storage import file_times, read_file, write_file
from strata_cdc.files.stored import decode_stored
from strata_cdc.tables.layout import interval_key, interval_of_key, name_of_path, path_name
from strata_cdc.tables.pinned import read_pinned
from strata_cdc.tables.write import FormerFile, StagedFile

if TYPE_CHECKING:
    from collections.abc import Iterable

Verdict = TypeVar("Verdict")
"""`checks.verdict.IntervalVerdict`; this package only knows that it is stored."""

REASON = "reason.json"
"""A file in the folder of the files: it has the verdict, and the facts of each file."""

FORMAT = 3
"""Number of the stored form of a reason. In form 1, the digests of the files may be missing; before form 3, their
statistics were texts."""


class Reason(Struct, Generic[Verdict], frozen=True):
    """Why an interval's files are in quarantine."""

    source: str
    run: str
    verdict: Verdict
    """What blocks the files."""
    files: tuple[StagedFile, ...]
    """The files. Here the `url` of each is complete; in the stored form it is relative to the folder of the reason."""
    format: int = FORMAT


class _FormerQuarantinedFile(FormerFile, frozen=True, kw_only=True):
    digest: str = ""
    """Empty if it was not stored; `read_pinned` refuses such a file, because it may have other bytes."""


class _FormerReason(Reason[Verdict], Generic[Verdict], frozen=True, kw_only=True):
    files: tuple[_FormerQuarantinedFile, ...]


class QuarantineFolder(Struct, frozen=True):
    """What a run has put into quarantine for one interval."""

    folder: str
    interval: int
    """Start of the interval (microseconds UTC)."""
    tables: frozenset[tuple[str, str]]
    """Database and table of the rows."""
    changed_at: int
    """When the newest file was written, microseconds UTC by the storage's clock."""


def quarantine_folder(lake: str, source: str, interval: int, run: str) -> str:
    """Folder for a run's rows of an interval, if they fail."""
    return f"{_root(lake, source)}/{interval_key(interval)}/{path_name(run)}"


def put_in_quarantine(
    lake: str, source: str, run: str, interval: int, files: Iterable[StagedFile], verdict: Struct
) -> str:
    """Stores an interval's staged files with the verdict that blocks them, and returns their folder.

    The run folder may be cleared afterwards. It is safe to repeat this: the reason is written last, and replaces
    an earlier one.

    Raises:
        DamagedFileError: A file does not have the bytes that were decoded.
        LakeUnavailableError: The storage does not answer.
    """
    folder = quarantine_folder(lake, source, interval, run)
    kept = []
    for file in files:
        names = path_name(file.database), path_name(file.table)
        relative = "/".join((*names, file.file_name))
        write_file(f"{folder}/{relative}", read_pinned(file))
        kept.append(replace(file, url=relative))
    reason = msgspec.json.encode(Reason(source, run, verdict, tuple(kept)))
    write_file(f"{folder}/{REASON}", msgspec.json.format(reason, indent=1))
    return folder


def in_quarantine(lake: str, source: str) -> list[QuarantineFolder]:
    """Everything in quarantine for a source, in order of interval and run; folders without files are not listed."""
    root = _root(lake, source)
    tables: dict[str, set[tuple[str, str]]] = {}
    changed: dict[str, int] = {}
    for url, changed_at in file_times(root).items():
        interval, run, *names = url.removeprefix(f"{root}/").split("/")
        folder = f"{root}/{interval}/{run}"
        changed[folder] = max(changed.get(folder, 0), changed_at)
        tables.setdefault(folder, set())
        if len(names) > 2:
            tables[folder].add((name_of_path(names[0]), name_of_path(names[1])))
    return [
        QuarantineFolder(folder, interval_of_key(folder.split("/")[-2]), frozenset(tables[folder]), changed[folder])
        for folder in sorted(changed)
    ]


def read_reason(folder: str, verdict: type[Verdict]) -> Reason[Verdict] | None:
    """Why the files of a folder are in quarantine; None if there are none, or a check was killed before it wrote this.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: The reason is not complete.
        StoreFormatError: A newer version of Strata wrote it.
    """
    url = f"{folder}/{REASON}"
    content = read_file(url)
    return None if content is None else _read_reason(content, url, verdict)


def first_rows(files: Iterable[StagedFile], count: int) -> list[dict[str, Any]]:
    """The first rows of some files, with all of their columns.

    Raises:
        DamagedFileError: A file does not have the bytes that were put there.
        LakeUnavailableError: The storage does not answer.
    """
    rows: list[dict[str, Any]] = []
    for file in files:
        if len(rows) >= count:
            break
        rows += pq.read_table(pa.BufferReader(read_pinned(file))).slice(0, count - len(rows)).to_pylist()
    return rows


def _read_reason(content: bytes, url: str, verdict: type[Verdict]) -> Reason[Verdict]:
    def former_reason(content: bytes) -> Reason[Verdict]:
        former = msgspec.json.decode(content, type=_FormerReason[verdict])  # type: ignore[valid-type]
        return Reason(former.source, former.run, former.verdict, tuple(file.now() for file in former.files))

    kind = Reason[verdict]  # type: ignore[valid-type]
    former = dict.fromkeys(range(1, FORMAT), former_reason)
    remedy = "Check the run that is named in its folder again: `strata check RUN`."
    reason = decode_stored(content, kind, newest=FORMAT, file=url, remedy=remedy, former=former)
    folder = url.rpartition("/")[0]
    return replace(reason, files=tuple(replace(file, url=f"{folder}/{file.url}") for file in reason.files))


def _root(lake: str, source: str) -> str:
    return f"{lake.rstrip('/')}/quarantine/{path_name(source)}"
