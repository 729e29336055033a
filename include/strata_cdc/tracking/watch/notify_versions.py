"""Notices of the schema versions that were not reported to others yet.
Not here: sending them (`airflow/steps.py`), DDL that has not landed (`watch_ddl.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from strata_cdc.schema.ddl.secrets import mask_secrets
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import reading
from strata_cdc.store.notified import NotifiedLedger
from strata_cdc.store.tables import schema_version, table_version
from strata_cdc.tracking.watch.notices import MOST_TABLES, STATEMENT_CHARACTERS, VersionNotice

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_VERSIONS: Final = 500
"""At a time: after a first run over years of DDL, the runs that follow report the rest."""


def unsent_versions(engine: sa.Engine, source: str, sent: int, most: int = MOST_VERSIONS) -> list[VersionNotice]:
    """The oldest versions of a source that were not reported yet, in the order in which they were stored.

    A source's versions are stored by one tracker at a time, so their ids grow.

    Args:
        engine: The store.
        source: Name of the source.
        sent: The newest version of which the receiver has the notice; 0 if it has none, or forgets old notices. The
            store remembers the newest version that was ever passed here.
        most: Versions at a time, at most.

    Raises:
        StrataError: The store does not answer.
    """
    ledger = NotifiedLedger(engine)
    known = ledger.version(source)
    if sent > known:
        ledger.put_version(source, sent)
    wanted = (schema_version.c.source == source) & (schema_version.c.id > max(sent, known))
    query = sa.select(schema_version).where(wanted).order_by(schema_version.c.id).limit(most)
    with reading(engine) as connection:
        versions = connection.execute(query).all()
        tables = _tables(connection, [version.id for version in versions])
    return [
        VersionNotice(
            version=version.id,
            source=source,
            gtid=version.gtid,
            statement_no=version.statement_no,
            committed_at=version.committed_at,
            origin=version.origin,
            tables=tuple(tables.get(version.id, ())),
            statement=mask_secrets(version.ddl or "")[:STATEMENT_CHARACTERS],
        )
        for version in versions
    ]


def _tables(connection: sa.Connection, versions: Sequence[int]) -> dict[int, list[str]]:
    """The first tables of each version by name; `*` means all tables."""
    if not versions:
        return {}
    columns = table_version.c
    query = (
        sa.select(columns.version_id, columns.database_name, columns.table_name)
        .where(columns.version_id.in_(versions))
        .order_by(columns.version_id, columns.database_name, columns.table_name)
    )
    tables: dict[int, list[str]] = {}
    for version, database, table in connection.execute(query):
        names = tables.setdefault(version, [])
        if len(names) < MOST_TABLES:
            names.append(str(TableName(database or "*", table or "*")))
    return tables
