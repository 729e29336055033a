"""What is in a token, for people and programs.
Not here: its text (`gtid/token_text.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from strata.gtid.place import FilePosition

if TYPE_CHECKING:
    from strata.gtid.place import Origin, Place
    from strata.gtid.sets import GtidSet

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def shown(place: Place) -> dict[str, Any]:
    """One source of a token, as values that JSON has."""
    found = place.position
    inside = found.steps if isinstance(found, FilePosition) else {str(part.gtid): part.steps for part in place.parts}
    when = (_EPOCH + timedelta(microseconds=place.committed_at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "source": place.source,
        **_position(found),
        "committed_at": when if place.committed_at else None,
        "lineage": place.lineage or None,
        **({"inside": inside} if inside else {}),
        **({"copied": list(map(_copied, place.origins))} if place.origins else {}),
    }


def _position(found: GtidSet | FilePosition) -> dict[str, Any]:
    if isinstance(found, FilePosition):
        return {"binlog_file": found.at.file, "binlog_pos": found.at.offset, "server_uuid": found.server_uuid}
    return {"gtid_executed": str(found)}


def _copied(origin: Origin) -> dict[str, Any]:
    return {"source": origin.source, **_position(origin.position), "lineage": origin.lineage or None}
