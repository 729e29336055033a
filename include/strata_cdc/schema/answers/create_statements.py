"""CREATE TABLE as SHOW CREATE TABLE printed it at a position of the stream, with notes about what is not known of it.
Not here: the statement's form (`schema/model/create_sql.py`), other engines' statements (`dialects/`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.schema.apply.diff import facts_in_doubt
from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AddKey,
    AlterTable,
    ChangeColumn,
    CreateTable,
    CreateTableLike,
    DropColumn,
    DropKey,
    RenameColumn,
    RenameKey,
    SetDefault,
)
from strata_cdc.schema.ddl.create import column_keys
from strata_cdc.schema.history.statements import requested_changes
from strata_cdc.schema.history.versions import VersionOrigin
from strata_cdc.schema.model.create_sql import NOTHING_WRITTEN, AsWritten, create_table_sql, shown_keys
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep, Change, WrittenColumn, WrittenKey
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import SchemaVersion, StoredEntry
    from strata_cdc.schema.model.definition import Key, TableDefinition, TableName


# How statements wrote a table, as far as SHOW CREATE TABLE repeats it: followed through the statements of its
# history.
def written_after(before: AsWritten, after: TableDefinition, statements: Sequence[Change]) -> AsWritten:
    """How the table is written after a statement.

    Args:
        before: How it was written before.
        after: The table's definition after the statement.
        statements: The changes that the statement requested.
    """
    steps = [step for change in statements if isinstance(change, AlterTable) for step in change.steps]
    created = [change for change in statements if isinstance(change, CreateTable)]
    collated, without = set(before.collated or ()), set(before.without_default)
    for change in created:
        collated = {fold_name(column.name) for column in change.columns if _is_collated(column)}
        without = set()
    renames = {fold_name(old): fold_name(new) for old, new in _renamed(steps)}
    collated, without = ({renames.get(name, name) for name in names} for names in (collated, without))
    for step in steps:
        _follow(step, collated, without)
    present = {fold_name(column.name) for column in after.columns}
    is_known = before.collated is not None or bool(created)
    return AsWritten(
        _order_after(before.key_order, after, steps, created),
        frozenset(collated & present) if is_known else None,
        frozenset(without & present),
    )


def _renamed(steps: Iterable[AlterStep]) -> list[tuple[str, str]]:
    """All renames at once: names may be swapped."""
    return [(step.old, step.new) for step in steps if isinstance(step, RenameColumn)]


def _follow(step: AlterStep, collated: set[str], without: set[str]) -> None:
    if isinstance(step, (AddColumn, ChangeColumn)):
        old = step.old if isinstance(step, ChangeColumn) else step.column.name
        for names in (collated, without):
            names.discard(fold_name(old))
        if _is_collated(step.column):
            collated.add(fold_name(step.column.name))
    elif isinstance(step, SetDefault):
        change = without.add if step.default is None else without.discard
        change(fold_name(step.name))
    elif isinstance(step, DropColumn):
        collated.discard(fold_name(step.name))


def _is_collated(column: WrittenColumn) -> bool:
    # BINARY after a type chooses a collation, but it does not count as a written collation.
    return column.collation is not None or column.type.charset is not None


def _order_after(
    before: Sequence[str], after: TableDefinition, steps: Sequence[AlterStep], created: Sequence[CreateTable]
) -> tuple[str, ...]:
    """Names of the keys in the order in which the server keeps them: first the keys that stay, then the new ones as
    written."""
    renamed = {fold_name(step.old): step.new for step in steps if isinstance(step, RenameKey)}
    dropped = {fold_name(step.name) for step in steps if isinstance(step, DropKey)}
    stay = [renamed.get(fold_name(name), name) for name in before if not created and fold_name(name) not in dropped]
    known = {fold_name(name) for name in stay}
    present = {fold_name(key.name): key for key in after.keys}
    added = [key for change in created for key in change.keys] + _added_keys(steps)
    new = [key for folded, key in present.items() if folded not in known]
    ordered = [name for name in stay if fold_name(name) in present]
    ordered += [key.name for key in sorted(new, key=lambda key: _place(key, added))]
    return tuple(key.name for key in shown_keys(after, ordered))


def _added_keys(steps: Iterable[AlterStep]) -> list[WrittenKey]:
    added: list[WrittenKey] = []
    for step in steps:
        if isinstance(step, AddKey):
            added.append(step.key)
        elif isinstance(step, (AddColumn, ChangeColumn)):
            added += column_keys(step.column)
    return added


def _place(key: Key, written: Sequence[WrittenKey]) -> int:
    """The index of a key among the written ones: by its name or, if it has no name, by its columns."""
    folded = fold_name(key.name)
    columns = [part.column and fold_name(part.column) for part in key.parts]
    for ordinal, named in enumerate(written):
        if named.name is not None and fold_name(named.name) == folded:
            return ordinal
    for ordinal, named in enumerate(written):
        if named.name is None and [part.column and fold_name(part.column) for part in named.parts] == columns:
            return ordinal
    return len(written)


_NOT_STORED: Final = {
    r"\bFOREIGN\s+KEY\b|\bREFERENCES\b": "foreign keys",
    r"\bCHECK\s*\(": "CHECK constraints",
    r"\bCOMMENT\s*=|\)[^()]*\bCOMMENT\s*'": "comments of the table and of its keys",
    r"\bAUTO_INCREMENT\s*=?\s*\d": "AUTO_INCREMENT of the table",
    r"\b(?:COLUMN_FORMAT|STORAGE\s+(?:DISK|MEMORY))\b": "COLUMN_FORMAT and STORAGE",
    r"\bMASKING\s+POLICY\b": "masking policies",
    r"\bUSING\s+(?:BTREE|HASH)\b|\bKEY_BLOCK_SIZE\b|\bWITH\s+PARSER\b": "options of keys",
    r"\b(?:STATS_\w+|CHECKSUM|DELAY_KEY_WRITE|PACK_KEYS|MIN_ROWS|MAX_ROWS|AVG_ROW_LENGTH|COMPRESSION|ENCRYPTION"
    r"|TABLESPACE|(?:DATA|INDEX)\s+DIRECTORY|INSERT_METHOD|UNION)\b": "further options of the table",
}
"""Facts that are not part of a version, by the words of statements that set them. A wrong match only adds a note."""

_NOT_INCLUDED: Final = "{}foreign keys, CHECK constraints, comments and options of the table and its keys"


class CreateStatement(Struct, frozen=True):
    """The statement of one table."""

    name: TableName
    sql: str
    notes: tuple[str, ...]
    """What the statement may lack, or have otherwise than the server."""


def create_statement(store: SchemaStore, source: str, name: TableName, version: SchemaVersion) -> CreateStatement:
    """The output of SHOW CREATE TABLE for a version, as far as the history has it."""
    walk = _TableStatements(store, source)
    written, notes = walk.follow(name, version.version_id)
    sql = create_table_sql(name.table, version.definition, written)
    return CreateStatement(name, sql, tuple(dict.fromkeys([*notes, *_notes_of(version.definition)])))


class _TableStatements:
    """Follows the statements of a table, and of the tables that it was renamed or copied from."""

    def __init__(self, store: SchemaStore, source: str) -> None:
        self._store = store
        self._source = source

    def follow(self, name: TableName, last: int) -> tuple[AsWritten, list[str]]:
        """How the statements up to a version wrote the table of this name, and their facts that no version has."""
        entries = self._store.timeline(self._source, {name})
        entries = entries[: max((at for at, entry in enumerate(entries, 1) if entry.version_id == last), default=0)]
        return self._through(entries)

    def _before(self, name: TableName, entry: StoredEntry) -> tuple[AsWritten, list[str]]:
        """The same for another table before a statement."""
        entries = self._store.timeline(self._source, {name})
        return self._through([other for other in entries if other.order[:3] < entry.order[:3]])

    def _through(self, entries: Sequence[StoredEntry]) -> tuple[AsWritten, list[str]]:
        begin = max((at for at, entry in enumerate(entries, 1) if entry.fingerprint is None), default=0)
        written = NOTHING_WRITTEN
        notes: list[str] = []
        self._store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
        ids = [entry.version_id for entry in entries]
        requested, ddls = requested_changes(self._store.engine, ids), self._store.ddls(ids)
        for entry in entries[begin:]:
            definition = self._store.definition(str(entry.fingerprint))
            if entry.origin is not VersionOrigin.DDL:
                of_keys = "the order of keys, " if len(definition.keys) > 1 else ""
                written, notes = NOTHING_WRITTEN, [f"a {entry.origin} does not tell {_NOT_INCLUDED.format(of_keys)}"]
                continue
            statements = requested.get(entry.version_id, ())
            origin = self._origin(entry, statements)
            if origin is not None:
                written, notes = self._before(origin, entry)
            notes = [*notes, *_unstored_parts(ddls.get(entry.version_id, ""))]
            written = written_after(written, definition, statements)
        return written, notes

    @staticmethod
    def _origin(entry: StoredEntry, statements: Sequence[Change]) -> TableName | None:
        """The table that this statement renamed to this one, or that this one is a copy of."""
        if entry.renamed_from:
            return entry.renamed_from
        return next((statement.like for statement in statements if isinstance(statement, CreateTableLike)), None)


def _unstored_parts(statement: str) -> list[str]:
    return [note for pattern, note in _NOT_STORED.items() if re.search(pattern, statement, re.IGNORECASE)]


def _notes_of(definition: TableDefinition) -> list[str]:
    """The facts that are not exact byte for byte, because of how they are stored."""
    notes = []
    if definition.options:
        notes.append("the partitioning is shown as it was written")
    is_functional = any(part.column is None for key in definition.keys for part in key.parts)
    if (
        is_functional
        or any(column.generated for column in definition.columns)
        or any(
            column.default_is_expression and not str(column.default).startswith("CURRENT_TIMESTAMP")
            for column in definition.columns
        )
    ):
        notes.append("expressions stand as they were written")
    if definition.engine is None:
        notes.append("ENGINE=InnoDB: no statement names the engine, so it was the session's default")
    if definition.collation is None:
        notes.append("the default charset of the table, which no binlog holds")
    notes += facts_in_doubt(definition)
    return notes
