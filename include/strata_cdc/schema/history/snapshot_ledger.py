"""The ledger of snapshots: readings of a live server that are pending until the tracker reaches them in the stream.
Not here: reading the server (`schema/live/engine.py`), what a snapshot decides (`schema/tracker/reconcile.py`)."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.schema.history.snapshot import APPLIED, PENDING, SchemaSnapshot
from strata_cdc.schema.history.versions import Confirmation, DatabaseEntry, NamePresence
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.view import ViewDefinition  # noqa: TC001  msgspec asks for it when it reads
from strata_cdc.store.database import read_rows, reading, writing
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.tables import schema_version, snapshot, table_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.history.versions import SnapshotOutcome, StoredEntry


class _StoredDatabase(Struct, array_like=True, frozen=True):
    name: str
    character_set: str | None
    collation: str | None


class _Content(Struct, frozen=True):
    """`snapshot.content`: the facts that have no column."""

    databases: tuple[_StoredDatabase, ...]
    tables: tuple[tuple[str, str, str], ...]
    """Database, table, fingerprint."""
    views: tuple[tuple[str, str], ...]
    seen_databases: tuple[str, ...] | None
    hidden: tuple[str, ...]
    position: str | None = None
    server_uuid: str = ""
    cascades: tuple[tuple[str, str], ...] = ()
    """Database and table."""
    doubtful: tuple[tuple[str, str, str], ...] = ()
    """Database, table, reason."""
    view_texts: tuple[ViewDefinition | None, ...] = ()
    """Of each view; empty if a former version of Strata, which did not read them, took the snapshot."""
    seq: int = 0
    """For a snapshot that was applied: the transaction from which on it is valid."""
    confirmed: Confirmation | None = None
    """Of the newest snapshot that was applied."""


def add_snapshot(engine: sa.Engine, snapshot_read: SchemaSnapshot) -> int:
    """Stores a snapshot for the tracker and returns its id. An earlier snapshot that is still pending is not needed any
    more: the newer one has more recent facts, and the tracker would have to reach the older one first."""
    content = _Content(
        databases=tuple(
            _StoredDatabase(entry.name, entry.character_set, entry.collation) for entry in snapshot_read.databases
        ),
        tables=tuple((name.database, name.table, fingerprint) for name, fingerprint in snapshot_read.tables.items()),
        views=tuple((name.database, name.table) for name in snapshot_read.views),
        seen_databases=None if snapshot_read.seen_databases is None else tuple(sorted(snapshot_read.seen_databases)),
        hidden=snapshot_read.hidden,
        position=str(snapshot_read.position) if snapshot_read.position else None,
        server_uuid=snapshot_read.server_uuid,
        cascades=tuple((name.database, name.table) for name in snapshot_read.cascades),
        doubtful=tuple((name.database, name.table, reason) for name, reason in snapshot_read.doubtful.items()),
        view_texts=tuple(snapshot_read.views.values()),
    )
    with writing(engine) as connection:
        done = connection.execute(
            snapshot.insert().values(
                source=snapshot_read.source,
                gtid_before=snapshot_read.gtid_before,
                gtid_executed=snapshot_read.gtid_executed,
                taken_at=snapshot_read.taken_at,
                server_version=snapshot_read.server_version,
                lower_case_table_names=snapshot_read.lower_case_table_names,
                state=PENDING,
                tables=len(snapshot_read.tables),
                content=to_column(content),
            )
        )
        assigned = done.inserted_primary_key
    return int(assigned[0]) if assigned else 0


def pending_snapshots(engine: sa.Engine, source: str) -> list[SchemaSnapshot]:
    """Snapshots that no tracker has reached yet, oldest first."""
    query = sa.select(snapshot).where(snapshot.c.source == source, snapshot.c.state == PENDING).order_by(snapshot.c.id)
    return [_from_row(row) for row in read_rows(engine, query)]


class SnapshotMoment(Struct, frozen=True):
    """The moment of a snapshot, without its content."""

    gtid_before: str
    """Executed before the first read."""
    position: BinlogPosition | None
    """For a server without GTIDs, until a tracker has applied the snapshot."""


def snapshot_moments(engine: sa.Engine, source: str) -> list[SnapshotMoment]:
    """The moments of all snapshots of a source, oldest first."""
    columns = (snapshot.c.gtid_before, snapshot.c.content)
    query = sa.select(*columns).where(snapshot.c.source == source).order_by(snapshot.c.id)
    return [SnapshotMoment(before, _position(content)) for before, content in read_rows(engine, query)]


def _position(content: str | None) -> BinlogPosition | None:
    text = from_column(content, _Content, "snapshot.content").position if content else None
    return BinlogPosition.parse(text) if text else None


def _from_row(row: sa.Row[tuple[object, ...]]) -> SchemaSnapshot:
    content = from_column(row.content, _Content, "snapshot.content")
    return SchemaSnapshot(
        id=row.id,
        source=row.source,
        gtid_before=row.gtid_before,
        gtid_executed=row.gtid_executed,
        taken_at=row.taken_at,
        server_version=row.server_version,
        lower_case_table_names=row.lower_case_table_names,
        tables={TableName(database, table): fingerprint for database, table, fingerprint in content.tables},
        databases=tuple(
            DatabaseEntry(database.name, NamePresence.PRESENT, database.character_set, database.collation)
            for database in content.databases
        ),
        views={
            TableName(*name): text
            for name, text in zip_longest(content.views, content.view_texts[: len(content.views)])
        },
        seen_databases=None if content.seen_databases is None else frozenset(content.seen_databases),
        hidden=content.hidden,
        position=BinlogPosition.parse(content.position) if content.position else None,
        server_uuid=content.server_uuid,
        cascades=tuple(TableName(*name) for name in content.cascades),
        doubtful={TableName(database, table): reason for database, table, reason in content.doubtful},
    )


class ReportedCascades(Struct, frozen=True):
    """Tables for which a snapshot found that foreign keys change their rows without row events."""

    seq: int
    """The transaction from which on it is valid."""
    names: tuple[TableName, ...]

    def is_before(self, entry: StoredEntry) -> bool:
        """Whether it was reported before an entry: its position is after everything that was tracked by then."""
        return (entry.seq, entry.is_statement) >= (self.seq, True)


def settle(connection: sa.Connection, source: str, outcome: SnapshotOutcome) -> None:
    """Stores the result of a snapshot, in a transaction of the caller. Of its content, only the part that no version
    has is kept: the foreign keys, unless an earlier snapshot has reported the same and no table was changed since; and
    what the newest snapshot has confirmed."""
    applied = _applied(connection, source)
    cascades = ReportedCascades(outcome.seq, outcome.cascades)
    known = _reported(applied.values())
    if known and known[-1].names == cascades.names and _untouched_since(connection, source, known[-1]):
        cascades = ReportedCascades(outcome.seq, ())
    if outcome.confirmed is not None:
        for number, former in applied.items():
            if former.confirmed is not None:
                _keep(connection, number, replace(former, confirmed=None))
    names = tuple((name.database, name.table) for name in cascades.names)
    content = _Content((), (), (), None, (), cascades=names, seq=cascades.seq, confirmed=outcome.confirmed)
    _keep(connection, outcome.snapshot_id, content)
    values = {"state": outcome.state, "outcome": outcome.outcome}
    connection.execute(snapshot.update().where(snapshot.c.id == outcome.snapshot_id).values(values))


def _keep(connection: sa.Connection, number: int, content: _Content) -> None:
    """Stores the content of a snapshot that is not pending any more; nothing if nothing is left of it."""
    text = to_column(content) if content.cascades or content.confirmed else None
    connection.execute(snapshot.update().where(snapshot.c.id == number).values(content=text))


def newest_confirmation(engine: sa.Engine, source: str) -> Confirmation | None:
    """What the newest applied snapshot of a source has confirmed; None if there is none."""
    with reading(engine) as connection:
        confirmed = [content.confirmed for content in _applied(connection, source).values()]
    return next((stored for stored in reversed(confirmed) if stored is not None), None)


def reported_cascades(engine: sa.Engine, source: str) -> list[ReportedCascades]:
    """The foreign keys that the applied snapshots of a source have reported, oldest first."""
    with reading(engine) as connection:
        return _reported(_applied(connection, source).values())


def _applied(connection: sa.Connection, source: str) -> dict[int, _Content]:
    """What is kept of the applied snapshots of a source, by id, oldest first."""
    is_kept = (snapshot.c.source == source) & (snapshot.c.state == APPLIED) & snapshot.c.content.is_not(None)
    query = sa.select(snapshot.c.id, snapshot.c.content).where(is_kept).order_by(snapshot.c.id)
    return {number: from_column(text, _Content, "snapshot.content") for number, text in connection.execute(query)}


def _reported(contents: Iterable[_Content]) -> list[ReportedCascades]:
    return [
        ReportedCascades(content.seq, tuple(TableName(*name) for name in content.cascades))
        for content in contents
        if content.cascades
    ]


def _untouched_since(connection: sa.Connection, source: str, cascades: ReportedCascades) -> bool:
    """Whether these tables have no version after the report."""
    query = (
        sa.select(table_version.c.database_name, table_version.c.table_name)
        .join(schema_version, schema_version.c.id == table_version.c.version_id)
        .where(schema_version.c.source == source, schema_version.c.seq >= cascades.seq)
    )
    return set(cascades.names).isdisjoint(TableName(*row) for row in connection.execute(query))
