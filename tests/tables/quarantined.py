"""The reasons of everything in quarantine, by folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.runs.verdict import IntervalVerdict
from strata_cdc.tables.quarantine import in_quarantine, read_reason

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.tables.quarantine import Reason


def quarantined(lake: Path | str, source: str) -> dict[str, Reason[IntervalVerdict] | None]:
    return {kept.folder: read_reason(kept.folder, IntervalVerdict) for kept in in_quarantine(str(lake), source)}
