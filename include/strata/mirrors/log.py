"""The log of a mirror's Delta table: what it says now or said then, and a commit that only one of several can make.
Not here: what is committed (`table.py`, `apply.py`), checkpoints (`checkpoint.py`).

Written by hand because deltalake 1.6 cannot write deletion vectors. Only what a mirror's log can hold is read: no
partitions, no column mapping, checkpoints in one file. Anything else is refused with its name.
"""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote

import msgspec
import pyarrow.parquet as pq
from pyarrow import fs

from strata.errors import DamagedFileError
from strata.mirrors.actions import ForeignCommit, LiveFile, Snapshot
from strata.mirrors.modes import FEATURES
from strata.mirrors.position import MirrorPosition
from strata.mirrors.vectors import Vector
from strata.tables.port import CommitConflictError
from strata.wire.storage import Folder, lake_errors, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LOG: Final = "_delta_log"
_DIGITS: Final = 20


class _State:
    """The table while its log is read."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.version = -1
        self.protocol: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.files: dict[str, LiveFile] = {}
        self.marks: dict[str, int] = {}
        self.position: MirrorPosition | None = None
        self.foreign: list[ForeignCommit] = []

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """To go on from there."""
        state = cls(snapshot.url)
        state.version, state.position = snapshot.version, snapshot.position
        state.files, state.marks = dict(snapshot.files), dict(snapshot.marks)
        state.foreign = list(snapshot.foreign)
        state.metadata = {
            "id": snapshot.table_id,
            "schemaString": snapshot.schema_text,
            "configuration": dict(snapshot.properties),
            "createdTime": snapshot.created_ms,
        }
        state.protocol = {"writerFeatures": sorted(snapshot.features)}
        return state

    def take(self, action: Mapping[str, Any]) -> None:
        """One action of a commit or checkpoint."""
        if add := action.get("add"):
            path = unquote(add["path"])
            self.files[path] = _live_file(path, add, self.url)
        elif remove := action.get("remove"):
            self._remove(remove)
        elif metadata := action.get("metaData"):
            self.metadata = metadata
        elif protocol := action.get("protocol"):
            self.protocol = protocol
        elif mark := action.get("txn"):
            self.marks[mark["appId"]] = int(mark["version"])

    def _remove(self, remove: Mapping[str, Any]) -> None:
        # A commit may name the file with its new vector before it removes the one with the old: they are two.
        path = unquote(remove["path"])
        known = self.files.get(path)
        if known is not None and known.vector == Vector.of_log(remove.get("deletionVector"), self.url):
            del self.files[path]

    def take_commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        """One version of the log."""
        # Removals first: who reads in order of the lines would lose a file that got another vector.
        for action in sorted(actions, key=lambda one: "remove" not in one):
            self.take(action)
        self.version = version
        info = _info(actions)
        position = MirrorPosition.of_metadata(info, self.url)
        if position is not None:
            self.position, self.foreign = position, []
        else:
            self.foreign.append(_foreign(version, info, actions))

    def snapshot(self) -> Snapshot:
        """What was read.

        Raises:
            DamagedFileError: No mirror is there, or its table needs what mirrors do not.
        """
        features = frozenset(self.protocol.get("writerFeatures") or ()) | frozenset(
            self.protocol.get("readerFeatures") or ()
        )
        if unknown := features - FEATURES:
            raise DamagedFileError(
                f"another program gave the mirror's table the features {', '.join(sorted(unknown))}",
                file=self.url,
                remedy="Move the folder away and dump the table again; copy a mirror to change it.",
            )
        if self.position is None:
            raise DamagedFileError("there is a Delta table that is no mirror", file=self.url, remedy="Move it away.")
        return Snapshot(
            url=self.url,
            version=self.version,
            position=self.position,
            schema_text=self.metadata["schemaString"],
            properties=dict(self.metadata.get("configuration") or {}),
            files=self.files,
            marks=self.marks,
            table_id=self.metadata["id"],
            features=features,
            foreign=tuple(self.foreign),
            created_ms=int(self.metadata.get("createdTime") or 0),
        )


def read_snapshot(url: str, version: int | None = None) -> Snapshot | None:
    """The mirror as it is now, or after a version of its log; None if there is no table.

    Raises:
        DamagedFileError: The log has holes, is damaged, or is none of a mirror.
        LakeUnavailableError: The storage does not answer.
    """
    versions, checkpoints = _listed(url)
    if not versions and not checkpoints:
        return None
    newest = max([*versions, *checkpoints])
    version = newest if version is None else version
    state = _State(url)
    start = max((one for one in checkpoints if one <= version), default=-1)
    if start >= 0:
        _read_checkpoint(state, start)
        _read_back(state, start)
    _read_commits(state, range(start + 1, version + 1), versions)
    return state.snapshot()


def newer(snapshot: Snapshot) -> Snapshot:
    """The same table with what was committed since; the same value if nothing was.

    Raises:
        DamagedFileError: As `read_snapshot`.
        LakeUnavailableError: The storage does not answer.
    """
    state = _State.of(snapshot)
    while (actions := _read_commit(snapshot.url, state.version + 1)) is not None:
        state.take_commit(state.version + 1, actions)
    if state.version == snapshot.version:
        # Somebody may have cut the log behind a checkpoint.
        return snapshot
    return state.snapshot()


def position_of(url: str, version: int) -> MirrorPosition | None:
    """What a commit says of the mirror's position; None if it is gone, or of another program."""
    actions = _read_commit(url, version)
    return MirrorPosition.of_metadata(_info(actions or ()), url)


def versions_of(url: str) -> list[int]:
    """Versions whose commits are still in the log, ascending.

    Raises:
        LakeUnavailableError: The storage does not answer.
    """
    return sorted(_listed(url)[0])


def commit(
    url: str,
    version: int,
    actions: Iterable[Mapping[str, Any]],
    position: MirrorPosition,
    *,
    operation: str,
    about: Mapping[str, str],
) -> None:
    """Writes one version of the log, which readers see whole or not at all.

    Args:
        url: The table.
        version: The number that the commit has to get.
        actions: What it does.
        position: Where the mirror is behind it.
        operation: In Delta's words.
        about: What it says besides, as custom metadata.

    Raises:
        CommitConflictError: There is a commit of this number; nothing is changed.
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
    lines = [msgspec.json.encode(one) for one in ({"commitInfo": info}, *actions)]
    _put_if_absent(f"{url}/{LOG}/{version:0{_DIGITS}d}.json", b"\n".join(lines) + b"\n")


def _put_if_absent(url: str, content: bytes) -> None:
    with lake_errors(url):
        folder = Folder.open(url.rpartition("/")[0])
        name = url.rpartition("/")[2]
        if not folder.is_local:
            # Arrow (26) has no conditional put: appliers of one source exclude each other there by the source's lock.
            if folder.exists(name):
                raise CommitConflictError
            folder.write(name, content)
            return
        Path(folder.path).mkdir(parents=True, exist_ok=True)
        temporary = Path(folder.path) / f".{uuid.uuid4().hex}.part"
        try:
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            # A link is made or refused, whoever comes at the same time; a rename would take the other one's place.
            os.link(temporary, Path(folder.path) / name)
        except FileExistsError:
            raise CommitConflictError from None
        finally:
            temporary.unlink(missing_ok=True)


def _listed(url: str) -> tuple[set[int], set[int]]:
    """Numbers of the commits and of the checkpoints."""
    folder = Folder.open(f"{url}/{LOG}")
    with lake_errors(folder.url):
        infos = folder.filesystem.get_file_info(fs.FileSelector(folder.path, allow_not_found=True))
    names = [info.base_name for info in infos]
    commits = {int(name[:_DIGITS]) for name in names if name.endswith(".json") and name[:_DIGITS].isdigit()}
    checkpoints = {int(name[:_DIGITS]) for name in names if name[_DIGITS:] == ".checkpoint.parquet"}
    return commits, checkpoints


def _read_commit(url: str, version: int) -> list[dict[str, Any]] | None:
    where = f"{url}/{LOG}/{version:0{_DIGITS}d}.json"
    content = read_file(where)
    if content is None:
        return None
    try:
        return [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise DamagedFileError(f"a commit of the mirror cannot be read: {error}", file=where) from None


def _read_commits(state: _State, wanted: range, versions: set[int]) -> None:
    for version in wanted:
        actions = _read_commit(state.url, version) if version in versions else None
        if actions is None:
            raise DamagedFileError(
                f"the mirror's log has no version {version}",
                file=state.url,
                remedy="Restore `_delta_log`, or dump the table again.",
            )
        state.take_commit(version, actions)


def _read_checkpoint(state: _State, version: int) -> None:
    where = f"{state.url}/{LOG}/{version:0{_DIGITS}d}.checkpoint.parquet"
    folder = Folder.open(f"{state.url}/{LOG}")
    with lake_errors(where):
        table = pq.read_table(
            f"{folder.path}/{version:0{_DIGITS}d}.checkpoint.parquet",
            filesystem=folder.filesystem,
            columns=["add", "metaData", "protocol", "txn"],
        )
    for row in table.to_pylist():
        state.take({key: _plain(value) for key, value in row.items() if value is not None})
    state.version = version


def _read_back(state: _State, version: int) -> None:
    """What stands behind a checkpoint: the position, and the commits of others since."""
    foreign: list[ForeignCommit] = []
    while version >= 0 and (actions := _read_commit(state.url, version)) is not None:
        info = _info(actions)
        state.position = MirrorPosition.of_metadata(info, state.url)
        if state.position is not None:
            break
        foreign.append(_foreign(version, info, actions))
        version -= 1
    state.foreign = foreign[::-1]


def _info(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a commit says of itself."""
    return next((one["commitInfo"] for one in actions if "commitInfo" in one), {})


def _plain(value: Any) -> Any:
    """Maps of Parquet as dictionaries."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


def _live_file(path: str, add: Mapping[str, Any], url: str) -> LiveFile:
    stats = add.get("stats") or "{}"
    rows = msgspec.json.decode(stats).get("numRecords")
    if rows is None:
        raise DamagedFileError("another program wrote a file without its number of rows into the mirror", file=url)
    vector = Vector.of_log(add.get("deletionVector"), url)
    return LiveFile(path, int(add["size"]), int(rows), stats, int(add["modificationTime"]), vector)


def _foreign(version: int, info: Mapping[str, Any], actions: Sequence[Mapping[str, Any]]) -> ForeignCommit:
    changes = [one.get(kind, {}).get("dataChange") for one in actions for kind in ("add", "remove") if kind in one]
    schema = any("metaData" in one or "protocol" in one for one in actions)
    return ForeignCommit(version, str(info.get("operation", "?")), changes_rows=schema or any(changes))


def now_ms() -> int:
    """The time as the log keeps it."""
    return time.time_ns() // 1_000_000


def commit_times(url: str) -> dict[int, int]:
    """When each version was committed by the clock of who did, milliseconds UTC."""
    return {version: int(_info(_read_commit(url, version) or ()).get("timestamp") or 0) for version in versions_of(url)}


def added_since(url: str, version: int) -> list[LiveFile]:
    """The files, with their vectors, that the versions behind one have added."""
    later = [one for one in versions_of(url) if one > version]
    adds = [one["add"] for at in later for one in _read_commit(url, at) or () if "add" in one]
    return [_live_file(unquote(add["path"]), add, url) for add in adds]
