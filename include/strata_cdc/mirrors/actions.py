"""What is in the log of a mirror, as values: its data files, its properties, and commits of other programs.
Not here: reading and writing the log (`log.py`), vectors (`vectors.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.mirrors.vectors import StoredVector


class LiveFile(Struct, frozen=True):
    """A data file of the current table, with its dead rows."""

    path: str
    """Relative to the table, as on the storage."""
    size_bytes: int
    rows: int
    """Rows in the file, including dead ones."""
    modified_ms: int
    vector: StoredVector | None = None
    has_invalid: bool = False
    """For a file that was just written: whether it has the map of the values that its columns do not hold."""

    @property
    def live_rows(self) -> int:
        """Number of the rows that are not dead."""
        return self.rows - (self.vector.cardinality if self.vector else 0)

    def with_vector(self, vector: StoredVector) -> LiveFile:
        """The file with these dead rows."""
        return replace(self, vector=vector)

    def added(self) -> dict[str, Any]:
        """The action that adds the file to the table."""
        # No bounds, no counts of NULLs: readers parse those of removed files too, by the types that columns have now.
        stats = {"numRecords": self.rows, "tightBounds": self.vector is None}
        action = {
            "path": _escaped(self.path),
            "partitionValues": {},
            "size": self.size_bytes,
            "modificationTime": self.modified_ms,
            "dataChange": True,
            "stats": msgspec.json.encode(stats).decode(),
        }
        return {"add": action | ({"deletionVector": self.vector.to_log()} if self.vector else {})}

    def removed(self, now_ms: int) -> dict[str, Any]:
        """The action that removes the file from the table, together with its vector."""
        action = {
            "path": _escaped(self.path),
            "deletionTimestamp": now_ms,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": self.size_bytes,
        }
        return {"remove": action | ({"deletionVector": self.vector.to_log()} if self.vector else {})}


class ForeignCommit(Struct, frozen=True):
    """A commit that another program made in a mirror's table."""

    version: int
    operation: str
    changes_rows: bool
    """Whether the commit reports that it changed rows, other than by moving them to other files."""


class LogSnapshot(Struct, frozen=True):
    """The table after one version of its log."""

    url: str
    version: int
    position: MirrorPosition
    schema_text: str
    properties: Mapping[str, str]
    files: Mapping[str, LiveFile]
    marks: Mapping[str, int]
    """Application transactions."""
    table_id: str
    features: frozenset[str]
    foreign: tuple[ForeignCommit, ...] = ()
    """Commits of other programs since Strata's last commit."""
    created_ms: int = 0
    applied: str = ""
    """The published files that the rows come from (`AppliedFiles.text`), as Strata's last commit has them; empty if no
    file was applied since the rows were read."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The part of Delta's action `metaData` that can change."""
        return {
            "id": self.table_id,
            "schemaString": self.schema_text,
            "configuration": dict(self.properties),
            "createdTime": self.created_ms,
        }

    @property
    def live_rows(self) -> int:
        """Rows that readers see."""
        return sum(file.live_rows for file in self.files.values())


def _escaped(path: str) -> str:
    """Paths in the log are URIs. Strata's paths have nothing to escape; paths by deltalake's `optimize` may."""
    return path.replace("%", "%25").replace(" ", "%20").replace(":", "%3A") if set(path) & set("% :") else path


def has_invalid(added: Iterable[LiveFile]) -> bool:
    """Whether any of some new files has the map of the values that its columns do not hold."""
    return any(file.has_invalid for file in added)
