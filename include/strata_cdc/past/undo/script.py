"""The text of a script: its comments, its session, its statements with their checks, and its end.

It is meant for `mysql < undo.sql`: one transaction, a statement to a line. Each statement is checked by the server
itself (ROW_COUNT()): if one has found another row than expected, the end of the script rolls everything back and fails.
The end does so even where a client goes on after errors (`mysql --force`), since an error makes ROW_COUNT() -1, and
where it goes on in another session after the connection was lost (`source undo.sql` in `mysql`).
Not here: what the statements are (`undo.py`)."""

from __future__ import annotations

import json
from itertools import groupby
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.changes.select.statement import quoted_table
from strata_cdc.counted import counted
from strata_cdc.past.undo.definition_guard import guard_lines
from strata_cdc.past.undo.literals import condition, utf8_text
from strata_cdc.past.undo.row_changes import ChangeOrigin, moment_text
from strata_cdc.past.undo.schema_undo import in_order_of_names
from strata_cdc.past.undo.steps import IN_SESSION, Direction
from strata_cdc.past.undo.table_outcomes import Conflicting, PrintedStatement, SkippedChange
from strata_cdc.past.undo.undo import LISTED
from strata_cdc.position.sets import DOMAIN_GTID, Gtid, GtidSet
from strata_cdc.schema.model.create_sql import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.past.undo.schema_undo import SchemaUndo
    from strata_cdc.past.undo.table_outcomes import Outcome
    from strata_cdc.past.undo.undo import ChangeScript, UndoReport
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_MOST_CHARACTERS: Final = 1000
"""Of a GTID set in a comment."""
_SQL_MODE: Final = (
    "STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"
)
SESSION: Final = (
    "SET @strata_sql_mode = @@SESSION.sql_mode, @strata_time_zone = @@SESSION.time_zone, "
    "@strata_safe_updates = @@SESSION.sql_safe_updates "
    # A primary key that the server has generated is a column like others (MySQL 8.0.30).
    "/*!80030 , @strata_gipk = @@SESSION.show_gipk_in_create_table_and_information_schema */ "
    # A charset without a collation means its own default (MariaDB 11.2).
    "/*M!110200 , @strata_collations = @@SESSION.character_set_collations */",
    "SET NAMES utf8mb4",
    # Strict: a value that does not fit is an error. Zero dates, and dates that no month has, are values like others.
    f"SET SESSION sql_mode = '{_SQL_MODE}', time_zone = '+00:00', sql_safe_updates = 0 "
    "/*!80030 , SESSION show_gipk_in_create_table_and_information_schema = ON */ "
    "/*M!110200 , SESSION character_set_collations = '' */",
    f"SET @strata_other = NULL, {IN_SESSION} = 1",
)
"""What a script sets first."""
_HOLDS: Final = f"{IN_SESSION} AND @strata_other IS NULL"
END: Final = (
    f"SELECT IF({IN_SESSION} IS NULL, 'the connection was lost', IF({_HOLDS}, 'every statement found what it expects', "
    "CONCAT('rolled back: these statements found something else: ', @strata_other))) AS strata",
    f"SET @strata_end = IF({_HOLDS}, 'COMMIT', 'ROLLBACK')",
    "PREPARE strata_end FROM @strata_end",
    "EXECUTE strata_end",
)
"""With what the changes of rows end."""
FAIL: Final = (
    "SET SESSION sql_mode = @strata_sql_mode, time_zone = @strata_time_zone, sql_safe_updates = @strata_safe_updates "
    "/*!80030 , SESSION show_gipk_in_create_table_and_information_schema = @strata_gipk */ "
    "/*M!110200 , SESSION character_set_collations = @strata_collations */",
    # No server has SIGNAL outside of procedures: a table that is not there makes the client fail.
    # If the connection was lost, nobody knows here whether that was before COMMIT.
    f"SET @strata_end = IF({_HOLDS}, 'DO 0', IF({IN_SESSION} IS NULL, "  # noqa: S608 - constants
    "'DO (SELECT 1 FROM `connection lost, make the script again`.`-`)', "
    "'DO (SELECT 1 FROM `rolled back, nothing was changed`.`-`)'))",
    "PREPARE strata_end FROM @strata_end",
    "EXECUTE strata_end",
    "DEALLOCATE PREPARE strata_end",
)
"""With what a script ends."""


def check(number: int, written: PrintedStatement) -> str:
    """The statement after statement `number` that notes whether it changed one row; or whether the row is as it is to
    be, where a foreign key may have done it together with an UPDATE of another table."""
    holds = "ROW_COUNT() = 1" + (f" OR {written.done}" if written.done else "")
    return f"SET @strata_other = IF({holds}, @strata_other, CONCAT_WS(', ', @strata_other, '{number}'))"


def script_lines(undo: ChangeScript) -> Iterator[str]:
    """The lines of the script, without line ends. The statements wait in a file, since the comments count them.

    Raises:
        StrataError: As `ChangeScript.outcomes`.
    """
    with TemporaryFile("w+", encoding="utf-8", newline="\n") as body:
        number = 0
        for outcome in undo.outcomes():
            if isinstance(outcome, PrintedStatement):
                number += 1
                body.write(
                    f"{comment(f'{number}: {_origin_text(outcome)}')}\n{outcome.sql};\n{check(number, outcome)};\n"
                )
        yield from header(undo.report)
        if not undo.report.written and not any(undo.made_again):
            return
        yield from map(comment, _HOW_TO_RUN[undo.has_ddl])
        yield from map(_sql_line, opening(undo))
        body.seek(0)
        for line in body:
            yield line.rstrip("\n")
    yield from map(_sql_line, closing(undo))
    for table, rows in groupby(undo.child_rows(), key=lambda row: (row.table, row.seq)):
        yield comment(
            f"Rows of {table[0]} that referenced these, from its mirror as of transaction {table[1]}. Foreign"
        )
        yield comment("keys may have deleted or changed them; the table may still have some. Run what is missing:")
        yield from (comment(f"{row.sql};") for row in rows)


_HOW_TO_RUN: Final = {
    False: (
        "To run it: mysql < FILE. It is one transaction. If a row is not as expected, nothing is changed,",
        "and the client fails.",
    ),
    True: (
        "To run it: mysql < FILE. It has DDL, so it is not one transaction. If a table or a row is not as expected,",
        "rows are as before, nothing is dropped or renamed, and the client fails.",
    ),
}


def opening(undo: ChangeScript) -> Iterator[tuple[str, str]]:
    """The statements before those that change rows, each with its kind."""
    for statement in SESSION:
        yield "session", statement
    for create in undo.databases_made_again:
        yield "create", create
    for name, create in undo.made_again:
        yield "create", f"USE {quoted(name.database)}"
        yield "create", create
    schemas = [survey.schema for survey in undo.changed_tables]
    now = [(schema.now.name, schema.now.definition) for schema in schemas if schema.now is not None]
    needs_rollback = sum(undo.report.written.values()) > 1
    if undo.has_ddl:
        yield from begin_with_locks(schemas, now, needs_rollback=needs_rollback)
        return
    yield "begin", "START TRANSACTION"
    for statement in guard_lines(now, needs_rollback=needs_rollback):
        yield "definition", statement


def closing(undo: ChangeScript) -> Iterator[tuple[str, str]]:
    """The statements after those that change rows, each with its kind."""
    schemas = [survey.schema for survey in undo.changed_tables]
    yield from last_checks(schemas)
    for statement in END:
        yield "end", statement
    if undo.has_ddl:
        yield from last_ddl(schemas)
        yield from (("end", statement) for statement in UNLOCK)
    for statement in FAIL:
        yield "end", statement


def _sql_line(statement: tuple[str, str]) -> str:
    kind, sql = statement
    return comment(sql) if kind == "comment" else f"{sql};"


def header(report: UndoReport) -> Iterator[str]:
    """The comments at the beginning."""
    does = "takes back" if report.direction is Direction.UNDO else "makes again"
    done = sum(report.written.values())
    yield comment(f"strata {report.direction.value}: {does} {counted(done, 'change')} of source {report.source}.")
    for (table, kind), count in sorted(report.written.items()):
        yield comment(f"  {table}: {count} {kind}")
    gtids = list(report.gtids)
    if gtids:
        yield comment(f"of {counted(len(gtids), 'transaction')}: {_together(gtids)}")
    yield comment(f"Later changes of the same rows are known up to transaction {report.known_until} of the stream.")
    for note in report.notes:
        yield comment(f"Note: {note}")
    conflicts = [conflict_text(conflicting, report.direction) for conflicting in report.conflicts]
    yield from _listed("Conflicts, which are not overwritten", conflicts, report.conflict_count)
    reasons = [f"{counted(count, 'change')} of {table}: {why}" for (table, why), count in report.skipped.items()]
    yield from _listed("Skipped", reasons[:LISTED], len(reasons))


def _together(gtids: list[str]) -> str:
    """Transactions as a GTID set; those of MariaDB, whose sets have all before them too, one by one."""
    if any(DOMAIN_GTID.fullmatch(gtid) for gtid in gtids):
        return ", ".join(gtids[:LISTED]) + (", ..." if len(gtids) > LISTED else "")
    made = GtidSet().builder()
    for gtid in gtids:
        made.add(Gtid.parse(gtid))
    text = str(made.build())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def _listed(title: str, lines: list[str], count: int) -> Iterator[str]:
    if lines:
        yield comment(f"{title}: {count}")
        yield from (comment(f"  {line}") for line in lines)
        if count > len(lines):
            yield comment(f"  and {count - len(lines)} more: `--format jsonl` has all of them")


def conflict_text(conflicting: Conflicting, direction: Direction = Direction.UNDO) -> str:
    """A conflict in one line, with both sides."""
    conflict = conflicting.conflict
    where = f"{conflicting.table}, {conflict.row}" if conflict.row else str(conflicting.table)
    if conflict.column is None:
        by = f", by {conflict.by}" if conflict.by else ""
        return f"{where}, {conflict.origin}: {conflict.reason}{by}"
    by = str(conflict.by) if conflict.by else "something else"
    did = "left" if direction is Direction.UNDO else "had before it"
    return (
        f"{where}: {conflict.origin} {did} {conflict.column} = {conflict.expected}, and {by} made it {conflict.found}"
    )


def comment(text: str) -> str:
    """A line of a script that no client executes, whatever is in the text."""
    if text.isprintable():
        return f"-- {text}"
    return "-- " + "".join(ch if ch.isprintable() else repr(ch)[1:-1] for ch in text)


def _origin_text(outcome: PrintedStatement) -> str:
    lost = f"; without the dropped {', '.join(outcome.lost)}" if outcome.lost else ""
    state = "a row of the state before " if outcome.is_of_state else ""
    return f"{state}{outcome.origin}{lost}"


# JSON lines -------------------------------------------------------------------------------------


def json_lines(undo: ChangeScript) -> Iterator[str]:
    """The same for programs: a line for each statement, conflict and change that is skipped, and one for the report.

    Those with `sql` are the script, in order, each `statement` with its `check` after it.
    """
    with TemporaryFile("w+", encoding="utf-8", newline="\n") as body:
        body.writelines(f"{line}\n" for line in _outcome_lines(undo))
        yield from (_line(kind=kind, sql=sql) for kind, sql in opening(undo) if kind != "comment")
        body.seek(0)
        for line in body:
            yield line.rstrip("\n")
    yield from (_line(kind=kind, sql=sql) for kind, sql in closing(undo) if kind != "comment")
    for row in undo.child_rows():
        yield _line(kind="child_row", table=str(row.table), as_of_seq=row.seq, sql=row.sql)
    yield _line(kind="report", **report_fields(undo.report))


def _outcome_lines(undo: ChangeScript) -> Iterator[str]:
    number = 0
    for outcome in undo.outcomes():
        if not isinstance(outcome, PrintedStatement):
            yield _line(**unwritten(outcome))
            continue
        number += 1
        fields: dict[str, Any] = {"number": number, "does": outcome.kind.value, "sql": outcome.sql}
        fields |= {"check": check(number, outcome), "dropped_columns": list(outcome.lost)}
        yield _line(
            kind="statement", table=str(outcome.table), **_of(outcome.origin), **fields, of_state=outcome.is_of_state
        )


def unwritten(outcome: Outcome) -> dict[str, Any]:
    """A conflict, or a change that is skipped, as JSON."""
    if isinstance(outcome, SkippedChange):
        return {"kind": "skipped", "table": str(outcome.table), **_of(outcome.origin), "reason": outcome.reason}
    if not isinstance(outcome, Conflicting):
        return {}
    conflict = outcome.conflict
    sides = {"column": conflict.column, "expected": conflict.expected, "found": conflict.found}
    by = None if conflict.by is None else _of(conflict.by)
    what = {"kind": "conflict", "table": str(outcome.table), **_of(conflict.origin)}
    return {**what, "key": conflict.row, "reason": conflict.reason, **sides, "by": by}


def report_fields(report: UndoReport) -> dict[str, Any]:
    """The counts of a script."""
    tables: dict[str, dict[str, int]] = {}
    for (table, kind), count in sorted(report.written.items()):
        tables.setdefault(table, {})[kind.lower()] = count
    return {
        "source": report.source,
        "direction": report.direction.value,
        "changes": report.changes,
        "statements": sum(report.written.values()),
        "tables": tables,
        "conflicts": report.conflict_count,
        "skipped": sum(report.skipped.values()),
        "known_until": report.known_until,
        "gtids": list(report.gtids),
        "notes": report.notes,
    }


def _of(origin: ChangeOrigin) -> dict[str, Any]:
    return {
        "change": origin.what,
        "gtid": origin.gtid,
        "seq": origin.seq,
        "row": origin.row,
        "committed_at": moment_text(origin.committed_at) if origin.committed_at else None,
        "binlog_file": origin.binlog_file,
        "binlog_pos": origin.binlog_pos,
    }


def _line(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)


def dry_json_lines(undo: ChangeScript) -> Iterator[str]:
    """The conflicts, the changes that are skipped, and the report."""
    for outcome in undo.outcomes():
        if not isinstance(outcome, PrintedStatement):
            yield _line(**unwritten(outcome))
    yield _line(kind="report", **report_fields(undo.report))


UNLOCK = ("UNLOCK TABLES", "SET SESSION autocommit = @strata_autocommit")
"""After the last DDL."""
Tables = list[tuple["TableName", "TableDefinition"]]


def begin_with_locks(schemas: Sequence[SchemaUndo], now: Tables, *, needs_rollback: bool) -> Iterator[tuple[str, str]]:
    """The statements until rows are changed, each with its kind: tables are locked for all of it, columns come back
    first and go last. DDL ends a transaction, but not the locks of LOCK TABLES: nobody writes between the checks
    and the end (MySQL 9.7, MariaDB 11.8 and 10.11).

    Args:
        schemas: The statements that are taken back, of all tables that the script changes.
        now: The tables as they are while rows are changed.
        needs_rollback: As for `guard_lines`.
    """
    before = [(schema.before.name, schema.before.definition) for schema in schemas if schema.before is not None]
    yield "begin", "SET @strata_autocommit = @@SESSION.autocommit, SESSION autocommit = 0"
    yield "begin", f"LOCK TABLES {', '.join(f'{quoted_table(name)} WRITE' for name, _ in before)}"
    for statement in guard_lines(before, needs_rollback=needs_rollback):
        yield "definition", statement
    altered = [schema for schema in schemas if any(inverse.first for inverse in schema.inverses)]
    for schema in altered:
        for inverse in schema.inverses:
            if inverse.first:
                yield from _unless_failed(f"ALTER TABLE {quoted_table(inverse.now.name)} {', '.join(inverse.first)}")
    for statement in guard_lines(now, needs_rollback=needs_rollback) if altered else ():
        yield "definition", statement


def last_checks(schemas: Sequence[SchemaUndo]) -> Iterator[tuple[str, str]]:
    """The statements before COMMIT that look whether what goes is still what the DDL made of it, and whether names that
    come back are free."""
    given_up = {schema.now.name for schema in schemas if schema.now is not None}
    for schema in schemas:
        name = schema.last_name
        if name is not None and name not in given_up:
            where = f"TABLE_SCHEMA = {utf8_text(name.database)} AND TABLE_NAME = {utf8_text(name.table)}"
            query = f"SELECT COUNT(*) FROM information_schema.TABLES WHERE {where}"  # noqa: S608 - quoted names
            yield from _count(query, f"table is called {name}")
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
    staying = [schema for schema in schemas if schema.now is not None and schema.last_name == schema.now.name]
    for schema in (*staying, *in_order_of_names(schemas)):
        if schema.last_name is None and schema.inverses:
            yield from _unless_failed(f"DROP TABLE {quoted_table(schema.inverses[0].now.name)}")
            continue
        clauses = list(_last_clauses(schema))
        if clauses:
            yield from _unless_failed(f"ALTER TABLE {quoted_table(schema.inverses[0].now.name)} {', '.join(clauses)}")


def _last_clauses(schema: SchemaUndo) -> Iterator[str]:
    for inverse in schema.inverses:
        yield from (f"DROP COLUMN {quoted(added.column.name)}" for added in inverse.added)
    name = schema.last_name
    if name is not None and schema.now is not None and name != schema.now.name:
        yield f"RENAME TO {quoted_table(name)}"


def _count(query: str, what: str) -> Iterator[tuple[str, str]]:
    yield "check", "SET @strata_rows = NULL"
    yield "check", f"SET @strata_rows = ({query})"
    message = f"CONCAT(COALESCE(@strata_rows, 'some'), {utf8_text(' ' + what)})"
    yield (
        "check",
        f"SET @strata_other = IF(@strata_rows <=> 0, @strata_other, CONCAT_WS(', ', @strata_other, {message}))",
    )


def _unless_failed(statement: str) -> Iterator[tuple[str, str]]:
    """DDL that is not executed if something failed before and the client went on (mysql --force, or `source`)."""
    yield "comment", statement
    yield "alter", f"SET @strata_end = IF({_HOLDS}, {utf8_text(statement)}, 'DO 0')"
    yield "alter", "PREPARE strata_end FROM @strata_end"
    yield "alter", "EXECUTE strata_end"
