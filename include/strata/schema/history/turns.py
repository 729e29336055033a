"""A source's history as turns: what each version makes of each table, in stream order, with the columns that its
statement renamed and added, and what DDL removed of rows without row events.
Not here: what a turn does to rows (`tables/convert.py`, `jobs/prove/replay.py`), single answers (`historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from strata.errors import DdlError
from strata.schema.ddl.changes import AddColumn, AlterTable, ChangeColumn, RemoveRows, RenameColumn
from strata.schema.ddl.context import DdlContext
from strata.schema.ddl.read import read_ddl
from strata.schema.history.sql_store import SchemaStore
from strata.schema.history.statements import changes_asked
from strata.schema.model.definition import TableName
from strata.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import sqlalchemy as sa

    from strata.schema.ddl.changes import AlterStep
    from strata.schema.model.definition import TableDefinition


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


class Removal(Struct, frozen=True):
    """Rows of a table that a DDL removed without row events."""

    seq: int
    """Of its transaction."""
    name: TableName
    statement: str
    gtid: str | None
    is_whole: bool
    """Whether it removed all of them (TRUNCATE); which ones a partition held is in no log."""


def turns_of(engine: sa.Engine, source: str) -> list[Turn]:
    """The whole history of a source's tables, in stream order.

    Raises:
        StoreUnavailableError: The database does not answer.
        StoreFormatError: The store is damaged, or newer than this version.
    """
    store = SchemaStore(engine)
    entries = [entry for entry in store.all_entries(source) if entry.name.table]
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    steps = _steps_of(engine, (entry.version_id for entry in entries))
    turns = []
    for entry in sorted(entries, key=lambda entry: entry.order):
        renamed, added = _columns_renamed(steps.get(entry.version_id, ()))
        turns.append(
            Turn(
                version_id=entry.version_id,
                order=(entry.seq, entry.statement_no, entry.version_id),
                name=entry.name,
                definition=store.definition(entry.fingerprint) if entry.fingerprint else None,
                gap=entry.gap,
                renamed_from=None if entry.renamed_from is None else _name(entry.renamed_from, entry.name.database),
                renamed_columns=renamed,
                added_columns=added,
            )
        )
    return turns


def removals_of(engine: sa.Engine, source: str) -> list[Removal]:
    """What DDL removed of a source's tables without row events, in stream order.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    store = SchemaStore(engine)
    position = store.position(source)
    found = store.row_removals(source, 0, position.seq if position else 0)
    return [
        Removal(one.seq, table, one.statement, one.gtid, is_whole=_is_truncate(one.statement))
        for one in found
        for table in one.tables
    ]


def _is_truncate(statement: str) -> bool:
    """Whether a statement of the ledger is a TRUNCATE; the others there are ALTER TABLE, and do more."""
    try:
        changes = read_ddl(statement, DdlContext("", 0))
    except DdlError:
        return False
    return all(isinstance(change, RemoveRows) for change in changes)


def _name(text: str, database: str) -> TableName:
    first, dot, second = text.partition(".")
    return TableName(first, second) if dot else TableName(database, first)


def _steps_of(engine: sa.Engine, version_ids: Iterable[int]) -> dict[int, tuple[AlterStep, ...]]:
    """What each ALTER TABLE asked for: which columns it renamed is in the statement alone."""
    return {
        version_id: tuple(step for change in changes if isinstance(change, AlterTable) for step in change.steps)
        for version_id, changes in changes_asked(engine, version_ids).items()
    }


def _columns_renamed(steps: Iterable[AlterStep]) -> tuple[dict[str, str], frozenset[str]]:
    renamed: dict[str, str] = {}
    added: set[str] = set()
    for step in steps:
        if isinstance(step, RenameColumn):
            renamed[step.new] = step.old
        elif isinstance(step, ChangeColumn) and fold_name(step.old) != fold_name(step.column.name):
            renamed[step.column.name] = step.old
        elif isinstance(step, AddColumn):
            added.add(step.column.name)
    return renamed, frozenset(added)
