"""The ledger of snapshots: readings of a live server that wait for the tracker to reach them in the stream.
Not here: reading the server (`schema/live/engine.py`), what a snapshot settles (`schema/tracker/reconcile.py`)."""

from __future__ import annotations

import sqlalchemy as sa
from msgspec import Struct

from strata.gtid.position import BinlogPosition
from strata.schema.history.snapshot import PENDING, Snapshot
from strata.schema.history.versions import DatabaseEntry, Presence
from strata.schema.model.definition import TableName
from strata.store.database import reading, writing
from strata.store.json_columns import from_column, to_column
from strata.store.tables import snapshot


class _Database(Struct, array_like=True, frozen=True):
    name: str
    character_set: str | None
    collation: str | None


class _Content(Struct, frozen=True):
    """`snapshot.content`: what has no column of its own."""

    databases: tuple[_Database, ...]
    tables: tuple[tuple[str, str, str], ...]
    """Database, table, fingerprint."""
    views: tuple[tuple[str, str], ...]
    seen_databases: tuple[str, ...] | None
    hidden: tuple[str, ...]
    position: str | None = None
    server_uuid: str = ""


def add_snapshot(engine: sa.Engine, taken: Snapshot) -> int:
    """Stores a snapshot for the tracker and returns its id. An earlier one that still waits is no longer needed: the
    newer one says more of what is there now, and the tracker would have to reach the older one first."""
    content = _Content(
        databases=tuple(_Database(entry.name, entry.character_set, entry.collation) for entry in taken.databases),
        tables=tuple((name.database, name.table, fingerprint) for name, fingerprint in taken.tables.items()),
        views=tuple((name.database, name.table) for name in taken.views),
        seen_databases=None if taken.seen_databases is None else tuple(sorted(taken.seen_databases)),
        hidden=taken.hidden,
        position=str(taken.position) if taken.position else None,
        server_uuid=taken.server_uuid,
    )
    with writing(engine) as connection:
        done = connection.execute(
            snapshot.insert().values(
                source=taken.source,
                gtid_before=taken.gtid_before,
                gtid_executed=taken.gtid_executed,
                taken_at=taken.taken_at,
                server_version=taken.server_version,
                lower_case_table_names=taken.lower_case_table_names,
                state=PENDING,
                tables=len(taken.tables),
                content=to_column(content),
            )
        )
        assigned = done.inserted_primary_key
    return int(assigned[0]) if assigned else 0


def pending_snapshots(engine: sa.Engine, source: str) -> list[Snapshot]:
    """Snapshots that no tracker has reached yet, oldest first."""
    query = sa.select(snapshot).where(snapshot.c.source == source, snapshot.c.state == PENDING).order_by(snapshot.c.id)
    with reading(engine) as connection:
        return [_from_row(row) for row in connection.execute(query)]


class SnapshotMoment(Struct, frozen=True):
    """The moment of a snapshot, without what it holds."""

    gtid_before: str
    """Executed before the first read."""
    position: BinlogPosition | None
    """Of a server without GTIDs, as long as no tracker has applied the snapshot."""


def snapshot_moments(engine: sa.Engine, source: str) -> list[SnapshotMoment]:
    """The moments of all snapshots of a source, oldest first."""
    columns = (snapshot.c.gtid_before, snapshot.c.content)
    query = sa.select(*columns).where(snapshot.c.source == source).order_by(snapshot.c.id)
    with reading(engine) as connection:
        return [SnapshotMoment(before, _position(content)) for before, content in connection.execute(query)]


def _position(content: str | None) -> BinlogPosition | None:
    text = from_column(content, _Content, "snapshot.content").position if content else None
    return BinlogPosition.parse(text) if text else None


def _from_row(row: sa.Row[tuple[object, ...]]) -> Snapshot:
    content = from_column(row.content, _Content, "snapshot.content")
    return Snapshot(
        id=row.id,
        source=row.source,
        gtid_before=row.gtid_before,
        gtid_executed=row.gtid_executed,
        taken_at=row.taken_at,
        server_version=row.server_version,
        lower_case_table_names=row.lower_case_table_names,
        tables={TableName(database, table): fingerprint for database, table, fingerprint in content.tables},
        databases=tuple(
            DatabaseEntry(one.name, Presence.PRESENT, one.character_set, one.collation) for one in content.databases
        ),
        views=tuple(TableName(*name) for name in content.views),
        seen_databases=None if content.seen_databases is None else frozenset(content.seen_databases),
        hidden=content.hidden,
        position=BinlogPosition.parse(content.position) if content.position else None,
        server_uuid=content.server_uuid,
    )
