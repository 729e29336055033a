"""The tracking step as the settings say: versions are stored, or with `track_schema_versions = false` DDL is only
reported. Not here: tracking (`track_schema.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.sources.port import Transactions
from strata_cdc.landing.change_source import LandedSource
from strata_cdc.landing.landed import LandedStream
from strata_cdc.schema.ddl.context import context_of, lossy_text
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import SYSTEM_DATABASES, TrackedPosition
from strata_cdc.schema.tracker.notices import NoticeKind
from strata_cdc.schema.tracker.stream import TrackReport
from strata_cdc.store.own import own_database
from strata_cdc.tracking.track_schema import track_landed
from strata_cdc.tracking.track_sink import track_sink

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.config.settings import Source


def track_source(source: Source, engine: sa.Engine) -> TrackReport:
    """Tracks what has been landed of a source, or only reports its DDL if the settings switch versions off.

    Raises:
        CorruptEventError: Versions before the fault have been stored.
        AlreadyRunningError: Another tracker works on the source.
        StreamHoleError: A segment is missing.
    """
    if source.is_sink:
        return track_sink(source.lake, source.name, engine)
    if source.settings.track_schema_versions:
        return track_landed(source.lake, source.name, engine, source.settings.sensitive)
    return notice_landed(source.lake, source.name, engine)


def notice_landed(lake: str, source: str, engine: sa.Engine) -> TrackReport:
    """Reports the DDL that has been landed after the tracked position. Nothing is stored: the position stays, no row
    after it can be decoded, and a later tracking begins there, so that nothing is lost.

    Raises:
        CorruptEventError: A segment is damaged.
        StreamHoleError: A segment is missing.
    """
    at = SchemaStore(engine).position(source) or TrackedPosition(source)
    report = TrackReport(source, seq=at.seq, gtid_executed=at.gtid_executed, committed_at=at.committed_at)
    stream = LandedStream.open(lake, source)
    exclude = SYSTEM_DATABASES | own_database(engine, stream.servers())
    for item in LandedSource(stream, at.seq).read_items():
        if not isinstance(item, Transactions):
            continue
        for record in item.records():
            report.transactions += 1
            for text in _statements(item, record, exclude):
                report.statements += 1
                where = record.gtid or f"transaction {record.seq}"
                report.note(NoticeKind.UNSTORED, "", f"not stored: {where}: {text}")
    return report


def _statements(transactions: Transactions, record: TransactionRecord, exclude: frozenset[str]) -> Iterator[str]:
    """The text of each statement of a transaction that can change a table."""
    for event in transactions.statements(record):
        form = transactions.bytes().format
        text = lossy_text(event.query, form.flavour)
        context = context_of(event.query, form)
        if context.default_database not in exclude and read_ddl_or_gap(text, context):
            yield as_one_looks_at(text)
