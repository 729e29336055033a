"""A source's dump from its settings to the report: what the DAG and the command line call.
Not here: the steps of it (`mirrors/dump/`), reading (`mirrors/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import Usage
from strata_cdc.lake.known_lake import known_store
from strata_cdc.mirrors.dump.backups.take_export import ExportFacts, take_export
from strata_cdc.mirrors.dump.backups.take_in import take_in
from strata_cdc.mirrors.dump.catch_up import CatchUp
from strata_cdc.mirrors.dump.choose_tables import tables_to_dump
from strata_cdc.mirrors.dump.dump_table import DumpSettings
from strata_cdc.mirrors.dump.dump_tables import DumpReport, dump_tables
from strata_cdc.mirrors.dump.finish import DumpSource
from strata_cdc.mirrors.follow.blocked import diverged
from strata_cdc.mirrors.follow.schema_events import SchemaEvents
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import renames_by
from strata_cdc.pipeline.ingest import first_snapshot
from strata_cdc.pipeline.plan.source_intervals import MEGABYTE
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.patterns import matches
from strata_cdc.selection.wanted import folds_names
from strata_cdc.store.read_again import ReadAgainLedger
from strata_cdc.ticdc.export_folder import read_export
from strata_cdc.ticdc.folder import read_checkpoint
from strata_cdc.ticdc.land_settings import land_sink_source
from strata_cdc.tracking.notice_ddl import track_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.mirrors.dump.backups.take_in import Backup
    from strata_cdc.mirrors.dump.dump_table import DumpProgress
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import TableName


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
        parallel: Instead of the settings' `dump_parallel`.
        pause_ms: Instead of `dump_pause_ms`.
        tell: Called with each chunk.

    Raises:
        Usage: No table matches, or no transaction has landed.
        SourceSettingsError: The server has no GTIDs, or logs statements.
        StrataError: The only table could not be dumped.
    """
    configured = settings.source(source)
    engine = known_store(configured)
    of = _caught_up(configured, engine, settings)
    tables = tables_to_dump(configured, engine, patterns, _wrong_by(engine, source))
    if not tables and not patterns:
        return DumpReport(source, (), ())
    how = dump_settings(configured, pause_ms)
    return dump_tables(of, tables, how, parallel=parallel or configured.settings.dump_parallel, tell=tell)


def dump_settings(source: Source, pause_ms: int | None = None) -> DumpSettings:
    """How a source's tables are read; `pause_ms` instead of the settings' own."""
    chosen = source.settings
    return DumpSettings(
        chunk_bytes=chosen.dump_chunk_mb * MEGABYTE,
        pause_seconds=(chosen.dump_pause_ms if pause_ms is None else pause_ms) / 1000,
    )


def dump_source_of(
    source: Source, engine: sa.Engine, begin: Callable[[TableName], bool] = lambda _: True
) -> DumpSource:
    """What dumps need of a source.

    Args:
        source: The source.
        engine: Its store.
        begin: Whether a table is still to be dumped; called when no other process works on the table.
    """
    ledger = ReadAgainLedger(engine)
    return DumpSource(
        name=source.name,
        server=source.server,
        lake=source.lake,
        store=SchemaStore(engine),
        catch_up=CatchUp(source, engine),
        mode=Mode(source.settings.mirror_mode),
        renames=renames_by(source.settings.mirror_renames, folded=folds_names(source.name, engine)),
        begin=begin,
        done=lambda table: ledger.done(source.name, table.database, table.table),
        lock_place=source.lock_place,
    )


def take_backup(
    source: str, patterns: Sequence[str] = (), *, settings: Settings, backup: Backup, mysqld: str | None = None
) -> DumpReport:
    """Makes mirrors from a backup that another program has made, instead of reading the rows from the server.

    Args:
        source: The source's name.
        patterns: As those of `dump_source`, of the backup's tables.
        settings: The settings.
        backup: The backup.
        mysqld: Path of the program that it is loaded into.

    Raises:
        Usage: No table matches, the stream does not reach back to the backup, or there is no mysqld.
        BadData: The backup is not whole, or cannot be loaded.
        StrataError: The only table failed.
    """
    configured = settings.source(source)
    engine = known_store(configured)
    of = _caught_up(configured, engine, settings)

    def choose(tables: set[TableName]) -> list[TableName]:
        due = tables_to_dump(configured, engine, patterns, _wrong_by(engine, source))
        chosen = [table for table in due if table in tables]
        if patterns and not chosen:
            raise Usage(f"the backup has no rows of {', '.join(patterns)}", source=source)
        return chosen

    return take_in(of, backup, choose, mysqld=mysqld)


def take_dumpling(
    source: str,
    patterns: Sequence[str] = (),
    *,
    settings: Settings,
    url: str,
    feed_start: int | None = None,
    time_zone: str | None = None,
) -> DumpReport:
    """Makes mirrors of a sink's tables from an export by Dumpling, after landing and tracking what the sink has.

    Args:
        source: The source's name.
        patterns: As those of `dump_source`, of the export's tables.
        settings: The settings.
        url: Folder or URL of the export.
        feed_start: The start-ts of the changefeed: only for an export from before its first commit.
        time_zone: In which the export has TIMESTAMP.

    Raises:
        Usage: The source is no sink, the folder is no export, no table matches, or the sink has not all commits after
            the export.
        BadData: The export is not whole.
        StrataError: The only table failed.
    """
    sink = settings.source(source)
    if not sink.is_sink:
        raise Usage(
            "the source is a server, and an export by Dumpling is of TiDB",
            source=source,
            remedy="`strata dump` reads the rows from the server; it also takes --from-mysqldump and --from-shell.",
        )
    engine = known_store(sink)
    export = read_export(url)
    # First: all below it has landed afterwards.
    checkpoint = read_checkpoint(sink.settings.url or "")
    land_sink_source(sink)
    track_source(sink, engine)
    due = tables_to_dump(sink, engine, patterns, _wrong_by(engine, source))
    chosen = [table for table in due if table in export.tables]
    if patterns and not chosen:
        raise Usage(f"the export has no table {', '.join(patterns)}", source=source)
    if not patterns:
        # Of these no row has landed: the report says so.
        wanted = [table for table in export.tables if matches(table, sink.settings.mirrors, folded=False)]
        chosen += [table for table in wanted if not SchemaStore(engine).timeline(source, [table])]
    facts = ExportFacts(checkpoint, feed_start, time_zone)
    return take_export(dump_source_of(sink, engine), export, chosen, facts)


def _wrong_by(engine: sa.Engine, source: str) -> Callable[[Mirror], bool]:
    schema_events = SchemaEvents(engine, source)
    return lambda mirror: diverged(mirror, schema_events) is not None


def _caught_up(source: Source, engine: sa.Engine, settings: Settings) -> DumpSource:
    first_snapshot(source.name, settings=settings)
    of = dump_source_of(source, engine)
    of.catch_up()
    if of.store.position(source.name) is None:
        raise Usage(
            "nothing has landed, and without GTIDs nothing says where the stream will begin: a dump cannot say which "
            "rows it has",
            source=source.name,
            remedy="Set gtid_mode = ON on the server, then run the same again.",
        )
    return of
