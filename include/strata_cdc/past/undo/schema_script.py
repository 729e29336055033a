"""The statements of a script that takes DDL back: tables are locked for all of it, columns come back first and go last.

DDL ends a transaction, but not the locks of LOCK TABLES: nobody writes between the checks and the end (MySQL 9.7,
MariaDB 11.8 and 10.11). Without DDL, a script is one transaction (`script.py`).
Not here: what the DDL is (`inverse_ddl.py`), the check of definitions (`definition_guard.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.changes.select.statement import quoted_table
from strata_cdc.past.undo.definition_guard import guard_lines
from strata_cdc.past.undo.literals import condition, utf8_text
from strata_cdc.schema.model.create_sql import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.past.undo.schema_undo import SchemaUndo
    from strata_cdc.schema.model.definition import TableDefinition, TableName

UNLOCK = ("UNLOCK TABLES", "SET SESSION autocommit = @strata_autocommit")
"""After the last DDL."""
Tables = list[tuple["TableName", "TableDefinition"]]


def begin_with_locks(schemas: Sequence[SchemaUndo], now: Tables) -> Iterator[tuple[str, str]]:
    """The statements until rows are changed, each with its kind.

    Args:
        schemas: The statements that are taken back, of all tables that the script changes.
        now: The tables as they are while rows are changed.
    """
    before = [(schema.before.name, schema.before.definition) for schema in schemas if schema.before is not None]
    yield "begin", "SET @strata_autocommit = @@SESSION.autocommit, SESSION autocommit = 0"
    yield "begin", f"LOCK TABLES {', '.join(f'{quoted_table(name)} WRITE' for name, _ in before)}"
    for statement in guard_lines(before):
        yield "definition", statement
    altered = [schema for schema in schemas if any(inverse.first for inverse in schema.inverses)]
    for schema in altered:
        for inverse in schema.inverses:
            if inverse.first:
                yield from _unless_failed(f"ALTER TABLE {quoted_table(inverse.now.name)} {', '.join(inverse.first)}")
    for statement in guard_lines(now) if altered else ():
        yield "definition", statement


def last_checks(schemas: Sequence[SchemaUndo]) -> Iterator[tuple[str, str]]:
    """The statements before COMMIT that look whether what goes is still what the DDL made of it."""
    for schema in schemas:
        for inverse in schema.inverses:
            table = quoted_table(inverse.now.name)
            if inverse.drops_table:
                yield from _count(f"SELECT COUNT(*) FROM {table}", f"rows are in {inverse.now.name}, which goes")  # noqa: S608 - quoted names
            for added in inverse.added:
                if not added.is_computed:
                    holds = condition(added.column, added.value)
                    other = f"rows of {inverse.now.name} have another value in {added.column.name} than ADD COLUMN gave"
                    yield from _count(f"SELECT COUNT(*) FROM {table} WHERE ({holds}) IS NOT TRUE", other)  # noqa: S608 - likewise


def last_ddl(schemas: Sequence[SchemaUndo]) -> Iterator[tuple[str, str]]:
    """The statements after COMMIT."""
    for schema in schemas:
        if any(inverse.drops_table for inverse in schema.inverses):
            yield from _unless_failed(f"DROP TABLE {quoted_table(schema.inverses[0].now.name)}")
            continue
        clauses = list(_last_clauses(schema))
        if clauses:
            yield from _unless_failed(f"ALTER TABLE {quoted_table(schema.inverses[0].now.name)} {', '.join(clauses)}")


def _last_clauses(schema: SchemaUndo) -> Iterator[str]:
    for inverse in schema.inverses:
        yield from (f"DROP COLUMN {quoted(added.column.name)}" for added in inverse.added)
    names = [inverse.rename_to for inverse in schema.inverses if inverse.rename_to is not None]
    if names:
        yield f"RENAME TO {quoted_table(names[-1])}"


def _count(query: str, what: str) -> Iterator[tuple[str, str]]:
    yield "check", "SET @strata_rows = NULL"
    yield "check", f"SET @strata_rows = ({query})"
    told = f"CONCAT(COALESCE(@strata_rows, 'some'), {utf8_text(' ' + what)})"
    yield "check", f"SET @strata_other = IF(@strata_rows <=> 0, @strata_other, CONCAT_WS(', ', @strata_other, {told}))"


def _unless_failed(statement: str) -> Iterator[tuple[str, str]]:
    """DDL that is not executed if something failed before and the client went on (mysql --force)."""
    yield "comment", statement
    yield "alter", f"SET @strata_end = IF(@strata_other IS NULL, {utf8_text(statement)}, 'DO 0')"
    yield "alter", "PREPARE strata_end FROM @strata_end"
    yield "alter", "EXECUTE strata_end"
