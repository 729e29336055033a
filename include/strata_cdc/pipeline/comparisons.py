"""Comparisons of a source's tables by name, with the settings filled in: what the DAGs and the command line call.
Not here: comparing (`quality/reconcile/`), the steps of a run (`ingest.py`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strata_cdc.pipeline import ingest
from strata_cdc.quality.reconcile import verify_changes as verify
from strata_cdc.quality.reconcile.catch_up import catch_up
from strata_cdc.quality.reconcile.reading import ComparisonRequest
from strata_cdc.quality.reconcile.reconcile_source import reconcile_source
from strata_cdc.quality.reconcile.server_rows import Pace
from strata_cdc.selection.sensitive import sensitive_columns
from strata_cdc.store.database import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.quality.reconcile.report import SourceReport, TableReport
    from strata_cdc.schema.model.definition import TableName

_PATIENCE_SECONDS = 300.0
"""With others who land or track the same source."""


def reconcile(
    source: str,
    *,
    settings: Settings,
    tables: Sequence[str] = (),
    names: frozenset[TableName] | None = None,
    keys: int | None = None,
    watch: Callable[[TableReport], None] = lambda _: None,
) -> SourceReport:
    """Compares tables with their server, and lands and tracks what that needs; a verdict for each table.

    Args:
        source: The source's name.
        settings: The settings.
        tables: Patterns on top of the settings'.
        names: Only these.
        keys: How many rows of each table; None for all.
        watch: Called with each table as soon as it is compared.
    """
    configured = settings.source(source)
    land, track = (partial(step, source, settings=settings) for step in (ingest.land_binlogs, ingest.track))
    pace = Pace(configured.settings.reconcile_rows, configured.settings.reconcile_pause_ms / 1000)
    engine = open_store(configured.store_url)
    return reconcile_source(
        configured,
        engine,
        ComparisonRequest(tuple(tables), names, keys, pace=pace, sensitive=partial(_sensitive, configured, engine)),
        catch_up=partial(catch_up, configured, land=land, track=track, seconds=_PATIENCE_SECONDS),
        watch=watch,
    )


def verify_changes(
    source: str,
    *,
    settings: Settings,
    tables: Sequence[str] = (),
    names: frozenset[TableName] | None = None,
    watch: Callable[[TableReport], None] = lambda _: None,
) -> SourceReport:
    """Compares each published change with those before it; no server is queried. Its arguments are `reconcile`'s."""
    configured = settings.source(source)
    engine = open_store(configured.store_url)
    wanted = ComparisonRequest(tuple(tables), names, sensitive=partial(_sensitive, configured, engine))
    return verify.verify_changes(configured, engine, wanted, watch=watch)


def _sensitive(source: Source, engine: sa.Engine, table: TableName) -> Collection[str]:
    return sensitive_columns(source, engine, [table]).get(str(table), ())
