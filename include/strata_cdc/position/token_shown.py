"""The content of a token, for people and programs.
Not here: its text (`position/token_text.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from strata_cdc.position.source_position import Origin, SourcePosition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def shown(source_position: SourcePosition) -> dict[str, Any]:
    """One source of a token, as JSON values."""
    when = (_EPOCH + timedelta(microseconds=source_position.committed_at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "source": source_position.source,
        **source_position.position.describe(),
        "committed_at": when if source_position.committed_at else None,
        "lineage": source_position.lineage or None,
        **({"inside": _inside(source_position)} if source_position.parts else {}),
        **({"copied": list(map(_copied, source_position.origins))} if source_position.origins else {}),
    }


def _inside(source_position: SourcePosition) -> int | dict[str, int]:
    """The steps of the transaction that begins at a position in a file, or those of each transaction by GTID."""
    if not source_position.position.is_shared:
        return sum(part.steps for part in source_position.parts)
    return {str(part.transaction): part.steps for part in source_position.parts}


def _copied(origin: Origin) -> dict[str, Any]:
    return {"source": origin.source, **origin.position.describe(), "lineage": origin.lineage or None}
