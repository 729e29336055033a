"""CREATE TABLE as SHOW CREATE TABLE printed it at a point of the stream, and what of it cannot be told.
Not here: the statement's form (`schema/model/create_sql.py`), other engines' statements (`dialects/`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata.schema.answers.changes import changes
from strata.schema.answers.written import written_after
from strata.schema.ddl.changes import CreateTableLike
from strata.schema.history.statements import changes_asked
from strata.schema.history.versions import Origin
from strata.schema.model.create_sql import NOTHING_WRITTEN, create_table_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata.schema.answers.changes import TableChange
    from strata.schema.history.sql_store import SchemaStore
    from strata.schema.history.versions import SchemaVersion
    from strata.schema.model.create_sql import AsWritten
    from strata.schema.model.definition import TableDefinition, TableName

_UNTOLD: Final = {
    r"\bFOREIGN\s+KEY\b|\bREFERENCES\b": "foreign keys",
    r"\bCHECK\s*\(": "CHECK constraints",
    r"\bCOMMENT\s*=|\)[^()]*\bCOMMENT\s*'": "comments of the table and of its keys",
    r"\bAUTO_INCREMENT\s*=?\s*\d": "AUTO_INCREMENT of the table",
    r"\b(?:COLUMN_FORMAT|STORAGE\s+(?:DISK|MEMORY))\b": "COLUMN_FORMAT and STORAGE",
    r"\bUSING\s+(?:BTREE|HASH)\b|\bKEY_BLOCK_SIZE\b|\bWITH\s+PARSER\b": "options of keys",
    r"\b(?:STATS_\w+|CHECKSUM|DELAY_KEY_WRITE|PACK_KEYS|MIN_ROWS|MAX_ROWS|AVG_ROW_LENGTH|COMPRESSION|ENCRYPTION"
    r"|TABLESPACE|(?:DATA|INDEX)\s+DIRECTORY|INSERT_METHOD|UNION)\b": "further options of the table",
}
"""What is not part of a version, by what a statement says of it. Too much here only makes a note too many."""

_COPIED: Final = "what LIKE copies of the other table: foreign keys aside, all that is named here"
_NOT_IN_BASELINES: Final = "{}foreign keys, CHECK constraints, comments and options of the table and its keys"


class CreateStatement(Struct, frozen=True):
    """The statement of one table."""

    name: TableName
    sql: str
    notes: tuple[str, ...]
    """What it may lack or say otherwise than the server did."""


def create_statement(store: SchemaStore, source: str, name: TableName, version: SchemaVersion) -> CreateStatement:
    """What SHOW CREATE TABLE printed of a version, keys in the order that its history tells.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    written, notes = _walked(list(_up_to(changes(store, source, name), name, version.version_id)), store)
    definition = version.definition
    notes += _notes_of(definition)
    return CreateStatement(name, create_table_sql(name.table, definition, written), tuple(dict.fromkeys(notes)))


def _up_to(found: Iterable[TableChange], name: TableName, version_id: int) -> Iterator[TableChange]:
    for change in found:
        yield change
        if change.entry.version_id == version_id and change.entry.name == name:
            return


def _walked(found: Sequence[TableChange], store: SchemaStore) -> tuple[AsWritten, list[str]]:
    """How all statements of a history had the table, and what they say that no version holds."""
    asked = changes_asked(store.engine, (change.entry.version_id for change in found))
    written = NOTHING_WRITTEN
    notes: list[str] = []
    for change in found:
        if change.after is None:
            written, notes = NOTHING_WRITTEN, []
        elif change.entry.origin is not Origin.DDL:
            written = NOTHING_WRITTEN
            of_keys = "the order of keys, " if len(change.after.keys) > 1 else ""
            notes = [f"a {change.entry.origin} does not tell {_NOT_IN_BASELINES.format(of_keys)}"]
        else:
            statements = asked.get(change.entry.version_id, ())
            notes += _said(change.ddl or "")
            notes += [_COPIED for one in statements if isinstance(one, CreateTableLike)]
            written = written_after(written, change.after, statements)
    return written, notes


def _said(statement: str) -> list[str]:
    return [note for pattern, note in _UNTOLD.items() if re.search(pattern, statement, re.IGNORECASE)]


def _notes_of(definition: TableDefinition) -> list[str]:
    """What does not hold byte for byte because of how it is stored."""
    notes = []
    if definition.options:
        notes.append("the partitioning stands as it was written")
    if any(column.generated for column in definition.columns) or any(
        column.default_is_expression and not str(column.default).startswith("CURRENT_TIMESTAMP")
        for column in definition.columns
    ):
        notes.append("expressions stand as they were written")
    if definition.engine is None:
        notes.append("the engine, which no statement names")
    if definition.in_doubt:
        notes.append("the length of a key's prefix, which no binlog holds")
    return notes
