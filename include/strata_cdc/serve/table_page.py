"""One table through its lifetime: its versions on the axis of time, what it was at a point, what differs between two
versions, since when each column is what it is, and what became of its rows.
Not here: all tables (`tables_page.py`), drawing (`pictures.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.schema.answers.blame import ColumnOrigin, column_origins
from strata_cdc.schema.answers.changes import ShownChange, changes
from strata_cdc.schema.answers.create_statements import create_statement
from strata_cdc.schema.answers.lines import written_time
from strata_cdc.schema.answers.positions import position_of
from strata_cdc.schema.apply.diff import described_key
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.serve.comparison import VersionComparison, compare
from strata_cdc.serve.lanes import TableAncestry, lineage_of
from strata_cdc.serve.pictures import Band, Period, bands, bars
from strata_cdc.serve.rendering import query
from strata_cdc.serve.table_rows import RowsView, rows_view
from strata_cdc.serve.tables_page import stream_span
from strata_cdc.store.full_names import full_name
from strata_cdc.store.rows_in_time import first_rows, rows_by_bucket

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa
    from markupsafe import Markup

    from strata_cdc.schema.answers.create_statements import CreateStatement
    from strata_cdc.schema.history.versions import SchemaVersion
    from strata_cdc.schema.model.definition import Column, TableName
    from strata_cdc.store.rows_by_version import VersionSum

VERSIONS_ON_A_PAGE: Final = 100
_BARS: Final = 100


class Asked(Struct, frozen=True):
    """What the page is requested with; all of it is in the URL."""

    at: str = ""
    """A GTID set, FILE:OFFSET or time; empty for the end of the stream."""
    before: int | None = None
    """Id of the older of two versions that are compared."""
    after: int | None = None
    older_than: int | None = None
    """List only versions before that of this id."""


class ColumnRow(Struct, frozen=True):
    """A column at a point, and where it comes from."""

    column: Column
    origin: ColumnOrigin | None


class AtView(Struct, frozen=True):
    """The table at a point."""

    version: SchemaVersion | None
    columns: tuple[ColumnRow, ...] = ()
    keys: tuple[str, ...] = ()
    statement: CreateStatement | None = None
    refusal: SchemaGapError | Usage | None = None
    """Why there is nothing to show."""
    tracked: int = 0
    """Up to when the stream has been tracked (microseconds UTC)."""
    is_later: bool = False
    """Whether a later time was requested."""


class TableView(Struct, frozen=True):
    """All that the page shows."""

    name: TableName
    span: Period
    timeline: Markup
    lineage: TableAncestry
    bars: Markup
    versions: tuple[ShownChange, ...]
    """The newest first."""
    older: int | None
    """Id of the last of `versions`, if there are older ones."""
    count: int
    at: AtView
    comparison: VersionComparison | None
    rows: RowsView

    def decoded(self, change: ShownChange) -> VersionSum | None:
        """Rows and bytes that a version decoded and that readers have."""
        return self.rows.versions.found.get(
            (full_name(change.entry.name.database, change.entry.name.table), change.entry.version_id)
        )


def table_view(engine: sa.Engine, source: str, name: TableName, asked: Asked) -> TableView:
    """The page of a table.

    Raises:
        Usage: There never was such a table, or the version is of another table.
        UnknownSourceError: The source has never been tracked.
        StoreUnavailableError: The database does not answer.
    """
    store = SchemaStore(engine)
    history = History(store, source)
    timeline = [change for change in changes(store, source, name) if not change.is_part or change.entry.name == name]
    pair = (name.database, name.table)
    span = _span(timeline, stream_span(engine, source), first_rows(engine, source, pair))
    listed = _before(timeline, asked.older_than)
    page = listed[-VERSIONS_ON_A_PAGE:]
    return TableView(
        name=name,
        span=span,
        timeline=bands([_band(change, source, name) for change in timeline], span),
        lineage=lineage_of(store, source, timeline, span, lambda change: _band(change, source, name)),
        bars=bars(rows_by_bucket(engine, source, pair, (span.start, span.end + 1), _BARS)),
        versions=tuple(reversed(page)),
        older=page[0].entry.version_id if len(listed) > len(page) else None,
        count=len(timeline),
        at=_at(store, source, name, history, asked.at, timeline),
        comparison=compare(timeline, asked.before, asked.after),
        rows=rows_view(engine, source, name, {change.entry.name for change in timeline}),
    )


def _span(timeline: Sequence[ShownChange], stream: Period, first_interval: int | None) -> Period:
    """From the table's first change that has a time, or the first interval with its rows, to the end of the stream."""
    changed = next((change.entry.committed_at for change in timeline if change.entry.committed_at), stream.start)
    first = min(changed, changed if first_interval is None else first_interval)
    return Period(first, max(stream.end, first))


def _before(timeline: Sequence[ShownChange], version_id: int | None) -> Sequence[ShownChange]:
    if version_id is None:
        return timeline
    return timeline[: next((at for at, change in enumerate(timeline) if change.entry.version_id == version_id), 0)]


def kind_of(change: ShownChange) -> str:
    """What the table is from this change on: `version`, `gap` or `absent`."""
    if change.entry.gap is not None:
        return "gap"
    return "absent" if change.after is None else "version"


def _band(change: ShownChange, source: str, name: TableName) -> Band:
    entry = change.entry
    what = entry.gap or "; ".join(change.differences()[:3]) or (change.ddl or entry.made_by)[:120]
    title = f"{written_time(entry.committed_at) or 'from the start'}: {what}"
    # What was there before has the position of its first statement.
    href = query(source=source, database=name.database, table=name.table, at=_after_it(change)) + "#as-of"
    return Band(entry.committed_at, kind_of(change), title, href)


def _after_it(change: ShownChange) -> str:
    return change.entry.gtid_executed


def _at(
    store: SchemaStore,
    source: str,
    name: TableName,
    history: History,
    asked: str,
    timeline: Sequence[ShownChange],
) -> AtView:
    tracked = history.tracked
    try:
        position = position_of(history, asked) if asked else AtSeq(tracked.seq)
        version = history.at(name, position)
    except (SchemaGapError, Usage) as error:
        # The rest of the page stays, with what was requested in its form.
        return AtView(None, refusal=error)
    reached = [change for change in timeline if change.entry.order[:3] <= _order_of(timeline, version)]
    origins = column_origins(reached)
    columns = tuple(ColumnRow(column, origins.get(fold_name(column.name))) for column in version.definition.columns)
    keys = tuple(described_key(key) for key in version.definition.keys)
    is_later = bool(asked) and isinstance(position, AtSeq)
    statement = create_statement(store, source, name, version)
    return AtView(version, columns, keys, statement, tracked=tracked.committed_at, is_later=is_later)


def _order_of(timeline: Sequence[ShownChange], version: SchemaVersion) -> tuple[int, int, int]:
    found = next((change for change in timeline if change.entry.version_id == version.version_id), None)
    return found.entry.order[:3] if found else (version.seq, 1 << 31, version.version_id)
