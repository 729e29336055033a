"""Copies of mirrors in a folder of their own, to be followed to a moment: the real mirrors are only read.
Not here: following them (`table_at.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from strata_cdc.files.storage import Folder, read_file
from strata_cdc.mirrors.histories.beginning import MADE
from strata_cdc.mirrors.histories.kept_beginning import read_beginning
from strata_cdc.mirrors.layout import mirror_url
from strata_cdc.mirrors.log import LOG, read_snapshot, readable_versions, version_at
from strata_cdc.mirrors.table import Mirror
from strata_cdc.mirrors.vectors import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.mirrors.actions import LogSnapshot
    from strata_cdc.schema.model.definition import TableName

_VERSION_DIGITS: Final = 20
_MADE: Final = f'"operation":"{MADE}"'.encode()
_DIVERGED: Final = b'"strata.diverged":'


def copy_mirror(lake: str, scratch: Path, source: str, table: TableName, seq: int) -> None:
    """Copies a table's mirror as it was in its newest state that is not after a transaction; if there is no such state
    any more, nothing is copied: the mirror is then made from all changes, if the stream has the table's CREATE.

    The log is copied up to that state, so that earlier states can be opened too. Data files are links; those of a lake
    at a URL are copied.

    Args:
        scratch: The folder that stands for the lake.
        seq: Ordinal of the transaction.

    Raises:
        DamagedFileError: The mirror is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    url = mirror_url(lake, source, table)
    target = Path(mirror_url(str(scratch), source, table))
    version = version_at(url, lambda at: at.seq <= seq)
    if version is None:
        return
    kept = read_beginning(url)
    snapshot = read_snapshot(url, version) if version >= 0 else None
    if snapshot is not None and _has_files(snapshot):
        _copy_log(url, target, snapshot.version)
        _link_files(target, snapshot)
        if kept is not None and kept.snapshot.position.seq <= seq:
            _put(Folder.open(f"{url}/_strata"), "beginning.json", target / "_strata" / "beginning.json")
        return
    # A vacuum has deleted files of older states; it keeps those with which the history of rows begins.
    if kept is not None and kept.snapshot.position.seq <= seq and _has_files(kept.snapshot):
        _copy_beginning(url, target)
        _link_files(target, kept.snapshot)


def wrong_since(lake: str, source: str, table: TableName, seq: int) -> str | None:
    """Why a mirror was found to have other rows than its table, at a state after a transaction: when it became wrong is
    not known, so its rows at the transaction are not known either. None if it was not, or was made anew before that."""
    url = mirror_url(lake, source, table)
    chosen = version_at(url, lambda at: at.seq <= seq)
    later = [version for version in readable_versions(url) if version > (-1 if chosen is None else chosen)]
    for version in later:
        content = read_file(f"{url}/{LOG}/{version:0{_VERSION_DIGITS}d}.json") or b""
        if _MADE in content:
            return None
        # The first of them may have the mark in a checkpoint.
        if version == later[0] or _DIVERGED in content:
            snapshot = read_snapshot(url, version)
            reason = None if snapshot is None else Mirror(source, table, snapshot).diverged
            if reason is not None:
                return reason
    return None


def _copy_log(url: str, target: Path, version: int) -> None:
    folder = Folder.open(f"{url}/{LOG}")
    (target / LOG).mkdir(parents=True)
    for name in folder.names():
        number = name[:_VERSION_DIGITS]
        if number.isdigit() and int(number) <= version:
            _put(folder, name, target / LOG / name)


def _copy_beginning(url: str, target: Path) -> None:
    """The kept state as the first version of a log, with which a history of the copy begins, too."""
    content = read_file(f"{url}/_strata/beginning.json") or b""
    _, position, *actions = content.splitlines()
    commit = msgspec.json.decode(position)
    commit["commitInfo"]["operation"] = MADE
    (target / LOG).mkdir(parents=True)
    lines = b"\n".join([msgspec.json.encode(commit), *actions, b""])
    (target / LOG / f"{0:0{_VERSION_DIGITS}d}.json").write_bytes(lines)


def _paths(snapshot: LogSnapshot) -> list[str]:
    """The data files and vectors of a state."""
    files = snapshot.files.values()
    return [*snapshot.files, *{file.vector.path for file in files if file.vector is not None}]


def _has_files(snapshot: LogSnapshot) -> bool:
    """Whether all files of a state are still there."""
    folders: dict[str, set[str]] = {}
    for path in _paths(snapshot):
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = set(Folder.open(f"{snapshot.url}/{folder}").names())
        if name not in folders[folder]:
            return False
    return True


def _link_files(target: Path, snapshot: LogSnapshot) -> None:
    folder = Folder.open(snapshot.url)
    if folder.is_local:
        # Also those of earlier states, which may be opened too.
        _link_all(folder, target, ("data", FOLDER))
    for path in _paths(snapshot):
        if not (target / path).is_symlink():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            _put(folder, path, target / path)


def _link_all(folder: Folder, target: Path, names: Iterable[str]) -> None:
    for name in names:
        inside = folder.folder(name)
        (target / name).mkdir(parents=True, exist_ok=True)
        for file in inside.names():
            (target / name / file).symlink_to(Path(inside.path).resolve() / file)


def _put(folder: Folder, name: str, target: Path) -> None:
    if folder.is_local:
        target.symlink_to(Path(folder.path).resolve() / name)
    else:
        target.write_bytes(folder.read_file(name))
