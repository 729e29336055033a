"""What lies before the changes that a run decodes: the lifetimes of tables and columns, and where row images do not
continue.
Not here: finding lifetimes (`schema/history/column_lifetimes.py`), what checks make of it
(`quality/checks/own_columns.py`, `quality/checks/earlier_images.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.landing.place_prepared import UNNAMED
from strata_cdc.runs.run_past import EarlierTable
from strata_cdc.schema.history.column_lifetimes import find_column_lifetimes
from strata_cdc.schema.history.lineage import lineage
from strata_cdc.schema.history.neighbours import find_neighbours
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import EVERY_TABLE, every_table_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.table_intervals import UNPUBLISHED, TableIntervalLedger
from strata_cdc.ticdc.landed_slice import has_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.selection.failing import FailingTables


def table_pasts(source: str, engine: sa.Engine, plan: RunPlan, failing: FailingTables) -> Iterator[EarlierTable]:
    """The past of each table of a plan, by name; that of one which fails is empty.

    Args:
        source: The source's name.
        engine: Its store.
        plan: The plan.
        failing: Takes the tables that fail.
    """
    names = sorted({TableName(table.database, table.table) for table in plan.tables} - {UNNAMED})
    if not names:
        return
    store = SchemaStore(engine)
    last_seq = max(interval.last_seq for interval in plan.intervals)
    unlogged = _unlogged(store, source, last_seq)
    of_databases = store.timeline(source, {every_table_of(name.database) for name in names})
    unpublished = _unpublished(TableIntervalLedger(engine), source, plan)
    planned = _versions_of_binlogs(plan)
    for name in names:
        past = EarlierTable(name.database, name.table)
        with failing.note(name):
            entries = lineage(store, source, name)
            missing = {entry.seq for entry in entries if entry.gap is not None}
            missing |= {
                version.seq
                for version in of_databases
                if version.gap is not None and version.name.database == name.database
            }
            own = {*missing, *unlogged.get(name, ()), *unlogged.get(EVERY_TABLE, ())}
            past = EarlierTable(
                name.database,
                name.table,
                find_column_lifetimes(store, entries),
                tuple(sorted(own)),
                tuple(sorted(unpublished.get((name.database, name.table), ()))),
                {
                    version: near
                    for version in planned.get(name, ())
                    if (near := find_neighbours(name, entries, version, store.definition))
                },
            )
        yield past


def _versions_of_binlogs(plan: RunPlan) -> dict[TableName, list[int]]:
    """The versions of a plan, by table; none of a sink, whose rows were held against theirs when they landed."""
    versions: dict[TableName, list[int]] = {}
    if not any(has_rows(entry.segment) for entry in plan.slices[:1]):
        for version in plan.versions:
            versions.setdefault(TableName(version.database, version.table), []).append(version.version_id)
    return versions


def _unlogged(store: SchemaStore, source: str, last_seq: int) -> dict[TableName, set[int]]:
    """Transactions that changed rows without row events, by table; `EVERY_TABLE` for statements whose tables are not
    known."""
    unlogged: dict[TableName, set[int]] = {}
    for removal in store.row_removals(source, 0, last_seq):
        unlogged.setdefault(removal.name, set()).add(removal.seq)
    for change in store.statement_changes(source, 0, last_seq):
        for name in change.tables or (EVERY_TABLE,):
            unlogged.setdefault(name, set()).add(change.seq)
    return unlogged


def _unpublished(ledger: TableIntervalLedger, source: str, plan: RunPlan) -> dict[tuple[str, str], set[int]]:
    """Starts of intervals with rows of a table that are neither published nor planned; as `EarlierTable` has them."""
    first, last = plan.intervals[0].start, plan.intervals[-1].start
    planned = {(table.database, table.table, table.interval) for table in plan.tables}
    unpublished = {name: {start} for name, start in ledger.last_unpublished(source, first).items()}
    for entry in ledger.select(source, UNPUBLISHED, starts=(first, last)):
        if (entry.database, entry.table, entry.start) not in planned:
            unpublished.setdefault((entry.database, entry.table), set()).add(entry.start)
    return unpublished
