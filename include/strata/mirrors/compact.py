"""Upkeep of a mirror's files: small ones and half-dead ones made into whole ones, and old ones deleted.
Not here: changes of rows (`apply.py`); nothing here changes any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata.mirrors.apply import refuse_foreign
from strata.mirrors.data_files import FILE_ROWS, read_file_rows, write_rows
from strata.mirrors.log import added_since, commit_times, now_ms, read_snapshot
from strata.mirrors.vectors import FOLDER
from strata.tables.port import CommitConflictError
from strata.wire.storage import delete_file, file_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from strata.mirrors.actions import LiveFile
    from strata.mirrors.table import Mirror

ATTEMPTS: Final = 5
RETAIN_HOURS: Final = 168
"""How long files of former versions are kept by default: readers of those, and time travel, need them."""
_SMALL_ROWS: Final = FILE_ROWS // 4
_SMALL_BYTES: Final = 16 << 20
_DEAD_SHARE: Final = 0.2
_WRITERS_HOURS: Final = 1
"""A file that no version names may be one that is just being committed."""
_HOUR_MICROS: Final = 3_600_000_000


class Compacted(Struct, frozen=True):
    """What a compaction did."""

    files_before: int
    files_after: int
    rows_rewritten: int


class Vacuumed(Struct, frozen=True):
    """What a vacuum deleted."""

    files: int
    oldest_version: int
    """Of the Delta table, that can still be read."""


def compact(mirror: Mirror) -> tuple[Mirror, Compacted]:
    """Writes small files, and those of which many rows are dead, anew; in one commit that changes no row.

    Raises:
        MirrorDivergedError: Another program has changed the mirror's rows.
        CommitConflictError: Others kept committing first.
        LakeUnavailableError: The storage does not answer.
    """
    for _ in range(ATTEMPTS):
        mirror = mirror.refreshed()
        refuse_foreign(mirror)
        chosen = _worth_it(list(mirror.snapshot.files.values()))
        before = len(mirror.snapshot.files)
        if not chosen:
            return mirror, Compacted(before, before, 0)
        added = list(write_rows(mirror.url, mirror.schema, _rows(mirror, chosen)))
        now = now_ms()
        actions = [_moved(file.removed(now)) for file in chosen] + [_moved(file.added()) for file in added]
        try:
            mirror = mirror.commit(actions, mirror.position, operation="OPTIMIZE")
        except CommitConflictError:
            continue
        return mirror, Compacted(before, len(mirror.snapshot.files), sum(file.rows for file in added))
    raise CommitConflictError


def _worth_it(files: Sequence[LiveFile]) -> list[LiveFile]:
    dead = [file for file in files if file.live_rows < file.rows * (1 - _DEAD_SHARE)]
    small = [file for file in files if file.rows < _SMALL_ROWS and file.size_bytes < _SMALL_BYTES]
    # A small file alone becomes no larger.
    return dead if len(small) < 2 else [*small, *(file for file in dead if file not in small)]


def _rows(mirror: Mirror, files: Sequence[LiveFile]) -> Iterator[pa.Table]:
    for file in files:
        yield from read_file_rows(mirror.url, file, mirror.schema, mirror.dead_rows(file))


def _moved(action: dict[str, Any]) -> dict[str, Any]:
    """The same, said to change no rows."""
    return {kind: {**inner, "dataChange": False} for kind, inner in action.items()}


def vacuum(mirror: Mirror, *, now_micros: int, retain_hours: int = RETAIN_HOURS) -> Vacuumed:
    """Deletes data files and vectors that no version needs which is younger than some hours; the newest always stays.

    Args:
        mirror: The mirror.
        now_micros: The time, microseconds UTC.
        retain_hours: How long former versions stay readable.

    Raises:
        DamagedFileError: The log is not whole.
        LakeUnavailableError: The storage does not answer.
    """
    mirror = mirror.refreshed()
    limit = now_micros - retain_hours * _HOUR_MICROS
    times = commit_times(mirror.url)
    # What became old by the commit that followed it was read until then.
    oldest = max((version for version, time in times.items() if time * 1000 <= limit), default=min(times, default=0))
    first = read_snapshot(mirror.url, oldest)
    needed = set() if first is None else {path for file in first.files.values() for path in _paths(file)}
    needed |= {path for file in added_since(mirror.url, oldest) for path in _paths(file)}
    unnamed = min(limit, now_micros - _WRITERS_HOURS * _HOUR_MICROS)
    deleted = 0
    for folder in ("data", FOLDER):
        root = f"{mirror.url}/{folder}"
        for url, changed in file_times(root).items():
            if url.removeprefix(f"{mirror.url}/") not in needed and changed < unnamed:
                delete_file(url)
                deleted += 1
    return Vacuumed(deleted, oldest)


def _paths(file: LiveFile) -> list[str]:
    return [file.path, *([] if file.vector is None else [file.vector.path])]
