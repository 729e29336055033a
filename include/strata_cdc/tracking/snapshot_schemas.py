"""The step that reads a live server's schema and stores it for the tracker.
Not here: what the history makes of it (`track_schema.py`), the reading itself (`schema/live/engine.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.protocol.connection import connect
from strata_cdc.clock import now_micros
from strata_cdc.schema.history.snapshot import SchemaSnapshot
from strata_cdc.schema.history.snapshot_ledger import add_snapshot
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.live.engine import PAGE_TABLES, LiveSchema, ReadingMoment
from strata_cdc.store.own import own_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import sqlalchemy as sa

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class SnapshotReport(Struct, frozen=True):
    """What was read."""

    source: str
    snapshot_id: int
    tables: int
    databases: int
    gtid_executed: str
    """The snapshot is of a moment before or at this GTID set."""
    binlog_position: str | None
    """FILE:OFFSET of the moment, if GTIDs do not identify it."""
    hidden: tuple[str, ...]
    """What the user's grants hide; tables that are not seen stay unknown."""
    seconds: float


def snapshot_schemas(
    address: ServerAddress, engine: sa.Engine, source: str, moment: ReadingMoment = ReadingMoment.BY_SERVER
) -> SnapshotReport:
    """Reads all tables of a server without blocking writers, and stores their definitions.

    The tracker makes versions of it when it has reached that moment in the stream: see `strata track`.

    Args:
        address: Of the server.
        engine: The store.
        source: Name of the source.
        moment: How the moment of the snapshot is determined.

    Raises:
        SourceSettingsError: The server runs without GTIDs, and DDL could not be blocked for a moment.
        SourceUnavailableError: The server does not answer, or went away.
        AccessDeniedError: Wrong user or password.
        StoreUnavailableError: The store does not answer.
    """
    began = time.monotonic()
    store = SchemaStore(engine)
    with connect(address) as connection:
        live = LiveSchema(connection, lambda uuid: own_database(engine, {uuid}), moment)
        databases, views, cascades = live.databases(), live.views(), live.unlogged_cascades()
        tables: dict[TableName, str] = {}
        for page in _pages(live.tables()):
            fingerprints = store.store_definitions([definition for _, definition in page])
            tables |= {name: fingerprint for (name, _), fingerprint in zip(page, fingerprints, strict=True)}
        executed = live.end()
    sight = live.sight
    seen = frozenset(d.name for d in databases if sight.sees_all_of(d.name))
    snapshot = SchemaSnapshot(
        source=source,
        gtid_before=live.gtid_before,
        gtid_executed=executed,
        taken_at=now_micros(),
        server_version=live.server.flavour.stored_number,
        lower_case_table_names=live.server.lower_case_table_names,
        tables=tables,
        databases=tuple(databases),
        views=views,
        seen_databases=None if sight.everything else seen,
        hidden=tuple(sight.hidden()),
        position=live.position,
        server_uuid=live.server.uuid,
        cascades=tuple(cascades),
        doubtful=live.doubtful,
    )
    return SnapshotReport(
        source=source,
        snapshot_id=add_snapshot(store.engine, snapshot),
        tables=len(tables),
        databases=len(databases),
        gtid_executed=executed,
        binlog_position=str(live.position) if live.position else None,
        hidden=snapshot.hidden,
        seconds=round(time.monotonic() - began, 3),
    )


def _pages(
    tables: Iterable[tuple[TableName, TableDefinition]],
) -> Iterator[list[tuple[TableName, TableDefinition]]]:
    page: list[tuple[TableName, TableDefinition]] = []
    for entry in tables:
        page.append(entry)
        if len(page) == PAGE_TABLES:
            yield page
            page = []
    if page:
        yield page
