"""One table through its lifetime: its versions on the axis of time, what it was at a point, what differs between two
versions, since when each column is what it is, and what became of its rows.
Not here: all tables (`tables_page.py`), drawing (`pictures.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.position.commit_ts import COMMIT_STEP
from strata_cdc.schema.answers.blame import ColumnOrigin, column_origins
from strata_cdc.schema.answers.changes import ShownChange, changes
from strata_cdc.schema.answers.create_statements import create_statement
from strata_cdc.schema.answers.lines import written_time
from strata_cdc.schema.apply.diff import ColumnAdded, ColumnChanged, ColumnRemoved, ColumnRenamed, described_key, diff
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.identified_tables import IdentifiedTable, Renames, renames_between
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtBinlog, AtSeq
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.serve.lanes import TableAncestry, lineage_of
from strata_cdc.serve.pictures import Band, Period, bands, bars
from strata_cdc.serve.points import point_after, position_at
from strata_cdc.serve.rendering import query
from strata_cdc.serve.tables_page import stream_span
from strata_cdc.store.full_names import full_name
from strata_cdc.store.rows_by_version import rows_by_version
from strata_cdc.store.rows_in_time import first_rows, newest_intervals, rows_by_bucket
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.store.verdicts import VerdictLedger, VerdictOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import sqlalchemy as sa
    from markupsafe import Markup

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.answers.changes import ShownChange
    from strata_cdc.schema.answers.create_statements import CreateStatement
    from strata_cdc.schema.apply.diff import Difference
    from strata_cdc.schema.history.versions import SchemaVersion
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.store.rows_by_version import VersionSum, VersionSums
    from strata_cdc.store.rows_in_time import IntervalRows
    from strata_cdc.store.verdicts import FailedRule, StoredVerdict

VERSIONS_ON_A_PAGE: Final = 100
_BARS: Final = 100


class TablePageRequest(Struct, frozen=True):
    """What the page is requested with; all of it is in the URL."""

    at: str = ""
    """As in `points.point_forms`; empty for the end of the stream."""
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
    moment: str = ""
    """The point in the form that moments of rows have; empty for a place in a server's file, which is none."""


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
    points: tuple[str, ...]
    """The point after each of `versions`."""

    def decoded(self, change: ShownChange) -> VersionSum | None:
        """Rows and bytes that a version decoded and that readers have."""
        return self.rows.versions.found.get(
            (full_name(change.entry.name.database, change.entry.name.table), change.entry.version_id)
        )


def table_view(engine: sa.Engine, configured: Source, name: TableName, request: TablePageRequest) -> TableView:
    """The page of a table.

    Raises:
        Usage: There never was such a table, or the version is of another table.
        UnknownSourceError: The source has never been tracked.
        StoreUnavailableError: The database does not answer.
        StrataError: As `position_at`.
    """
    source, store = configured.name, SchemaStore(engine)
    history = History(store, source)
    timeline = [change for change in changes(store, source, name) if not change.is_part or change.entry.name == name]
    pair = (name.database, name.table)
    span = _span(timeline, stream_span(engine, source), first_rows(engine, source, pair))
    listed = _before(timeline, request.older_than)
    page = listed[-VERSIONS_ON_A_PAGE:]
    return TableView(
        name=name,
        span=span,
        timeline=bands([_band(change, configured, name) for change in timeline], span),
        lineage=lineage_of(store, source, timeline, span, lambda change: _band(change, configured, name)),
        bars=bars(rows_by_bucket(engine, source, pair, (span.start, span.end + 1), _BARS)),
        versions=tuple(reversed(page)),
        older=page[0].entry.version_id if len(listed) > len(page) else None,
        count=len(timeline),
        at=_at(store, configured, name, history, request.at, timeline),
        comparison=compare(timeline, request.before, request.after),
        rows=rows_view(engine, source, name, {change.entry.name for change in timeline}),
        points=tuple(point_after(change.entry, configured) for change in reversed(page)),
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


def _band(change: ShownChange, source: Source, name: TableName) -> Band:
    entry = change.entry
    what = entry.gap or "; ".join(change.differences()[:3]) or (change.ddl or entry.made_by)[:120]
    title = f"{written_time(entry.committed_at) or 'from the start'}: {what}"
    at = point_after(entry, source)
    # What was there before has the position of its first statement.
    href = query(source=source.name, database=name.database, table=name.table, at=at) + "#as-of"
    return Band(entry.committed_at, kind_of(change), title, href)


def _at(
    store: SchemaStore,
    source: Source,
    name: TableName,
    history: History,
    point: str,
    timeline: Sequence[ShownChange],
) -> AtView:
    tracked = history.tracked
    try:
        position = position_at(history, source, point)
        version = history.at(name, position)
    except (SchemaGapError, Usage) as error:
        # The rest of the page stays, with what was requested in its form.
        return AtView(None, refusal=error)
    reached = [change for change in timeline if change.entry.order[:3] <= _order_of(timeline, version)]
    origins = column_origins(reached)
    columns = tuple(ColumnRow(column, origins.get(fold_name(column.name))) for column in version.definition.columns)
    keys = tuple(described_key(key) for key in version.definition.keys)
    is_later = bool(point) and position == AtSeq(tracked.seq) and not COMMIT_STEP.fullmatch(point)
    statement = create_statement(store, source.name, name, version)
    return AtView(
        version,
        columns,
        keys,
        statement,
        tracked=tracked.committed_at,
        is_later=is_later,
        moment="" if isinstance(position, AtBinlog) else point,
    )


def _order_of(timeline: Sequence[ShownChange], version: SchemaVersion) -> tuple[int, int, int]:
    entry_change = next((change for change in timeline if change.entry.version_id == version.version_id), None)
    return entry_change.entry.order[:3] if entry_change else (version.seq, 1 << 31, version.version_id)


class SideBySide(Struct, frozen=True):
    """One line of a comparison."""

    sign: str
    """`+`, `-`, `~`, or a blank where both sides are the same."""
    before: Column | None
    after: Column | None


class VersionComparison(Struct, frozen=True):
    """Two versions of the table."""

    before: ShownChange
    after: ShownChange
    columns: tuple[SideBySide, ...]
    others: tuple[str, ...]
    """What differs besides columns."""
    effects: tuple[ShownChange, ...]
    """The changes in between that did something to the rows that were there, in stream order."""


_OF_COLUMNS = (ColumnAdded, ColumnRemoved, ColumnChanged, ColumnRenamed)


def compare(timeline: Sequence[ShownChange], first: int | None, second: int | None) -> VersionComparison | None:
    """Two versions of a table, the older one before the other whatever their order; None unless both are named.

    Args:
        timeline: The changes of the table, in stream order.
        first: Id of a version.
        second: Id of another.

    Raises:
        Usage: One of them is no version of this table.
    """
    if first is None or second is None:
        return None
    ordinals = {change.entry.version_id: at for at, change in enumerate(timeline)}
    for version_id in (first, second):
        if version_id not in ordinals:
            raise Usage(f"version {version_id} is none of this table")
    older, newer = sorted((ordinals[first], ordinals[second]))
    before, after = timeline[older], timeline[newer]
    between = timeline[older + 1 : newer + 1]
    columns, others = _side_by_side(before.after, after.after, renames_between(_identified(before), _identified(after)))
    effects = tuple(change for change in between if change.has_effect and change.effect.text)
    return VersionComparison(before, after, tuple(columns), tuple(others), effects)


def _identified(change: ShownChange) -> IdentifiedTable | None:
    columns = change.entry.columns
    return None if change.after is None or columns is None else IdentifiedTable(change.after, columns)


def _side_by_side(
    before: TableDefinition | None, after: TableDefinition | None, renames: Renames
) -> tuple[list[SideBySide], list[str]]:
    if before is None or after is None:
        gone = [SideBySide("-", column, None) for column in _columns(before)]
        return [*gone, *(SideBySide("+", None, column) for column in _columns(after))], []
    differences = diff(before, after, renames)
    gone = [
        SideBySide("-", difference.column, None) for difference in differences if isinstance(difference, ColumnRemoved)
    ]
    others = [str(difference) for difference in differences if not isinstance(difference, _OF_COLUMNS)]
    return [*gone, *_kept(after, differences)], others


def _kept(after: TableDefinition, differences: Iterable[Difference]) -> list[SideBySide]:
    """The columns of the newer version, each beside what it was."""
    lines = {column.name: SideBySide(" ", column, column) for column in after.columns}
    for difference in differences:
        if isinstance(difference, ColumnAdded):
            lines[difference.column.name] = SideBySide("+", None, difference.column)
        elif isinstance(difference, (ColumnChanged, ColumnRenamed)):
            lines[difference.after.name] = SideBySide("~", difference.before, difference.after)
    return list(lines.values())


def _columns(definition: TableDefinition | None) -> tuple[Column, ...]:
    return definition.columns if definition is not None else ()


_WITHHELD: Final = (IntervalState.FAILED, IntervalState.BLOCKED)


class IntervalLine(Struct, frozen=True):
    """One interval that has rows of the table."""

    rows: IntervalRows
    verdict: StoredVerdict | None
    """What the checks found; None where nothing was judged."""

    @property
    def has_data_docs(self) -> bool:
        """Whether the run has made some for it: they are made of what did not pass."""
        return self.verdict is not None and self.verdict.outcome is not VerdictOutcome.PASSED


class WithheldRows(Struct, frozen=True):
    """Rows of one interval that readers do not have."""

    rows: IntervalRows
    failures: tuple[FailedRule, ...]
    """What did not hold, errors first."""

    @property
    def count(self) -> int:
        """Rows that are withheld."""
        return self.rows.rows - self.rows.published_rows


class RowsView(Struct, frozen=True):
    """All of it."""

    versions: VersionSums
    intervals: tuple[IntervalLine, ...]
    """The newest first."""
    withheld: tuple[WithheldRows, ...]
    """The newest first."""


def rows_view(engine: sa.Engine, source: str, name: TableName, names: Iterable[TableName]) -> RowsView:
    """What became of a table's rows.

    Args:
        names: It, and the names that it had before.
    """
    pair = (name.database, name.table)
    newest = newest_intervals(engine, source, pair)
    waiting = newest_intervals(engine, source, pair, states=_WITHHELD)
    verdicts = {
        verdict.start: verdict
        for verdict in VerdictLedger(engine).of_table(
            source, full_name(*pair), {rows.start for rows in (*newest, *waiting)}
        )
    }
    return RowsView(
        versions=rows_by_version(
            engine, source, [full_name(table_name.database, table_name.table) for table_name in (name, *names)]
        ),
        intervals=tuple(IntervalLine(rows, verdicts.get(rows.start)) for rows in newest),
        withheld=tuple(WithheldRows(rows, _failures(rows, verdicts.get(rows.start))) for rows in waiting),
    )


def _failures(rows: IntervalRows, verdict: StoredVerdict | None) -> tuple[FailedRule, ...]:
    """Of the run that withheld them; a verdict of another run is on other rows."""
    if verdict is None or verdict.details.run != rows.run:
        return ()
    return tuple(sorted(verdict.details.failures, key=lambda rule: rule.severity != "error"))
