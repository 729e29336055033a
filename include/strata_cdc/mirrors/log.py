"""The log of a mirror's Delta table: its state now or earlier, and a commit that only one of several writers can make.
Not here: what is committed (`table.py`, `apply.py`), the result of its actions (`log_state.py`), checkpoints
(`checkpoint.py`).

This code exists because deltalake 1.6 cannot write deletion vectors. It reads only what a mirror's log can hold: no
partitions, checkpoints in one file. Anything else is refused, and the error names it.
"""

from __future__ import annotations

import os
import time
import uuid
from bisect import bisect_right
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow.parquet as pq

from strata_cdc.errors import DamagedFileError, LakeUnavailableError, LateListingError
from strata_cdc.files.objects import create_object, is_s3
from strata_cdc.files.storage import Folder, lake_errors, listed, read_file, sync_files
from strata_cdc.mirrors.applied_files import applied_note
from strata_cdc.mirrors.log_state import LogState, foreign_commit, info_of, live_file
from strata_cdc.mirrors.made_again import MADE_AGAIN
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.tables.port import LATE_REMEDY, CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from strata_cdc.mirrors.actions import ForeignCommit, LiveFile, LogSnapshot

LOG: Final = "_delta_log"
_DIGITS: Final = 20
_CHECKPOINT: Final = ".checkpoint.parquet"
_ANEW: Final = f"Restore `_delta_log`; or move the mirror's folder away, and {MADE_AGAIN}"


def read_snapshot(url: str, version: int | None = None) -> LogSnapshot | None:
    """The mirror as it is now, or after a version of its log; None if there is no table.

    Raises:
        DamagedFileError: The log has gaps, is damaged, or is not the log of a mirror.
        LakeUnavailableError: The storage does not answer.
    """
    versions, checkpoints = _listed(url)
    if not versions and not checkpoints:
        return None
    newest = max([*versions, *checkpoints])
    version = newest if version is None else version
    state = _begun(url, [checkpoint for checkpoint in checkpoints if checkpoint <= version], is_whole=0 in versions)
    _read_commits(state, range(state.version + 1, version + 1), versions)
    return state.snapshot()


def newer(snapshot: LogSnapshot) -> LogSnapshot:
    """The same table with the commits since; the same value if there are none.

    Raises:
        DamagedFileError: As `read_snapshot`.
        LakeUnavailableError: The storage does not answer.
    """
    state = LogState.from_snapshot(snapshot)
    while (actions := _read_commit(snapshot.url, state.version + 1)) is not None:
        state.take_commit(state.version + 1, actions)
    if not Folder.open(f"{snapshot.url}/{LOG}").exists(f"{state.version:0{_DIGITS}d}.json"):
        # The log was cut meanwhile, at its old end: the commits after this one are gone too, so this is not the newest.
        return read_snapshot(snapshot.url) or snapshot
    return snapshot if state.version == snapshot.version else state.snapshot()


def position_of(url: str, version: int) -> MirrorPosition | None:
    """The mirror's position as a commit has it; None if the commit is gone, or another program made it."""
    actions = _read_commit(url, version)
    return MirrorPosition.of_metadata(info_of(actions or ()), url)


def states_since(url: str, is_first: Callable[[str], bool], until: int) -> Iterator[tuple[str, LogSnapshot]]:
    """The table after each version from the last commit for which `is_first` is true, with the version's operation.

    Args:
        url: The table.
        is_first: Whether to begin with a commit of this operation; if the log was cut, the oldest version may be first.
        until: The last version.

    Raises:
        DamagedFileError: The log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    versions = [version for version in readable_versions(url) if version <= until]
    oldest = versions[0] if versions and versions[0] > 0 else until + 1
    first = next((version for version in reversed(versions) if is_first(_operation(url, version))), oldest)
    snapshot = read_snapshot(url, first) if first <= until else None
    if snapshot is None:
        return
    yield _operation(url, first), snapshot
    for version in range(first + 1, until + 1):
        state = LogState.from_snapshot(snapshot)
        _read_commits(state, range(version, version + 1), {version})
        snapshot = state.snapshot()
        yield _operation(url, version), snapshot


def _operation(url: str, version: int) -> str:
    return str(info_of(_read_commit(url, version) or ()).get("operation", "?"))


def versions_of(url: str) -> list[int]:
    """Versions whose commits are still in the log, ascending."""
    return sorted(_listed(url)[0])


def readable_versions(url: str) -> list[int]:
    """Versions that can still be opened, ascending: if the log was cut, those from its oldest checkpoint on."""
    commits, checkpoints = _listed(url)
    first = 0 if 0 in commits else min(checkpoints, default=0)
    return sorted(version for version in commits if version >= first)


def cut_at(url: str, oldest: int) -> tuple[int, tuple[str, ...]]:
    """Where the log can be cut so that a version, and all later ones, stay readable.

    Returns:
        The first version that stays, and the files of the log before it. Delete them in this order: then the rest is
        complete even if the deletion stops in the middle.
    """
    commits, checkpoints = _listed(url)
    whole = (
        version
        for version in sorted(checkpoints & commits, reverse=True)
        if version <= oldest and _is_whole(url, version)
    )
    start = next(whole, -1)
    # A checkpoint does not have the position: Strata's last commit has it.
    while start >= 0 and position_of(url, start) is None:
        start -= 1
    names = [
        f"{version:0{_DIGITS}d}{end}"
        for version in sorted(commits | checkpoints)
        if version < start
        for end, those in ((_CHECKPOINT, checkpoints), (".json", commits))
        if version in those
    ]
    return start, tuple(f"{url}/{LOG}/{name}" for name in names)


def snapshot_of(url: str, version: int, actions: Sequence[Mapping[str, Any]]) -> LogSnapshot:
    """The table as it is by the actions of one commit alone.

    Raises:
        DamagedFileError: These are not actions of a mirror.
    """
    state = LogState(url)
    state.take_commit(version, actions)
    return state.snapshot()


def commit(
    url: str,
    version: int,
    actions: Iterable[Mapping[str, Any]],
    position: MirrorPosition,
    *,
    operation: str,
    about: Mapping[str, str],
    unsynced: Sequence[str] = (),
) -> None:
    """Writes one version of the log; readers see all of it or nothing.

    Args:
        url: The table.
        version: The number that the commit must get.
        actions: What it does.
        position: The mirror's position after it.
        operation: The operation, in Delta's words.
        about: More custom metadata of the commit.
        unsynced: Local files of the commit that may still be lost in a power failure; they are synced before the
            commit.

    Raises:
        CommitConflictError: There is already a commit of this number; nothing is changed.
        LakeUnavailableError: The storage refuses.
    """
    info = {
        "timestamp": time.time_ns() // 1_000_000,
        "operation": operation,
        "operationParameters": {},
        "engineInfo": "strata",
        "isBlindAppend": False,
        **position.metadata(),
        **about,
    }
    lines = [msgspec.json.encode(action) for action in ({"commitInfo": info}, *actions)]
    _put_if_absent(f"{url}/{LOG}/{version:0{_DIGITS}d}.json", b"\n".join(lines) + b"\n", unsynced)


def _put_if_absent(url: str, content: bytes, unsynced: Sequence[str] = ()) -> None:
    with lake_errors(url):
        folder = Folder.open(url.rpartition("/")[0])
        name = url.rpartition("/")[2]
        if is_s3(url):
            # A request whose answer was lost is sent again, and then meets its own object.
            if not create_object(url, content) and read_file(url) != content:
                raise CommitConflictError
            return
        if not folder.is_local:
            # Arrow (26) has no conditional put: there, writers of one source exclude each other by the source's lock.
            if folder.exists(name):
                raise CommitConflictError
            folder.write(name, content)
            return
        Path(folder.path).mkdir(parents=True, exist_ok=True)
        temporary = Path(folder.path) / f".{uuid.uuid4().hex}.part"
        try:
            temporary.write_bytes(content)
            sync_files([*unsynced, str(temporary)])
            # A link fails if another writer was first; a rename would replace the other writer's file.
            os.link(temporary, Path(folder.path) / name)
        except FileExistsError:
            raise CommitConflictError from None
        finally:
            temporary.unlink(missing_ok=True)


def _listed(url: str) -> tuple[set[int], set[int]]:
    """Numbers of the commits and of the checkpoints; of the commits also those that a store does not list yet."""
    folder = Folder.open(f"{url}/{LOG}")
    with lake_errors(folder.url):
        names = [info.base_name for info in listed(folder.filesystem, folder.path)]
    commits = {int(name[:_DIGITS]) for name in names if name.endswith(".json") and name[:_DIGITS].isdigit()}
    checkpoints = {int(name[:_DIGITS]) for name in names if name[_DIGITS:] == _CHECKPOINT}
    if not folder.is_local:
        _add_unlisted(folder, commits)
    return commits, checkpoints


def _add_unlisted(folder: Folder, commits: set[int]) -> None:
    """Looks for commits by their names: between those that are listed, and before and after them up to the first that
    is not there."""

    def is_there(version: int) -> bool:
        return version >= 0 and folder.exists(f"{version:0{_DIGITS}d}.json")

    first, last = min(commits, default=0), max(commits, default=-1)
    commits |= {version for version in range(first, last) if version not in commits and is_there(version)}
    commits |= set(takewhile(is_there, count(first - 1, -1))) | set(takewhile(is_there, count(last + 1)))


def _read_commit(url: str, version: int) -> list[dict[str, Any]] | None:
    where = f"{url}/{LOG}/{version:0{_DIGITS}d}.json"
    content = read_file(where)
    if content is None:
        return None
    try:
        return [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        message = f"a commit of the mirror cannot be read: {error}"
        raise DamagedFileError(message, file=where, remedy=_ANEW) from None


def _read_commits(state: LogState, wanted: range, versions: set[int]) -> None:
    for version in wanted:
        actions = _read_commit(state.url, version) if version in versions else None
        if actions is None and version in versions:
            raise LateListingError(
                f"version {version} of the mirror's log is listed, and is not there: the log was cut meanwhile, or the "
                "store lists late",
                file=state.url,
                remedy=LATE_REMEDY,
            )
        if actions is None:
            raise DamagedFileError(
                f"the mirror's log has no version {version}",
                file=state.url,
                remedy=_ANEW,
            )
        state.take_commit(version, actions)


def _begun(url: str, checkpoints: Iterable[int], *, is_whole: bool) -> LogState:
    """The table at the last checkpoint that can be read; without a checkpoint, before the first commit.

    Raises:
        LakeUnavailableError: No checkpoint can be read, and the log does not begin with its first commit.
    """
    torn: LakeUnavailableError | None = None
    for version in sorted(checkpoints, reverse=True):
        state = LogState(url)
        try:
            _read_checkpoint(state, version)
        except LakeUnavailableError as error:
            # An older version of Strata, or another program, may have written it, and a power failure may have damaged
            # it.
            torn = torn or error
            continue
        _read_back(state, version)
        return state
    if torn is not None and not is_whole:
        raise torn
    return LogState(url)


def _is_whole(url: str, checkpoint: int) -> bool:
    try:
        _read_checkpoint(LogState(url), checkpoint)
    except LakeUnavailableError:
        return False
    return True


def _read_checkpoint(state: LogState, version: int) -> None:
    where = f"{state.url}/{LOG}/{version:0{_DIGITS}d}{_CHECKPOINT}"
    folder = Folder.open(f"{state.url}/{LOG}")
    with lake_errors(where):
        table = pq.read_table(
            f"{folder.path}/{version:0{_DIGITS}d}{_CHECKPOINT}",
            filesystem=folder.filesystem,
            columns=["add", "metaData", "protocol", "txn"],
        )
    for row in table.to_pylist():
        state.apply({key: _plain(value) for key, value in row.items() if value is not None})
    state.version = version


def _read_back(state: LogState, version: int) -> None:
    """What a checkpoint does not have: the position, and the commits of other programs since Strata's last commit."""
    foreign: list[ForeignCommit] = []
    while version >= 0 and (actions := _read_commit(state.url, version)) is not None:
        info = info_of(actions)
        state.position = MirrorPosition.of_metadata(info, state.url)
        if state.position is not None:
            state.applied = applied_note(info)
            break
        foreign.append(foreign_commit(version, info, actions))
        version -= 1
    state.foreign = foreign[::-1]


def _plain(value: Any) -> Any:
    """Turns maps of Parquet into dictionaries."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


def now_ms() -> int:
    """The time in the form of the log."""
    return time.time_ns() // 1_000_000


def commit_times(url: str) -> dict[int, int]:
    """When each version was committed, by the clock of its writer, milliseconds UTC."""
    return {
        version: int(info_of(_read_commit(url, version) or ()).get("timestamp") or 0) for version in versions_of(url)
    }


def added_since(url: str, version: int) -> list[LiveFile]:
    """The files, with their vectors, that the versions after this one have added."""
    later = [number for number in versions_of(url) if number > version]
    adds = [action["add"] for at in later for action in _read_commit(url, at) or () if "add" in action]
    return [live_file(add, url) for add in adds]


def version_at(url: str, at: Callable[[MirrorPosition], bool]) -> int | None:
    """The newest version that is not after a point; -1 if there is none, None if there is no table."""
    versions = readable_versions(url)
    if not versions:
        return None

    def is_behind(version: int) -> bool:
        position = position_of(url, version)
        # A commit of another program has at most moved rows: it counts like the commit before it.
        return position is not None and not at(position)

    ordinal = bisect_right(versions, False, key=is_behind)  # noqa: FBT003  a key, not a flag
    return versions[ordinal - 1] if ordinal else -1
