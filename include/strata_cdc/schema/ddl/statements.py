"""Choosing the parser of a statement, and the short statements: databases, indexes, views, sequences, RENAME,
DROP, TRUNCATE.
Not here: CREATE TABLE (`create.py`), ALTER TABLE (`alter.py`), what a view's query means (`dialects/queries/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.alter import read_alter_table, skip_wait
from strata_cdc.schema.ddl.changes import (
    AddKey,
    AlterDatabase,
    AlterStep,
    AlterTable,
    Change,
    ChangeColumn,
    Conditional,
    CreateDatabase,
    CreateTable,
    CreateView,
    DropDatabase,
    DropKey,
    DropTables,
    DropViews,
    Existing,
    RemoveRows,
    RenameTables,
    WrittenColumn,
    WrittenKey,
    WrittenType,
)
from strata_cdc.schema.ddl.create import read_create_table
from strata_cdc.schema.ddl.ill_formed import has_kept_bytes
from strata_cdc.schema.ddl.keys import read_key_options, read_key_parts
from strata_cdc.schema.ddl.lexer import END, STRING
from strata_cdc.schema.ddl.options import read_charset_option, read_sequence_options
from strata_cdc.schema.model.definition import KeyKind
from strata_cdc.schema.model.types import TypeKind
from strata_cdc.schema.model.view import ViewDefinition

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.ddl.changes import Change, CreateTableLike
    from strata_cdc.schema.ddl.cursor import TokenCursor
    from strata_cdc.schema.model.definition import TableName


def read_statement(cursor: TokenCursor) -> tuple[Change, ...]:
    """The changes that a statement requests; none if it cannot change a table."""
    reader = _STATEMENTS.get(cursor.word)
    if reader is None:
        return ()
    cursor.at += 1
    return reader(cursor)


# CREATE -----------------------------------------------------------------------------------------


def _create(cursor: TokenCursor) -> tuple[Change, ...]:
    existing = Existing.REPLACE if cursor.take_all("OR", "REPLACE") else Existing.REFUSE
    temporary = cursor.take_any("TEMPORARY", "EXTERNAL") == "TEMPORARY"
    if cursor.accept("TABLE"):
        return (_if_made(read_create_table(cursor, existing, temporary=temporary)),)
    if cursor.take_any("DATABASE", "SCHEMA"):
        return (_create_database(cursor, existing),)
    if cursor.sees("SPATIAL", "REFERENCE"):
        return ()
    if cursor.accept("SEQUENCE"):
        return (_if_made(read_create_sequence(cursor, existing, temporary=temporary)),)
    kind = cursor.take_any("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
    cursor.take_any("ONLINE", "OFFLINE")  # before 5.6
    if cursor.accept("INDEX"):
        return (_create_index(cursor, KeyKind(kind.lower()) if kind else KeyKind.INDEX, existing),)
    if kind:
        cursor.fail("expected INDEX")
    return read_create_view(cursor)


def _if_made(change: CreateTable | CreateTableLike) -> Change:
    """The change; only the drop of the old table if the statement failed after it."""
    if change.context.failed and change.existing is Existing.REPLACE:
        return DropTables(change.context, (change.name,), temporary=change.temporary, if_exists=True)
    return change


def _create_database(cursor: TokenCursor, existing: Existing) -> Change:
    if cursor.take_all("IF", "NOT", "EXISTS"):
        existing = Existing.KEEP
    name = _database_name(cursor)
    charset, collation = _database_options(cursor)
    return CreateDatabase(cursor.context, name, charset, collation, existing)


def _database_name(cursor: TokenCursor) -> str:
    return cursor.folded(cursor.name(), "").database


def _database_options(cursor: TokenCursor) -> tuple[str | None, str | None]:
    charset = collation = None
    while not cursor.at_end():
        option = read_charset_option(cursor)
        if option is None:
            # ENCRYPTION, READ ONLY, COMMENT (MariaDB): they do not affect columns.
            cursor.at += 1
        elif option[0] is not None:
            charset = option[0]
        else:
            collation = option[1]
    return charset, collation


def _create_index(cursor: TokenCursor, kind: KeyKind, existing: Existing) -> Change:
    conditional = cursor.take_all("IF", "NOT", "EXISTS")
    name = cursor.name()
    using_hash = None
    if cursor.take_any("USING", "TYPE"):
        using_hash = cursor.word == "HASH"
        cursor.skip()
    cursor.expect("ON")
    table = cursor.table_name()
    parts = read_key_parts(cursor)
    options = read_key_options(cursor)
    using_hash = using_hash if options.using_hash is None else options.using_hash
    key = WrittenKey(kind, parts, name, invisible=options.invisible, using_hash=using_hash)
    steps: list[AlterStep] = [Conditional(DropKey(name))] if existing is Existing.REPLACE else []
    steps.append(Conditional(AddKey(key)) if conditional else AddKey(key))
    return AlterTable(cursor.context, table, tuple(steps))


# ALTER ------------------------------------------------------------------------------------------


def _alter(cursor: TokenCursor) -> tuple[Change, ...]:
    cursor.take_any("ONLINE", "OFFLINE")
    ignore = cursor.accept("IGNORE")
    if cursor.accept("TABLE"):
        return read_alter_table(cursor, ignore=ignore)
    if cursor.take_any("DATABASE", "SCHEMA"):
        return _alter_database(cursor)
    if cursor.accept("SEQUENCE"):
        return read_alter_sequence(cursor)
    return read_create_view(cursor)


def _alter_database(cursor: TokenCursor) -> tuple[Change, ...]:
    # Without a name, the default database is meant, and its first option comes next.
    name = cursor.context.default_database if _is_database_option_ahead(cursor) else _database_name(cursor)
    charset, collation = _database_options(cursor)
    if charset is None and collation is None:
        return ()
    return (AlterDatabase(cursor.context, name, charset, collation),)


def _is_database_option_ahead(cursor: TokenCursor) -> bool:
    begin = cursor.at
    is_charset = read_charset_option(cursor) is not None
    cursor.at = begin
    return (
        is_charset or (cursor.word == "ENCRYPTION" and cursor.ahead(1) in {"=", STRING}) or cursor.sees("READ", "ONLY")
    )


# DROP, TRUNCATE, RENAME -------------------------------------------------------------------------


def _drop(cursor: TokenCursor) -> tuple[Change, ...]:
    temporary = cursor.accept("TEMPORARY")
    if kind := cursor.take_any("TABLE", "TABLES", "SEQUENCE"):
        if_exists = cursor.take_all("IF", "EXISTS")
        names, sequences = cursor.listed(cursor.table_name), kind == "SEQUENCE"
        return (DropTables(cursor.context, names, temporary=temporary, if_exists=if_exists, sequences=sequences),)
    if cursor.accept("VIEW"):
        cursor.take_all("IF", "EXISTS")
        return (DropViews(cursor.context, cursor.listed(cursor.table_name)),)
    if cursor.take_any("DATABASE", "SCHEMA"):
        cursor.take_all("IF", "EXISTS")
        return (DropDatabase(cursor.context, _database_name(cursor)),)
    cursor.take_any("ONLINE", "OFFLINE")
    if cursor.accept("INDEX"):
        conditional = cursor.take_all("IF", "EXISTS") or cursor.context.sql_if_exists
        name = cursor.name()
        cursor.expect("ON")
        step = Conditional(DropKey(name)) if conditional else DropKey(name)
        return (AlterTable(cursor.context, cursor.table_name(), (step,)),)
    return ()


def _truncate(cursor: TokenCursor) -> tuple[Change, ...]:
    cursor.accept("TABLE")
    try:
        return (RemoveRows(cursor.context, (cursor.table_name(),)),)
    except DdlError:
        return ()  # the named object keeps its definition: no reason for a gap


def _rename(cursor: TokenCursor) -> tuple[Change, ...]:
    if not cursor.take_any("TABLE", "TABLES"):
        return ()
    if_exists = cursor.take_all("IF", "EXISTS") or cursor.context.sql_if_exists
    pairs = cursor.listed(lambda: _renamed(cursor))
    if not cursor.at_end():
        cursor.fail("expected the end")
    return (RenameTables(cursor.context, pairs, if_exists),)


def _renamed(cursor: TokenCursor) -> tuple[TableName, TableName]:
    old = cursor.table_name()
    skip_wait(cursor)
    cursor.expect("TO")
    return old, cursor.table_name()


# SET --------------------------------------------------------------------------------------------


def _set(cursor: TokenCursor) -> tuple[Change, ...]:
    cursor.at -= 1
    return read_statement(cursor) if cursor.skip_settings() else ()


_STATEMENTS: dict[str, Callable[[TokenCursor], tuple[Change, ...]]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _rename,
    "SET": _set,
}


_NO_VIEW: Final = frozenset(
    {"TRIGGER", "PROCEDURE", "FUNCTION", "LIBRARY", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "LOGFILE", "AS",
     "PACKAGE"}
)  # fmt: skip
_NO_CHARACTER: Final = "\ufffd"


def read_create_view(cursor: TokenCursor) -> tuple[CreateView, ...]:
    """[ALGORITHM = x] [DEFINER = user] [SQL SECURITY x] VIEW name [(names)] AS query; no change for triggers, routines
    and others."""
    while not cursor.at_end() and cursor.word not in {"VIEW", *_NO_VIEW}:
        cursor.skip_part()
    if not cursor.accept("VIEW"):
        return ()
    existing = Existing.KEEP if cursor.take_all("IF", "NOT", "EXISTS") else Existing.REPLACE
    name = cursor.table_name()
    try:
        definition = _definition(cursor)
    except DdlError:
        # A query about it is refused; no table depends on it.
        definition = None
    return (CreateView(cursor.context, name, definition, existing),)


def _definition(cursor: TokenCursor) -> ViewDefinition | None:
    columns: tuple[str, ...] = ()
    if cursor.accept("("):
        columns = cursor.listed(cursor.name)
        cursor.expect(")")
    cursor.expect("AS")
    begin = cursor.offset
    end = cursor.tokens.spans[_last_token(cursor)][1]
    query = cursor.tokens.opened(begin, end)
    if has_kept_bytes(query) or _NO_CHARACTER in query:
        return None
    context = cursor.context
    return ViewDefinition(
        query, tuple(columns), context.default_database, context.sql_mode, context.connection_collation
    )


def _last_token(cursor: TokenCursor) -> int:
    """The number of the last token of the query: `WITH [CASCADED | LOCAL] CHECK OPTION` is none of it."""
    end = len(cursor.words)
    while cursor.words[end - 1] in {END, ";"}:
        end -= 1
    if cursor.words[end - 2 : end] == ["CHECK", "OPTION"]:
        end -= 2
        end -= cursor.words[end - 1] in {"CASCADED", "LOCAL"}
        end -= cursor.words[end - 1] == "WITH"
    return end - 1


_NUMBER: Final = WrittenType(TypeKind.BIGINT)
_TYPED: Final = {
    "next_not_cached_value": "",
    "minimum_value": "",
    "maximum_value": "",
    "start_value": "start value when sequences is created or value if RESTART is used",
}
"""The columns that have the type of the sequence, with their comments (sql/sql_sequence.cc, `sequence_structure`)."""
_OTHERS: Final = (
    WrittenColumn("increment", WrittenType(TypeKind.BIGINT, 21), nullable=False, comment="increment value"),
    WrittenColumn("cache_size", WrittenType(TypeKind.BIGINT, 21, unsigned=True), nullable=False),
    WrittenColumn(
        "cycle_option",
        WrittenType(TypeKind.TINYINT, 1, unsigned=True),
        nullable=False,
        comment="0 if no cycles are allowed, 1 if the sequence should begin a new cycle when maximum_value is passed",
    ),
    WrittenColumn(
        "cycle_count",
        WrittenType(TypeKind.BIGINT, 21),
        nullable=False,
        comment="How many cycles have been done",
    ),
)


def read_create_sequence(cursor: TokenCursor, existing: Existing, *, temporary: bool) -> CreateTable:
    """Reads a CREATE SEQUENCE after the word SEQUENCE."""
    if cursor.take_all("IF", "NOT", "EXISTS"):
        existing = Existing.KEEP
    name = cursor.table_name()
    kind, options = read_sequence_options(cursor)
    columns = (*_typed(kind or _NUMBER), *_OTHERS)
    return CreateTable(cursor.context, name, columns, (), options, existing, temporary=temporary)


def read_alter_sequence(cursor: TokenCursor) -> tuple[Change, ...]:
    """Reads an ALTER SEQUENCE after the word SEQUENCE; only AS changes the table. The row is another one afterwards, of
    which there is no row event."""
    if_exists = cursor.take_all("IF", "EXISTS") or cursor.context.sql_if_exists
    name = cursor.table_name()
    kind, _ = read_sequence_options(cursor)
    gone = RemoveRows(cursor.context, (name,))
    if kind is None:
        return (gone,)
    steps = tuple(ChangeColumn(column.name, column) for column in _typed(kind))
    return (AlterTable(cursor.context, name, steps, if_exists=if_exists), gone)


def _typed(kind: WrittenType) -> tuple[WrittenColumn, ...]:
    widths = kind.kind.facts.display_widths
    # One more than the width of the signed type, whatever the sign is.
    sized = kind if widths is None else replace(kind, length=widths[0] + 1)
    return tuple(WrittenColumn(name, sized, nullable=False, comment=comment) for name, comment in _TYPED.items())
