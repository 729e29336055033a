"""The state of a mirror's table from the commits and checkpoints of its log, one action after the other.
Not here: reading and writing the log (`log.py`), the values it returns (`actions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

import msgspec

from strata_cdc.errors import DamagedFileError
from strata_cdc.mirrors.actions import ForeignCommit, LiveFile, LogSnapshot
from strata_cdc.mirrors.applied_files import applied_note
from strata_cdc.mirrors.modes import FEATURES
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.mirrors.vectors import StoredVector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class LogState:
    """The state of the table while its log is read."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.version = -1
        self.protocol: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.files: dict[str, LiveFile] = {}
        self.marks: dict[str, int] = {}
        self.position: MirrorPosition | None = None
        self.applied = ""
        self.foreign: list[ForeignCommit] = []

    @classmethod
    def from_snapshot(cls, snapshot: LogSnapshot) -> Self:
        """A state that continues from a snapshot."""
        state = cls(snapshot.url)
        state.version, state.position, state.applied = snapshot.version, snapshot.position, snapshot.applied
        state.files, state.marks = dict(snapshot.files), dict(snapshot.marks)
        state.foreign = list(snapshot.foreign)
        state.metadata = snapshot.metadata
        state.protocol = {"writerFeatures": sorted(snapshot.features)}
        return state

    def apply(self, action: Mapping[str, Any]) -> None:
        """Applies one action of a commit or checkpoint."""
        if add := action.get("add"):
            file = live_file(add, self.url)
            self.files[file.path] = file
        elif remove := action.get("remove"):
            self._remove(remove)
        elif metadata := action.get("metaData"):
            self.metadata = metadata
        elif protocol := action.get("protocol"):
            self.protocol = protocol
        elif mark := action.get("txn"):
            self.marks[mark["appId"]] = int(mark["version"])

    def _remove(self, remove: Mapping[str, Any]) -> None:
        # A commit may add the file with its new vector before it removes it with the old one: these are two entries.
        path = unquote(remove["path"])
        known = self.files.get(path)
        if known is not None and known.vector == StoredVector.of_log(remove.get("deletionVector"), self.url):
            del self.files[path]

    def take_commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        """Applies one version of the log."""
        # Removals first: in the order of the lines, a file that got another vector would be lost.
        for action in sorted(actions, key=lambda action: "remove" not in action):
            self.apply(action)
        self.version = version
        info = info_of(actions)
        position = MirrorPosition.of_metadata(info, self.url)
        if position is not None:
            self.position, self.applied, self.foreign = position, applied_note(info), []
        else:
            self.foreign.append(foreign_commit(version, info, actions))

    def snapshot(self) -> LogSnapshot:
        """The state that was read.

        Raises:
            DamagedFileError: There is no mirror, or its table needs features that mirrors do not use.
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
        return LogSnapshot(
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
            applied=self.applied,
        )


def info_of(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The information that a commit has of itself."""
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def live_file(add: Mapping[str, Any], url: str) -> LiveFile:
    """The file of an action `add`.

    Raises:
        DamagedFileError: The action does not have the number of rows.
    """
    rows = msgspec.json.decode(add.get("stats") or "{}").get("numRecords")
    if rows is None:
        raise DamagedFileError("another program wrote a file without its number of rows into the mirror", file=url)
    vector = StoredVector.of_log(add.get("deletionVector"), url)
    return LiveFile(unquote(add["path"]), int(add["size"]), int(rows), int(add["modificationTime"]), vector)


def foreign_commit(version: int, info: Mapping[str, Any], actions: Sequence[Mapping[str, Any]]) -> ForeignCommit:
    """A commit of another program."""
    changes = [
        action.get(kind, {}).get("dataChange") for action in actions for kind in ("add", "remove") if kind in action
    ]
    schema = any("metaData" in action or "protocol" in action for action in actions)
    return ForeignCommit(version, str(info.get("operation", "?")), changes_rows=schema or any(changes))
