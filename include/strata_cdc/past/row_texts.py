"""The history of rows, whose values they have, and what differs between moments: as JSON objects, and as text.
Not here: the answers (`rows.py`), printing (`cli/row.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.clock import from_micros
from strata_cdc.errors import one_line
from strata_cdc.past.row_history import HistoryChange, HistoryEvent
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.past.client_statements import ClientStatement
    from strata_cdc.past.row_blame import Blame
    from strata_cdc.past.row_diff import MomentDifference
    from strata_cdc.past.row_history import ChangedValue, HistoryLine
    from strata_cdc.past.row_values import AlteredValue, KnownValue
    from strata_cdc.past.rows import BlamedRow, TableDiff
    from strata_cdc.past.timeline import TableEvent, UnknownChanges
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.ticdc.landed_steps import CommitPlaces

Line = dict[str, Any]
_LONGEST: Final = 300
"""Characters of a value or a statement in text; JSON has all of them."""

# JSON ---------------------------------------------------------------------------------------------


def history_object(line: HistoryLine) -> Line:
    """A line of a history: `kind` is `change` (in the form of `strata decode`, and more), `schema` or `unknown`."""
    if isinstance(line, HistoryChange):
        return _change_object(line)
    if isinstance(line, HistoryEvent):
        return _event_object(line)
    name = {"database": line.name.database, "table": line.name.table}
    return {"kind": "unknown", "after": line.after, "until": line.until, **name, "reason": line.reason}


def blame_objects(row: BlamedRow) -> Iterator[Line]:
    """An object for each column of a row."""
    for blame in row.values:
        line: Line = {"database": row.table.database, "table": row.table.table, "key": row.key}
        line |= {"column": blame.column, "value": blame.value, "given_by": _cause_kind(blame)}
        line |= _cause_place(blame.cause)
        if blame.cause is not None:
            cause = history_object(blame.cause)
            line["cause"] = {name: cause[name] for name in cause if name not in {"before", "after", "changed"}}
        if blame.doubt is not None:
            line["doubt"] = blame.doubt
        yield line


def _cause_place(cause: HistoryChange | HistoryEvent | None) -> Line:
    """Which transaction gave a value, by the names that change tables have for it; all None if it is not known."""
    if cause is None:
        return dict.fromkeys(("gtid", "committed_at", "binlog_file", "binlog_pos", "schema_version"))
    at = cause if isinstance(cause, HistoryChange) else cause.event
    span = cause.span if isinstance(cause, HistoryChange) else cause.event.after
    return {
        "gtid": at.gtid,
        "committed_at": _time_text(at.committed_at),
        "binlog_file": at.binlog_file,
        "binlog_pos": at.binlog_pos,
        "schema_version": span and span.version_id,
    }


def diff_objects(diff: TableDiff) -> Iterator[Line]:
    """First an object of kind `tables` about both moments, then one for each row that differs: `added`, `removed` or
    `changed`."""
    columns = [{"before": column.before, "after": column.after} for column in diff.columns]
    names = {"before": None if diff.before is None else str(diff.before.name), "after": str(diff.after.name)}
    moments = {"first": diff.first.seq, "second": diff.second.seq}
    doubt = {} if diff.doubt is None else {"doubt": diff.doubt}
    yield {"kind": "tables", **names, **moments, "columns": columns, **doubt}
    for row in diff.rows:
        line: Line = {"kind": row.kind, "key": row.key}
        if row.before is not None:
            line["before"] = row.before
        if row.after is not None:
            line["after"] = row.after
        yield line


def _change_object(line: HistoryChange) -> Line:
    name = line.span.name
    shown: Line = {"kind": "change", "gtid": line.gtid, "seq": line.seq, "row": line.row}
    shown |= {"database": name.database, "table": name.table, "op": line.op}
    shown |= {"before": line.before, "after": line.after}
    shown |= {"committed_at": _time_text(line.committed_at), "file": line.binlog_file, "offset": line.binlog_pos}
    shown |= {"schema_version": line.span.version_id, "key": line.key, "row_number": line.number}
    shown["changed"] = {column: _changed_object(value) for column, value in line.changed.items()}
    shown |= {"statement": line.statement.text}
    if line.statement.unknown is not None:
        shown["statement_unknown"] = line.statement.unknown
    if line.is_first:
        shown["is_older"] = True
    return shown


def _changed_object(value: ChangedValue) -> Line:
    """Without `before` or `after`, that value is not known."""
    shown = _altered_object(value)
    if value.difference is not None:
        shown["difference"] = value.difference
    return shown


def _event_object(line: HistoryEvent) -> Line:
    event = line.event
    shown: Line = {"kind": "schema", "gtid": event.gtid, "seq": event.seq}
    shown |= {"database": event.name.database, "table": event.name.table, "statement": event.statement}
    shown |= {"committed_at": _time_text(event.committed_at), "file": event.binlog_file, "offset": event.binlog_pos}
    shown |= {"effect": _effect(event), "removes_rows": event.removes_all}
    if event.came_from is not None:
        shown["renamed_from"] = str(event.came_from)
    shown["altered"] = {altered.column: _altered_object(altered) for altered in _other_values(line)}
    return shown


def _altered_object(altered: AlteredValue | ChangedValue) -> Line:
    shown: Line = {}
    if altered.before is not None:
        shown["before"] = altered.before.shown
    if altered.after is not None:
        shown["after"] = altered.after.shown
    return shown


# Text ---------------------------------------------------------------------------------------------


def history_text(line: HistoryLine, *, shows_number: bool, commits: CommitPlaces | None = None) -> Iterator[str]:
    """The lines of text for a line of a history.

    Args:
        commits: Of a TiCDC sink, whose DDL has no place in a server's file.
        shows_number: Whether the number of the row is shown, because several rows had the key.
    """
    if isinstance(line, HistoryChange):
        yield from _change_text(line, shows_number=shows_number)
    elif isinstance(line, HistoryEvent):
        yield from _event_text(line, commits)
    else:
        yield unknown_text(line)


def unknown_text(line: UnknownChanges) -> str:
    """Why changes are not known."""
    if line.after >= line.until:
        return f"after transaction {line.after:,}, not known: {one_line(line.reason)}"
    return f"transactions {line.after + 1:,} to {line.until:,} are not known: {one_line(line.reason)}"


def blame_text(row: BlamedRow, commits: CommitPlaces | None = None) -> Iterator[str]:
    """The lines of text for a row: each change or statement, and the values that it gave; `commits` as in
    `history_text`."""
    together: dict[tuple[str, str], list[Blame]] = {}
    for blame in row.values:
        together.setdefault((cause_text(blame, commits), cause_statement(blame)), []).append(blame)
    for (cause, statement), values in together.items():
        yield cause
        if statement:
            yield f"  {statement}"
        for blame in values:
            yield f"    {blame.column}  {value_text(blame.value, row.definition.column(blame.column))}"


def cause_text(blame: Blame, commits: CommitPlaces | None = None) -> str:
    """What gave a value: when, what, where; `commits` as in `history_text`."""
    if blame.cause is None:
        text = "from before the changes begin"
    elif isinstance(blame.cause, HistoryChange):
        text = f"{_time_shown(blame.cause.committed_at)}  {blame.cause.op.upper()}  {_where(blame.cause)}"
    else:
        event = blame.cause.event
        text = f"{_time_shown(event.committed_at)}  DDL  {_place_of_event(event, commits)}"
    return text if blame.doubt is None else f"{text}\n  or something else: {one_line(blame.doubt)}"


def cause_statement(blame: Blame) -> str:
    """The statement that gave a value, or why its text is not known."""
    if blame.cause is None:
        return ""
    if isinstance(blame.cause, HistoryEvent):
        return _cut(blame.cause.event.statement or "no statement in the log")
    return _statement(blame.cause.statement)


def value_text(value: Any, column: Column | None = None) -> str:
    """A value for people: NULL and numbers without quotes."""
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return _cut(json.dumps(value))
    is_number = column is not None and parse_column_type(column.column_type).kind is TypeKind.DECIMAL
    return value if is_number else _cut("'" + value.replace("'", "''") + "'")


def difference_text(row: MomentDifference, before: TableDefinition, after: TableDefinition) -> Iterator[str]:
    """The lines of text for a row that differs.

    Args:
        before: The table's definition at the first moment.
        after: Its definition at the second one.
    """
    sign = {"added": "+", "removed": "-", "changed": "~"}[row.kind]
    if row.before is not None and row.after is not None:
        yield f"{sign} {_row_text(row.key, after)}"
        for (old_name, old), (name, new) in zip(row.before.items(), row.after.items(), strict=True):
            was = "" if old_name == name else f" (was {old_name})"
            yield (
                f"    {name}{was}  {value_text(old, before.column(old_name))} -> {value_text(new, after.column(name))}"
            )
    elif row.before is None:
        yield f"{sign} {_row_text(row.after or {}, after)}"
    else:
        yield f"{sign} {_row_text(row.before, before)}"


def _row_text(row: dict[str, Any], definition: TableDefinition) -> str:
    return ", ".join(f"{name} {value_text(value, definition.column(name))}" for name, value in row.items())


def _change_text(line: HistoryChange, *, shows_number: bool) -> Iterator[str]:
    number = f"  row {line.number}" if shows_number else ""
    older = "  (the row is older than the changes)" if line.is_first else ""
    yield f"{_time_shown(line.committed_at)}  {line.op.upper()}{number}  {_where(line)}{older}"
    definition = line.span.definition
    # Without a key, the whole row says which it is.
    for name, value in (line.key or line.before or {}).items():
        if name not in line.changed:
            yield f"  {name}  {value_text(value, definition.column(name))}"
    for column, changed in line.changed.items():
        if changed.difference is not None:
            yield f"  {column}  changed in part: {_cut(changed.difference)}"
            continue
        kind = definition.column(column)
        after = _known_text(changed.after, kind, "not logged")
        if line.op == "insert":
            yield f"  {column}  {after}"
        else:
            yield f"  {column}  {_known_text(changed.before, kind, 'not logged')} -> {after}"
    yield f"  {_statement(line.statement)}"


def _event_text(line: HistoryEvent, commits: CommitPlaces | None) -> Iterator[str]:
    event = line.event
    statement = _cut(event.statement or "another definition, and no statement in the log")
    yield f"{_time_shown(event.committed_at)}  DDL  {_place_of_event(event, commits)}"
    yield f"  {statement}"
    effect = _effect(event)
    if effect:
        yield f"  rows: {one_line(effect)}"
    for altered in _other_values(line):
        kind = None if event.after is None else event.after.definition.column(altered.column)
        before = "" if altered.is_new else f"{_known_text(altered.before, kind, 'not known')} -> "
        yield f"  {altered.column}  {before}{_known_text(altered.after, kind, 'not known')}"


def _other_values(line: HistoryEvent) -> Iterator[AlteredValue]:
    """The values that a DDL wrote in another way, or may have."""
    for altered in line.altered:
        before, after = (_known_text(known, None, "not known") for known in (altered.before, altered.after))
        if altered.is_new or before != after:
            yield altered


def _known_text(value: KnownValue | None, column: Column | None, otherwise: str) -> str:
    return otherwise if value is None else value_text(value.shown, column)


def _effect(event: TableEvent) -> str:
    if event.after is None and event.effect is None:
        return "the table is gone"
    text = "" if event.effect is None or event.makes_table else event.effect.text
    renamed = "" if event.came_from is None else f"the table was {event.came_from}"
    return "; ".join(filter(None, (text, renamed)))


def _where(line: HistoryChange) -> str:
    where = f"{line.binlog_file} @ {line.binlog_pos}"
    return f"{line.gtid or f'transaction {line.seq}'}  {where}  {line.span.name}, version {line.span.version_id}"


def _place_of_event(event: TableEvent, commits: CommitPlaces | None) -> str:
    position = "" if event.binlog_pos is None else f" @ {event.binlog_pos}"
    where = f"{event.binlog_file}{position}" if event.binlog_file else ""
    parts = (event.gtid or f"transaction {event.seq}", commits.text(event.seq) if commits else where, str(event.name))
    return "  ".join(filter(None, parts))


def _statement(statement: ClientStatement) -> str:
    if statement.text is not None:
        return _cut(statement.text)
    return f"statement: {_cut(statement.unknown)}" if statement.unknown else ""


def _cause_kind(blame: Blame) -> str:
    if blame.cause is None:
        return "before"
    return "change" if isinstance(blame.cause, HistoryChange) else "schema"


def _time_text(micros: int) -> str | None:
    return f"{from_micros(micros):%Y-%m-%dT%H:%M:%S.%f}Z" if micros else None


def _time_shown(micros: int) -> str:
    return f"{from_micros(micros):%Y-%m-%d %H:%M:%S.%f}" if micros else "time not known"


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}... ({len(text):,} characters)"
