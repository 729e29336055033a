"""All housekeeping of a source in one call, or what it would do: what the DAG and `strata housekeep` call.
Not here: the parts (`housekeep/`, `mirrors/follow/upkeep.py`), landed segments (`housekeep/retain_landed.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import now_micros
from strata_cdc.lake.known_lake import known_if_stored
from strata_cdc.mirrors.follow.upkeep import CompactionDue, planned_upkeep
from strata_cdc.pipeline.housekeep.clean_runs import delete_due, find_due
from strata_cdc.pipeline.housekeep.merge_intervals import MergeScope, planned_merges
from strata_cdc.pipeline.keep_changes import keep_changes
from strata_cdc.pipeline.keep_mirrors import keep_mirrors
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from strata_cdc.config.settings import Settings
    from strata_cdc.errors import StrataError
    from strata_cdc.pipeline.housekeep.clean_runs import ExpiredRuns


class Housekeeping(Struct, frozen=True):
    """What housekeeping did, or would do."""

    expired: ExpiredRuns
    """Run folders and quarantine by age."""
    merged: tuple[str, ...]
    """Of intervals and the files of change tables, in words."""
    mirrors: tuple[str, ...]
    """Of mirrors: files that became others, and files that no state needs which is still kept."""
    faults: tuple[StrataError, ...] = ()
    """Why files of change tables stay as they are; all else is done."""

    def raise_if_failed(self) -> None:
        """Fails if something could not be done.

        Raises:
            StrataError: The first reason.
        """
        if self.faults:
            raise self.faults[0]


def housekeep_source(source: str, *, settings: Settings, scope: MergeScope = MergeScope.RECENT) -> Housekeeping:
    """Deletes run folders and quarantine by age, makes few intervals and files of many, compacts mirrors and deletes
    what no kept state of them needs. Safe to repeat, and to be killed.

    Args:
        source: The source's name.
        settings: The settings.
        scope: Which intervals are looked at.

    Raises:
        StrataError: The store or the lake does not answer.
    """
    configured = known_if_stored(settings.source(source))
    expired = find_due(configured, open_store(configured.store_url, OnMissing.EMPTY), now=now_micros())
    delete_due(configured, expired)
    merged = keep_changes(source, settings=settings, scope=scope)
    mirrors = keep_mirrors(source, settings=settings)
    faults = tuple(step.fault for step in merged if step.fault is not None)
    return Housekeeping(expired, tuple(step.line for step in merged), tuple(kept.line for kept in mirrors), faults)


def planned_housekeeping(source: str, *, settings: Settings, scope: MergeScope = MergeScope.RECENT) -> Housekeeping:
    """What `housekeep_source` would do; nothing is changed. Files that only its own merges make unneeded are not in it.

    Args:
        source: The source's name.
        settings: The settings.
        scope: As there.

    Raises:
        StrataError: The store or the lake does not answer.
    """
    configured = known_if_stored(settings.source(source))
    engine = open_store(configured.store_url, OnMissing.EMPTY)
    expired = find_due(configured, engine, now=now_micros())
    due = CompactionDue(configured.settings.compact_files, configured.settings.compact_dead_percent)
    mirrors = planned_upkeep(
        configured.lake, source, due, now_micros=now_micros(), retain_hours=configured.settings.keep_mirror_hours
    )
    merges = planned_merges(configured, engine, scope=scope)
    return Housekeeping(expired, tuple(step.line for step in merges), tuple(mirrors))
