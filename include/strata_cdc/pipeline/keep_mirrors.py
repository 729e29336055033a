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


class UpkeepReport(Struct, frozen=True):
    """What was done to a source's mirrors."""

    source: str
    mirrors: tuple[KeptUp, ...]
    """Those to which something was done, or should have been."""

    def lines(self) -> tuple[str, ...]:
        """In words, a line each."""
        return tuple(f"{mirror.table}: {mirror.summary()}" for mirror in self.mirrors)


class UpkeepSums(Struct, frozen=True):
    """A report in words."""

    source: str
    mirrors: tuple[str, ...]


def compact_due(source: str, *, settings: Settings) -> UpkeepReport:
    """Compacts those mirrors that the settings have for worn; waits for nobody for long, and nobody waits for it."""
    configured = known_if_stored(settings.source(source))
    due = CompactionDue(configured.settings.compact_files, configured.settings.compact_dead_percent)
    locks = MirrorLocks(configured.lake, configured.name, configured.lock_place)
    return _report(source, compact_mirrors(configured.lake, configured.name, lambda _: True, locks=locks, due=due))


def keep_mirrors(source: str, *, settings: Settings) -> UpkeepReport:
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
    return _report(source, [*compacted.mirrors, *vacuumed])


def _report(source: str, done: list[KeptUp]) -> UpkeepReport:
    return UpkeepReport(source, tuple(kept for kept in done if kept.summary() is not None))
