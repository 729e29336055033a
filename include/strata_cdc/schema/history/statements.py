"""The changes that the statements of versions requested, read again from their text: only a statement has some names of
columns and keys.
Not here: their effect on tables (`sql_store.py`), the history to which they belong (`lineage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from strata_cdc.errors import DdlError
from strata_cdc.flavour import NEWEST, Flavour
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.store.database import read_rows
from strata_cdc.store.tables import schema_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.schema.ddl.changes import Change

_CHUNK: Final = 500


def requested_changes(engine: sa.Engine, version_ids: Iterable[int]) -> Mapping[int, tuple[Change, ...]]:
    """The changes that each statement requested, by version; only for versions that have a statement that is
    understood."""
    columns = schema_version.c
    wanted = sorted(set(version_ids))
    requested: dict[int, tuple[Change, ...]] = {}
    for at in range(0, len(wanted), _CHUNK):
        query = sa.select(
            columns.id,
            columns.ddl,
            columns.default_database,
            columns.sql_mode,
            columns.server_version,
            columns.time_zone,
        ).where(columns.id.in_(wanted[at : at + _CHUNK]), columns.ddl.is_not(None))
        rows = read_rows(engine, query)
        for version_id, ddl, database, sql_mode, server_version, time_zone in rows:
            flavour = Flavour.stored(server_version) if server_version else NEWEST
            context = DdlContext(database or "", sql_mode or 0, flavour, time_zone=time_zone)
            try:
                requested[version_id] = tuple(read_ddl(ddl, context))
            except DdlError:
                # The version is a gap then, and has the reason itself.
                continue
    return requested
