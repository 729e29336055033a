"""The content of a token, for people and programs.
Not here: its text (`position/token_text.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from strata_cdc.position.source_position import Origin, SourcePosition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def shown(place: SourcePosition) -> dict[str, Any]:
    """One source of a token, as JSON values."""
    when = (_EPOCH + timedelta(microseconds=place.committed_at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "source": place.source,
        **place.position.describe(),
        "committed_at": when if place.committed_at else None,
        "lineage": place.lineage or None,
        **({"inside": _inside(place)} if place.parts else {}),
        **({"copied": list(map(_copied, place.origins))} if place.origins else {}),
    }


def _inside(place: SourcePosition) -> int | dict[str, int]:
    """The steps of the transaction that begins at a position in a file, or those of each transaction by GTID."""
    if not place.position.is_shared:
        return sum(part.steps for part in place.parts)
    return {str(part.transaction): part.steps for part in place.parts}


def _copied(origin: Origin) -> dict[str, Any]:
    return {"source": origin.source, **origin.position.describe(), "lineage": origin.lineage or None}
