"""Publishing what a run has staged without a store: nothing was published before, and nobody has decided anything.
Not here: publishing by the ledgers (`pipeline.ingest.publish`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.pipeline.publish.publication import RunPublication

if TYPE_CHECKING:
    from strata_cdc.pipeline.publish.report import PublishReport


def publication_of(lake: str, source: str, run: str) -> RunPublication:
    """The publication of a run."""
    return RunPublication(lake, source, run, is_published=lambda *_: False, known={})


def publish_staged(lake: str, source: str, run: str) -> PublishReport:
    """Commits a run's tables."""
    publication = publication_of(lake, source, run)
    return publication.report(list(publication.commit_tables()))
