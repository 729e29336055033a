"""Dumps the tables whose mirrors are blocked because no log has their rows: what runs start automatically.
Not here: which tables these are (`mirrors/follow/note_waiting.py`), dumping (`mirrors/dump/`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from strata_cdc.clock import now_micros
from strata_cdc.errors import AlreadyRunningError, StrataError
from strata_cdc.lake.known_lake import known_store
from strata_cdc.mirrors.dump.dump_tables import DumpReport, dump_tables
from strata_cdc.pipeline.dump_source import dump_settings, dump_source_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.patterns import matches
from strata_cdc.selection.wanted import folds_names
from strata_cdc.store.database import open_store
from strata_cdc.store.read_again import ReadAgainLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.errors import ErrorFacts
    from strata_cdc.mirrors.dump.dump_table import DumpProgress
    from strata_cdc.store.read_again import TableToRead

_LONGEST_REST: Final = 24 * 60
"""Minutes between two dumps of a table that cannot be dumped."""
_LOG = logging.getLogger("strata.mirror")


def tables_to_read_again(source: str, *, settings: Settings) -> list[TableToRead]:
    """The tables of a source that a run dumps automatically; none if the settings turn it off."""
    configured = settings.source(source)
    return _waiting(configured, open_store(configured.store_url))


def tables_due(source: str, *, settings: Settings, now: int) -> list[TableToRead]:
    """Those of them whose last dump did not fail just now: the more often one has, the longer it rests.

    Args:
        source: The source's name.
        settings: The settings.
        now: Microseconds UTC.
    """
    return [table for table in tables_to_read_again(source, settings=settings) if not _rests(table, now)]


def _rests(table: TableToRead, now: int) -> bool:
    minutes = min(2**table.tries, _LONGEST_REST)
    return table.error is not None and table.tried_at is not None and now < table.tried_at + minutes * 60_000_000


def read_again(source: str, *, settings: Settings, tell: Callable[[DumpProgress], None] = lambda _: None) -> DumpReport:
    """Dumps them, each by one process at a time; a dump that was killed continues where it was.

    A table that cannot be dumped is in the report, the ledger and the log, and the next run tries it again.

    Args:
        source: The source's name.
        settings: The settings.
        tell: Called with each chunk.

    Raises:
        SourceUnavailableError: The server does not answer.
        StoreUnavailableError: The store does not.
    """
    configured = settings.source(source)
    engine = known_store(configured)
    waiting = _waiting(configured, engine)
    if not waiting:
        return DumpReport(source, (), ())
    ledger = ReadAgainLedger(engine)

    def begin(table: TableName) -> bool:
        """Whether it waits still, now that nobody else is at it."""
        if (table.database, table.table) not in {
            (waits.database_name, waits.table_name) for waits in ledger.all(source)
        }:
            return False
        ledger.begin(source, table.database, table.table, now_micros())
        return True

    tables = [TableName(waits.database_name, waits.table_name) for waits in waiting]
    how = dump_settings(configured)
    try:
        report = dump_tables(
            dump_source_of(configured, engine, begin=begin),
            tables,
            how,
            parallel=configured.settings.dump_parallel,
            tell=tell,
        )
    except StrataError as error:
        # The only one: its failure is no failure of the run.
        report = DumpReport(source, (), (error.located(source=source, table=str(tables[0])).facts(),))
    return DumpReport(
        source, report.tables, tuple(facts for facts in report.failed if _note_failure(ledger, waiting, facts))
    )


def _waiting(source: Source, engine: sa.Engine) -> list[TableToRead]:
    # No server has the rows of a sink's tables.
    if source.is_sink or not source.settings.mirror_read_again or not source.settings.mirrors:
        return []
    folded = folds_names(source.name, engine)
    return [
        table
        for table in ReadAgainLedger(engine).all(source.name)
        if matches(TableName(table.database_name, table.table_name), source.settings.mirrors, folded=folded)
    ]


def _note_failure(ledger: ReadAgainLedger, waiting: Sequence[TableToRead], error: ErrorFacts) -> bool:
    """Whether the table's dump failed: a dump that another process does now is no failure."""
    if error.error == AlreadyRunningError.__name__ or error.table is None:
        _LOG.info("%s is being dumped by another process: %s", error.table, error.message)
        return False
    for table in waiting:
        if table.name == error.table:
            ledger.failed(table.source, table.database_name, table.table_name, error.message)
    _LOG.warning("%s could not be read again: %s", error.table, error.message)
    return True
