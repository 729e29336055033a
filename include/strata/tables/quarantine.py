"""Quarantine: staged files that failed their checks, kept with the reason, out of every reader's way.
Not here: judging them (`checks/`), publishing those that passed (`commit.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata.tables.layout import interval_key, interval_of_key, name_of_path, path_name
from strata.tables.pinned import read_pinned
from strata.values import to_plain
from strata.wire.storage import file_times, list_files, read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata.tables.write import StagedFile

REASON = "reason.json"
"""Beside the files: the verdict, and what each file is."""


class QuarantineFolder(Struct, frozen=True):
    """What a run has put into quarantine of one interval."""

    folder: str
    interval: int
    """Start (microseconds UTC)."""
    tables: frozenset[tuple[str, str]]
    """Database and table of its rows."""
    changed_at: int
    """When its newest file was written, microseconds UTC by the storage's clock."""


def quarantine_folder(lake: str, source: str, interval: int, run: str) -> str:
    """Where a run's rows of an interval are kept if they fail."""
    return f"{_root(lake, source)}/{interval_key(interval)}/{path_name(run)}"


def put_in_quarantine(
    lake: str, source: str, run: str, interval: int, files: Iterable[StagedFile], verdict: dict[str, Any]
) -> str:
    """Keeps an interval's staged files with the verdict that blocks them, and returns their folder.

    The run folder may be cleared afterwards. Safe to repeat: the reason is written last and replaces an earlier one.

    Raises:
        DamagedFileError: A file is not the one that was decoded.
        LakeUnavailableError: The storage does not answer.
    """
    folder = quarantine_folder(lake, source, interval, run)
    kept = []
    for file in files:
        names = path_name(file.database), path_name(file.table)
        relative = "/".join((*names, file.file_name))
        write_file(f"{folder}/{relative}", read_pinned(file))
        kept.append({**to_plain(file), "url": relative})
    reason = {"source": source, "run": run, "verdict": verdict, "files": kept}
    write_file(f"{folder}/{REASON}", json.dumps(reason, ensure_ascii=False, indent=1).encode())
    return folder


def in_quarantine(lake: str, source: str) -> list[QuarantineFolder]:
    """Everything in quarantine of a source, in order of interval and run; what has no files left is not listed.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
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


def quarantined(lake: str, source: str) -> list[dict[str, Any]]:
    """The reasons of everything in quarantine of a source, in order of interval and run; each with its `folder`.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    found = []
    for url in list_files(_root(lake, source)):
        content = read_file(url) if url.endswith(f"/{REASON}") else None
        if content is not None:
            found.append({**json.loads(content), "folder": url.rpartition("/")[0]})
    return found


def _root(lake: str, source: str) -> str:
    return f"{lake.rstrip('/')}/quarantine/{path_name(source)}"
