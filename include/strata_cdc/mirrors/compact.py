"""Maintenance of a mirror's files: makes whole files of small ones and of half-dead ones, deletes old files, and
cuts the old end of the log: commits and checkpoints before the versions that vacuum keeps readable.
Not here: changes of rows (`apply.py`); this module changes no row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata_cdc.files.storage import delete_file, file_times
from strata_cdc.mirrors.apply import refuse_foreign
from strata_cdc.mirrors.data_files import has_map, read_file_rows, write_rows
from strata_cdc.mirrors.histories.beginning import beginning_of
from strata_cdc.mirrors.histories.kept_beginning import forget_beginning, keep_beginning
from strata_cdc.mirrors.log import added_since, commit_times, cut_at, now_ms, read_snapshot, readable_versions
from strata_cdc.mirrors.vectors import FOLDER
from strata_cdc.tables.port import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from strata_cdc.mirrors.actions import LiveFile
    from strata_cdc.mirrors.limits import MirrorLimits
    from strata_cdc.mirrors.table import Mirror

ATTEMPTS: Final = 5
RETAIN_HOURS: Final = 168
"""How long files of earlier versions are kept by default: readers of these versions, and time travel, need them."""
_SMALL_SHARE: Final = 0.25
"""Share of the rows of a whole file."""
_SMALL_BYTES: Final = 16 << 20
_DEAD_SHARE: Final = 0.2
_WRITERS_HOURS: Final = 1
"""A file that no version names may belong to a commit that is being made."""
_HOUR_MICROS: Final = 3_600_000_000


class CompactionResult(Struct, frozen=True):
    """What a compaction did."""

    files_before: int
    files_after: int
    rows_rewritten: int


class VacuumResult(Struct, frozen=True):
    """What a vacuum deleted."""

    files: int
    oldest_version: int
    """Oldest version of the Delta table that can still be read."""
    log_files: int = 0
    """How many of these files were files of the table's log."""


class Wear(Struct, frozen=True):
    """What there is to compact."""

    small_files: int
    """Files that can be put together to whole files; 0 if there is only one small file."""
    dead_files: int
    """Files with many dead rows."""
    dead_rows: int
    rows: int
    """Rows, including dead ones."""


def wear_of(mirror: Mirror) -> Wear:
    """How many of a mirror's files are small, and how many of its rows are dead."""
    files = list(mirror.snapshot.files.values())
    rows = sum(file.rows for file in files)
    small = len(_small(files, mirror.limits))
    return Wear(small if small > 1 else 0, len(_dead(files)), rows - sum(file.live_rows for file in files), rows)


def compact(mirror: Mirror) -> tuple[Mirror, CompactionResult]:
    """Rewrites small files, and files with many dead rows, in one commit that changes no row.

    One call makes about one whole file, so that no other writer waits long: `wear_of` returns whether more is left.

    Raises:
        MirrorDivergedError: Another program has changed the mirror's rows.
        CommitConflictError: Other commits always came first.
        LakeUnavailableError: The storage does not answer.
    """
    for _ in range(ATTEMPTS):
        mirror = mirror.refreshed()
        refuse_foreign(mirror)
        chosen = _some(_worth_it(list(mirror.snapshot.files.values()), mirror.limits), mirror.limits)
        before = len(mirror.snapshot.files)
        if not chosen:
            return mirror, CompactionResult(before, before, 0)
        # A file begins with the map `_invalid` or never has it: with it first, all rows fit into one file.
        chosen.sort(key=lambda file: not has_map(mirror.url, file))
        added = list(write_rows(mirror.url, mirror.schema, _rows(mirror, chosen), limits=mirror.limits))
        now = now_ms()
        actions = [_moved(file.removed(now)) for file in chosen] + [_moved(file.added()) for file in added]
        try:
            mirror = mirror.commit(actions, mirror.position, operation="OPTIMIZE")
        except CommitConflictError:
            continue
        return mirror, CompactionResult(before, len(mirror.snapshot.files), sum(file.rows for file in added))
    raise CommitConflictError


def _worth_it(files: Sequence[LiveFile], limits: MirrorLimits) -> list[LiveFile]:
    dead, small = _dead(files), _small(files, limits)
    # A single small file would stay small.
    return dead if len(small) < 2 else [*small, *(file for file in dead if file not in small)]


def _dead(files: Sequence[LiveFile]) -> list[LiveFile]:
    return [file for file in files if file.live_rows < file.rows * (1 - _DEAD_SHARE)]


def _small(files: Sequence[LiveFile], limits: MirrorLimits) -> list[LiveFile]:
    rows = int(limits.file_rows * _SMALL_SHARE)
    return [file for file in files if file.rows < rows and file.size_bytes < _SMALL_BYTES]


def _some(files: Sequence[LiveFile], limits: MirrorLimits) -> list[LiveFile]:
    """As many files as make a whole file; at least two if they are small, since four small ones make no whole file."""
    rows = size = 0
    for at, file in enumerate(files):
        rows, size = rows + file.live_rows, size + file.size_bytes
        if rows >= limits.file_rows or size >= limits.file_bytes:
            return list(files[: at + 1])
    return list(files)


def _rows(mirror: Mirror, files: Sequence[LiveFile]) -> Iterator[pa.Table]:
    for file in files:
        yield from read_file_rows(mirror.url, file, mirror.schema, mirror.dead_rows(file))


def _moved(action: dict[str, Any]) -> dict[str, Any]:
    """The same action, marked as changing no rows."""
    return {kind: {**inner, "dataChange": False} for kind, inner in action.items()}


class UnneededFiles(Struct, frozen=True):
    """Files that nothing needs, now or later: no version since the oldest names them, and nobody is writing them."""

    urls: tuple[str, ...]
    oldest_version: int

    def delete(self) -> VacuumResult:
        """Deletes them. It is safe to repeat this, and to kill it.

        Raises:
            LakeUnavailableError: The storage refuses.
        """
        for url in self.urls:
            delete_file(url)
        return VacuumResult(len(self.urls), self.oldest_version)


def vacuum(mirror: Mirror, *, now_micros: int, retain_hours: int = RETAIN_HOURS) -> VacuumResult:
    """Deletes the data files, vectors and log that are needed only by versions that are too old; as `doomed_files`."""
    done = doomed_files(mirror, now_micros=now_micros, retain_hours=retain_hours).delete()
    return with_log_cut(mirror, done, now_micros=now_micros)


def with_log_cut(mirror: Mirror, done: VacuumResult, *, now_micros: int) -> VacuumResult:
    """The result of a vacuum, after deleting the log before the oldest version that the vacuum keeps.

    Call it after the data files were deleted: where a history can begin depends on the files that are left. The caller
    holds the mirror's lock.

    Raises:
        DamagedFileError: The log is not complete.
        LakeUnavailableError: The storage refuses.
    """
    mirror = mirror.refreshed()
    # A reader that has just read the log must still find what follows.
    settled = _oldest(mirror, now_micros - _WRITERS_HOURS * _HOUR_MICROS)
    count = cut_log(mirror, min(done.oldest_version, settled))
    return VacuumResult(done.files + count, done.oldest_version, count)


def doomed_files(mirror: Mirror, *, now_micros: int, retain_hours: int = RETAIN_HOURS) -> UnneededFiles:
    """Data files and vectors that no version younger than `retain_hours` needs; the newest version always stays.

    The caller holds the mirror's lock, so that no file is among them whose commit is just being made. Deleting them
    needs no lock.

    Args:
        mirror: The mirror.
        now_micros: The time, microseconds UTC.
        retain_hours: How long earlier versions stay readable.

    Raises:
        DamagedFileError: The log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    mirror = mirror.refreshed()
    limit = now_micros - retain_hours * _HOUR_MICROS
    oldest = _oldest(mirror, limit)
    first = read_snapshot(mirror.url, oldest)
    needed = set() if first is None else {path for file in first.files.values() for path in _paths(file)}
    needed |= {path for file in added_since(mirror.url, oldest) for path in _paths(file)}
    unnamed = min(limit, now_micros - _WRITERS_HOURS * _HOUR_MICROS)
    files = [
        url
        for folder in ("data", FOLDER)
        for url, changed in file_times(f"{mirror.url}/{folder}").items()
        if url.removeprefix(f"{mirror.url}/") not in needed and changed < unnamed
    ]
    return UnneededFiles(tuple(files), oldest)


def _oldest(mirror: Mirror, limit: int) -> int:
    """The version that was the newest at a time, microseconds UTC: a version becomes old with the next commit."""
    # In this order: the time is known for a version that is committed meanwhile.
    readable = readable_versions(mirror.url)
    times = commit_times(mirror.url)
    return max((version for version in readable if times[version] * 1000 <= limit), default=min(readable, default=0))


def _paths(file: LiveFile) -> list[str]:
    return [file.path, *([] if file.vector is None else [file.vector.path])]


def cut_log(mirror: Mirror, oldest: int) -> int:
    """Deletes the part of the log that no version from this one on needs, and stores where the mirror's history begins.

    The log then begins with the last checkpoint before that version. The caller holds the mirror's lock. The function
    may be killed at any point, and repeated: the log is deleted from its old end on, and readers always find a complete
    log.

    Args:
        mirror: The mirror as it is now.
        oldest: The version.

    Returns:
        How many files were deleted.

    Raises:
        DamagedFileError: The log is not complete.
        LakeUnavailableError: The storage refuses.
    """
    start, doomed = cut_at(mirror.url, oldest)
    if not doomed:
        return 0
    beginning = beginning_of(mirror)
    if beginning is None or beginning.mirror.snapshot.version >= start:
        forget_beginning(mirror.url)
    else:
        keep_beginning(beginning.mirror.snapshot, beginning.emptied_at)
    for url in doomed:
        delete_file(url)
    return len(doomed)
