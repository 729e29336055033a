"""Sends to OpenLineage what a step has read and written, if Airflow's provider for it is installed and configured.
Not here: the facts (`strata_cdc.ops.lineage`), their form (`lineage_facets.py`), how events travel (the provider)."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from typing import TYPE_CHECKING, Any

from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_LOG = logging.getLogger(__name__)
_PROVIDER = "airflow.providers.openlineage"


def is_on() -> bool:
    """Whether anybody listens; if not, nothing else is done for lineage."""
    if importlib.util.find_spec(_PROVIDER) is None:
        return False
    return not importlib.import_module(f"{_PROVIDER}.conf").is_disabled()


def tell_published(report: Any, settings: Any) -> None:
    """Sends each table that a run has published or withheld: from the server's table into its change table; and the
    tables that were emptied."""

    def events() -> Iterable[Any]:
        describe, source = importlib.import_module("strata_cdc.ops.lineage.describe"), settings.source(report.source)
        yield from _facets().versions(source, describe.describe_emptied(settings.lake, report))
        yield _facets().published(source, describe.describe_published(settings.lake, report))

    _tell(report.source, events)


def tell_versions(source: str, versions: Sequence[int], settings: Any) -> None:
    """Sends the tables as schema versions made them, with the former name of a renamed table."""

    def events() -> Iterable[Any]:
        settings_of_source = settings.source(source)
        engine = importlib.import_module("strata_cdc.store.database").open_store(settings_of_source.store_url)
        made = importlib.import_module("strata_cdc.ops.lineage.versions").describe_versions(engine, source, versions)
        yield from _facets().versions(settings_of_source, made)

    _tell(source, events)


def tell_mirrors(source: str, tables: Sequence[str], settings: Any, *, dumped: bool = False) -> None:
    """Sends the mirrors that changed: from the change table, or from the server if they were dumped."""

    def events() -> Iterable[Any]:
        describe = importlib.import_module("strata_cdc.ops.lineage.describe").describe_mirrors
        settings_of_source = settings.source(source)
        yield _facets().mirrors(settings_of_source, describe(settings.lake, source, tables), dumped=dumped)

    _tell(source, events)


def _facets() -> Any:
    return importlib.import_module("strata_cdc.airflow.lineage_facets")


def _tell(source: str, events: Callable[[], Iterable[Any]]) -> None:
    """Sends the events. A task never fails because of it: the provider logs what it cannot send."""
    if not is_on():
        return
    emit = importlib.import_module(f"{_PROVIDER}.api").emit_dataset_lineage
    try:
        for event in events():
            if event.inputs or event.outputs:
                emit(inputs=event.inputs, outputs=event.outputs)
    except StrataError as error:
        _LOG.warning("%s: no lineage is sent: %s", source, error)
