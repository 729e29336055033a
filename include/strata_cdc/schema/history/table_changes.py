"""A source's history as turns: what each version makes of each table, in stream order, with the columns that its
statement renamed and added, and what DDL removed of rows without row events.
Not here: what a turn does to rows (`tables/convert.py`, `quality/proof/replay.py`), single answers (`historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.changes import AlterTable, RemoveRows
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.history.column_lineage import added_columns, renamed_columns
from strata_cdc.schema.history.effects import Effect, effect_of_removal, read_again
from strata_cdc.schema.history.entry_effects import EntryEffects
from strata_cdc.schema.history.partition_changes import partition_changes
from strata_cdc.schema.history.partition_lifetimes import PartitionLives
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.statements import changes_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import sqlalchemy as sa

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.schema.model.partitions import Partitioning


class Turn(Struct, frozen=True):
    """What one version makes of one table, and of the rows that it has."""

    version_id: int
    order: tuple[int, ...]
    """Equal for all tables that one statement touches."""
    name: TableName
    definition: TableDefinition | None
    """None: the table is gone, or (`gap`) its definition is not known."""
    gap: str | None = None
    renamed_from: TableName | None = None
    """The rows come from the table that had this name."""
    renamed_columns: Mapping[str, str] = field(default_factory=dict)
    """New name -> old name."""
    added_columns: frozenset[str] = frozenset()
    effect: Effect | None = None
    """What it does to the rows; None where nobody has asked (`turns_of` always does)."""


class Removal(Struct, frozen=True):
    """Rows of a table that a DDL removed without row events."""

    seq: int
    """Of its transaction."""
    name: TableName
    statement: str
    gtid: str | None
    is_whole: bool
    """Whether it removed all of them (TRUNCATE); which ones a partition held is in no log."""
    effect: Effect | None = None
    """The same in the words of all DDL."""


def turns_of(engine: sa.Engine, source: str) -> list[Turn]:
    """The whole history of a source's tables, in stream order.

    Raises:
        StoreUnavailableError: The database does not answer.
        StoreFormatError: The store is damaged, or newer than this version.
    """
    store = SchemaStore(engine)
    entries = store.all_entries(source)
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    in_order = sorted(entries, key=lambda entry: entry.order)
    asked = changes_asked(engine, (entry.version_id for entry in entries))
    effects = EntryEffects(store).take(in_order, asked)
    columns = {version_id: _columns_of(changes) for version_id, changes in asked.items()}
    turns = []
    for entry in (one for one in in_order if one.name.table):
        renamed, added = columns.get(entry.version_id, ({}, frozenset()))
        turns.append(
            Turn(
                version_id=entry.version_id,
                order=(entry.seq, entry.statement_no, entry.version_id),
                name=entry.name,
                definition=store.definition(entry.fingerprint) if entry.fingerprint else None,
                gap=entry.gap,
                renamed_from=entry.renamed_from,
                renamed_columns=renamed,
                added_columns=added,
                effect=effects[entry.version_id, entry.name],
            )
        )
    return turns


def _columns_of(changes: Iterable[Change]) -> tuple[dict[str, str], frozenset[str]]:
    """The columns that a statement renames and adds: which they are is in its text alone."""
    steps = [step for change in changes if isinstance(change, AlterTable) for step in change.steps]
    return renamed_columns(steps), added_columns(steps)


def removals_of(engine: sa.Engine, source: str) -> list[Removal]:
    """What DDL removed of a source's tables without row events, in stream order.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    store = SchemaStore(engine)
    position = store.position(source)
    found = store.row_removals(source, 0, position.seq if position else 0)
    known = _partitions(store, source) if any(_PARTITION in one.statement.upper() for one in found) else {}
    return [
        Removal(one.seq, table, one.statement, one.gtid, effect.is_whole, effect)
        for one in found
        for table in one.tables
        for effect in [_removal_effect(one.statement, table, known.get((one.seq, one.tables[0]), ""))]
    ]


_PARTITION: Final = "PARTITION"


def _partitions(store: SchemaStore, source: str) -> dict[tuple[int, TableName], Partitioning | str]:
    entries = sorted(store.all_entries(source), key=lambda entry: entry.order)
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    asked = changes_asked(store.engine, (entry.version_id for entry in entries))
    return PartitionLives(store).run(entries, asked, partition_changes(store.engine, source))


def _removal_effect(statement: str, table: TableName, partitioning: Partitioning | str) -> Effect:
    """What a statement of the ledger does to one of the tables that it names."""
    try:
        changes = read_ddl(statement, DdlContext(table.database, 0))
    except DdlError:
        changes = ()
    removals = [change for change in changes if isinstance(change, RemoveRows)]
    if not removals:
        return read_again(f"`{statement}` removed rows, and no log says which")
    return effect_of_removal(removals[0], table, partitioning)
