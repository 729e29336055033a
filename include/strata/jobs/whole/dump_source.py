"""A source's dump from its settings to the report: what the DAG and the command line call.
Not here: the steps of it (`jobs/dump/`), reading (`mirrors/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.jobs.dump.catch_up import CatchUp
from strata.jobs.dump.choose_tables import tables_to_dump
from strata.jobs.dump.dump_table import DumpSettings, DumpSource
from strata.jobs.dump.dump_tables import DumpReport, dump_tables
from strata.jobs.ingest import first_snapshot, refuse_statement_format
from strata.jobs.plan.owed import MEGABYTE
from strata.mirrors.modes import Mode
from strata.schema.history.sql_store import SchemaStore
from strata.store.database import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata.config.settings import Settings
    from strata.jobs.dump.dump_table import DumpProgress


def dump_source(
    source: str,
    patterns: Sequence[str] = (),
    *,
    settings: Settings,
    parallel: int | None = None,
    pause_ms: int | None = None,
    tell: Callable[[DumpProgress], None] = lambda _: None,
) -> DumpReport:
    """Reads the rows of tables from the server while others write to it, and makes their mirrors.

    Args:
        source: The source's name.
        patterns: Tables that match one of these, whether they have a mirror or not; by default those of the settings'
            `mirrors` whose rows nobody has.
        settings: The settings.
        parallel: In the place of the settings' `dump_parallel`.
        pause_ms: In the place of `dump_pause_ms`.
        tell: Is told of each chunk.

    Raises:
        Usage: No table matches.
        SourceSettingsError: The server has no GTIDs, or logs statements.
        StrataError: The only table could not be dumped.
    """
    found = settings.source(source)
    engine = open_store(found.store_url)
    first_snapshot(source, settings=settings)
    reach = CatchUp(found, engine, lambda: refuse_statement_format(found))
    reach()
    tables = tables_to_dump(found, engine, patterns)
    if not tables and not patterns:
        return DumpReport(source, (), ())
    chosen = found.settings
    how = DumpSettings(
        chunk_bytes=chosen.dump_chunk_mb * MEGABYTE,
        pause_seconds=(chosen.dump_pause_ms if pause_ms is None else pause_ms) / 1000,
    )
    of = DumpSource(source, found.address, found.lake, SchemaStore(engine), reach, Mode(chosen.mirror_mode))
    return dump_tables(of, tables, how, parallel=parallel or chosen.dump_parallel, tell=tell)
