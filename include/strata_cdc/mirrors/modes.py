"""How a mirror's table takes changes, and the protocol and properties that this needs.
Not here: the changes (`apply.py`), the setting (`config/settings.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.mirrors.schema_text import has_mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

_VECTORS: Final = "deletionVectors"
_TIMES: Final = "timestampNtz"
_MAPPING: Final = "columnMapping"
_WRITER: Final = ("appendOnly", "invariants")
FEATURES: Final = frozenset({_VECTORS, _TIMES, _MAPPING, *_WRITER})
"""Features of Delta's protocol that mirrors use. A table with any other feature was changed by another program."""


class Mode(StrEnum):
    """What happens to a file if some of its rows are deleted."""

    DELETION_VECTORS = "deletion_vectors"
    """The file stays, and a vector has its dead rows: cheap, but readers must know vectors."""
    COPY_ON_WRITE = "copy_on_write"
    """The file is rewritten without these rows."""

    @property
    def has_vectors(self) -> bool:
        """Whether readers must know deletion vectors."""
        return self is Mode.DELETION_VECTORS


def protocol_of(mode: Mode, schema_text: str) -> dict[str, Any]:
    """The action that names what readers and writers must know; it names only features that are used."""
    needed = {
        _VECTORS: mode.has_vectors,
        _TIMES: "timestamp_ntz" in schema_text,
        # Some readers at version 2 read all values as NULL with column mapping: so it is a feature here, or not used.
        _MAPPING: has_mapping(schema_text),
    }
    features = [name for name, is_needed in needed.items() if is_needed]
    if not features:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": [*features, *_WRITER],
        }
    }


def properties_of(mode: Mode, own: Mapping[str, str | None]) -> dict[str, str]:
    """The table's properties: only `compact.py` may cut the log, whose commits have positions, and no other program."""
    return {
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": "interval 36500 days",
        **({"delta.enableDeletionVectors": "true"} if mode.has_vectors else {}),
        **{key: value for key, value in own.items() if value is not None},
    }
