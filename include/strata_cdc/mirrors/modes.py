"""How a mirror's table takes changes, and the protocol and properties that it needs for that.
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
"""Of Delta's protocol: what mirrors have. A table with any other was changed by another program."""


class Mode(StrEnum):
    """What becomes of a file in which some rows die."""

    DELETION_VECTORS = "deletion_vectors"
    """It stays, and a vector says which of its rows are dead: cheap, and needs readers that know vectors."""
    COPY_ON_WRITE = "copy_on_write"
    """It is written anew without them."""

    @property
    def has_vectors(self) -> bool:
        """Whether readers have to know deletion vectors."""
        return self is Mode.DELETION_VECTORS


def protocol_of(mode: Mode, schema_text: str) -> dict[str, Any]:
    """The action that says what readers and writers have to know, with no more features than are used."""
    needed = {
        _VECTORS: mode.has_vectors,
        _TIMES: "timestamp_ntz" in schema_text,
        # All NULL is what some readers make of column mapping at reader version 2: here it is a feature, or nothing.
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
    """Properties of the table: other programs never cut the log, whose commits say positions (`log_cut.py` does)."""
    return {
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": "interval 36500 days",
        **({"delta.enableDeletionVectors": "true"} if mode.has_vectors else {}),
        **{key: value for key, value in own.items() if value is not None},
    }
