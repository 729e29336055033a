"""Requests without any possible result, refused before anything has been done for them: patterns that match no table,
spans from before the stream.
Not here: patterns once all is tracked, where it is exact (`selection/wanted.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.protocol.connection import connect, server_errors
from strata_cdc.clock import from_micros
from strata_cdc.errors import SettingsError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.schema.live.names import ServerTables
from strata_cdc.schema.model.patterns import unmatched
from strata_cdc.selection.wanted import NAMES_OF_TABLES, known_tables, no_match
from strata_cdc.store.database import find_store
from strata_cdc.ticdc.land_settings import sink_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.schema.model.definition import TableName


def refuse_misspelt(source: Source, requested: Sequence[str]) -> None:
    """Refuses patterns of a request, and the settings' `tables` where none of them matches anything.

    A table counts if the server has it now, or the history or the ledger knows it. The server is queried only where the
    latter do not suffice.

    Raises:
        Usage: A pattern of the request matches no table.
        SettingsError: There are tables, and no pattern of the settings matches any.
        StrataError: The server, the store or the lake does not answer.
    """
    engine = find_store(source.store_url)
    stream = LandedStream.open(source.lake, source.name)
    known = frozenset() if engine is None else known_tables(source, engine, stream)
    # By one case: what is refused here must match in none.
    settings = source.settings.tables
    missed, unmet = unmatched(requested, known, folded=True), unmatched(settings, known, folded=True)
    if not missed and len(unmet) < len(settings):
        return
    known |= _tables_there(source)
    for pattern in unmatched(requested, known, folded=True):
        raise Usage(no_match(pattern, known), source=source.name, remedy=NAMES_OF_TABLES)
    unmet = unmatched(settings, known, folded=True)
    if known and len(unmet) == len(settings):
        why = "; ".join(no_match(pattern, known) for pattern in unmet)
        raise SettingsError(f"sources.{source.name}.tables: {why}", source=source.name, remedy=NAMES_OF_TABLES)


def _tables_there(source: Source) -> frozenset[TableName]:
    """The tables that the server has now, or that a sink's folder has."""
    if source.is_sink:
        return sink_tables(source)
    with server_errors(source.address), connect(source.address) as connection:
        return frozenset(ServerTables.from_server(connection).names)


def refuse_before_stream(source: str, end: int, *, settings: Settings) -> None:
    """Refuses a span given by hand in which nothing can be known, so that "nothing is pending" is no wrong answer.

    Args:
        source: The source's name.
        end: Where the span ends (microseconds UTC, exclusive).
        settings: The settings.

    Raises:
        Usage: All of the span is before the first transaction that has landed.
    """
    stream = LandedStream.open(settings.source(source).lake, source)
    if stream.last_seq < stream.first_seq:
        return
    begins = stream.record_at(stream.first_seq)[1].committed_at
    if end <= begins:
        raise Usage(
            f"nothing from before {from_micros(end):%Y-%m-%d %H:%M:%S} UTC is in the stream: its first transaction was "
            f"committed at {from_micros(begins):%Y-%m-%d %H:%M:%S}",
            source=source,
            remedy="Ask for a later span. `strata land --files FILES` lands older binlogs, if they are kept "
            "somewhere, as a source of their own.",
        )
