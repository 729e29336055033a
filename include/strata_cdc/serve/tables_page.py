"""The list of a source's tables, with when each changed, and the search over its history.
Not here: one table (`table_page.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.schema.answers.catalogue import TableSummary, tables_page
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.serve.pictures import Period, heat
from strata_cdc.store.database import reading
from strata_cdc.store.tables import schema_version

if TYPE_CHECKING:
    from markupsafe import Markup

    from strata_cdc.schema.model.definition import TableName


class TableRow(Struct, frozen=True):
    """A table in the list."""

    summary: TableSummary
    heat: Markup


class TablesView(Struct, frozen=True):
    """A page of the list."""

    tables: tuple[TableRow, ...]
    span: Period
    """What the pictures show."""
    next_after: TableName | None
    """Where the next page continues; None after the last page."""


def tables_view(engine: sa.Engine, source: str, after: TableName | None, containing: str) -> TablesView:
    """A page of the tables of a source."""
    page = tables_page(engine, source, after=after, containing=containing)
    span = stream_span(engine, source)
    rows = tuple(TableRow(table, heat(table.changed_at, span)) for table in page.tables)
    return TablesView(rows, span, page.tables[-1].name if page.has_more else None)


def stream_span(engine: sa.Engine, source: str) -> Period:
    """From the first statement that has a time to where the stream is tracked."""
    columns = schema_version.c
    query = (
        sa.select(columns.committed_at).where(columns.source == source, columns.committed_at > 0).order_by(columns.seq)
    )
    with reading(engine) as connection:
        first = connection.execute(query.limit(1)).scalar_one_or_none()
    position = SchemaStore(engine).position(source)
    end = position.committed_at if position else 0
    return Period(min(first or end, end), end)
