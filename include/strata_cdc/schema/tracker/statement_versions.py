"""A version that a statement makes, with the settings and the session under which it ran.
Not here: its effect on tables (`schema/replay/`), statements without a version (`unlogged.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.history.versions import Session, Version, VersionOrigin, VersionPlace

if TYPE_CHECKING:
    from strata_cdc.binlog.events.model import Query
    from strata_cdc.schema.ddl.context import DdlContext


def version_of(query: Query, context: DdlContext, text: str, place: VersionPlace, gtid: str | None) -> Version:
    """The version, without its changes."""
    return Version(
        place=place,
        origin=VersionOrigin.DDL,
        gtid=gtid,
        ddl=as_one_looks_at(text),
        default_database=context.default_database,
        sql_mode=context.sql_mode,
        server_version=context.flavour.number,
        time_zone=context.time_zone,
        session=Session(query.server_id, query.thread_id, query.context.invoker),
    )
