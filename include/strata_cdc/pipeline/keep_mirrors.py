"""The upkeep of a source's mirrors by its settings: what the DAG, the command line and `strata run` call.
Not here: the work (`mirrors/follow/upkeep.py`), changes of rows (`pipeline/ingest.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import now_micros
from strata_cdc.lake.known_lake import known_if_stored
from strata_cdc.mirrors.follow.upkeep import CompactionDue, KeptUp, compact_mirrors, vacuum_mirrors
from strata_cdc.mirrors.lock import MirrorLocks

if TYPE_CHECKING:
    from strata_cdc.config.settings import Settings


class UpkeepSums(Struct, frozen=True):
    """What was done to a source's mirrors, in words."""

    source: str
    mirrors: tuple[str, ...]


def compact_due(source: str, *, settings: Settings) -> list[KeptUp]:
    """Compacts those mirrors that the settings have for worn; waits for nobody for long, and nobody waits for it.

    Returns:
        The mirrors to which something was done, or should have been.
    """
    configured = known_if_stored(settings.source(source))
    due = CompactionDue(configured.settings.compact_files, configured.settings.compact_dead_percent)
    locks = MirrorLocks(configured.lake, configured.name, configured.lock_place)
    return _done(compact_mirrors(configured.lake, configured.name, lambda _: True, locks=locks, due=due))


def keep_mirrors(source: str, *, settings: Settings) -> list[KeptUp]:
    """As `compact_due`, and deletes files that only states need which are older than the settings keep them."""
    compacted = compact_due(source, settings=settings)
    configured = settings.source(source)
    vacuumed = vacuum_mirrors(
        configured.lake,
        configured.name,
        lambda _: True,
        locks=MirrorLocks(configured.lake, configured.name, configured.lock_place),
        now_micros=now_micros(),
        retain_hours=configured.settings.keep_mirror_hours,
    )
    return [*compacted, *_done(vacuumed)]


def _done(mirrors: list[KeptUp]) -> list[KeptUp]:
    return [kept for kept in mirrors if kept.summary() is not None]
