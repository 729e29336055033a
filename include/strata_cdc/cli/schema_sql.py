"""`strata schema show --dialect`: versions as CREATE TABLE statements.
Not here: the statements (`dialects/`, `schema/answers/create_statements.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import say, say_exactly
from strata_cdc.dialects.engines import Dialect
from strata_cdc.schema.answers.create_statements import create_statement
from strata_cdc.schema.history.historian import Gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.answers.tables import TablesAt
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import SchemaVersion
    from strata_cdc.schema.model.definition import TableName

_LOST = "not in this statement: "
_IN_DOUBT = "may be otherwise than SHOW CREATE TABLE had it: "


def print_statements(store: SchemaStore, source: str, tables: TablesAt, dialect: Dialect, *, as_json: bool) -> None:
    """Prints the statement of each table that is known; those that are not are the command's error."""
    for name, version in tables.tables:
        if isinstance(version, Gap):
            continue
        statements, notes = _statements(store, source, name, version, dialect)
        if as_json:
            print_line(_line(tables.executed, name, dialect, statements, notes))
        else:
            _print(name, dialect, statements, notes)


def _statements(
    store: SchemaStore, source: str, name: TableName, version: SchemaVersion, dialect: Dialect
) -> tuple[Sequence[str], Sequence[str]]:
    if dialect is Dialect.MYSQL:
        statement = create_statement(store, source, name, version)
        return (statement.sql,), statement.notes
    from strata_cdc.dialects.create_table import create_table

    made = create_table(name, version.definition, dialect)
    return made.statements, made.lost


def _line(
    executed: str, name: TableName, dialect: Dialect, statements: Sequence[str], notes: Sequence[str]
) -> dict[str, Any]:
    head = {"gtid_executed": executed, "database": name.database, "table": name.table, "dialect": dialect.value}
    return {**head, "statements": statements, "notes": notes}


def _print(name: TableName, dialect: Dialect, statements: Sequence[str], notes: Sequence[str]) -> None:
    """For MySQL the statement alone, byte for byte; remarks about it go to standard error."""
    if dialect is Dialect.MYSQL:
        for note in notes:
            say(f"strata: {name}: {_IN_DOUBT}{note}", err=True)
    else:
        for note in notes:
            say_exactly(f"-- {_LOST}{' '.join(note.splitlines())}")
    for statement in statements:
        say_exactly(f"{statement};\n")
