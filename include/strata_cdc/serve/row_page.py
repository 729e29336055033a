"""One row through time, with the change that gave each value; and rows of a table as they were at a moment. Values of
columns that the settings call sensitive are not shown, and nothing is searched by them.
Not here: the answers (`past/rows.py`, `past/first_rows.py`)."""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import QueryError, StrataError, Usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.past.row_history import HistoryChange, HistoryLine
    from strata_cdc.past.rows import BlamedRow, PastRows
    from strata_cdc.schema.model.definition import TableName

HIDDEN: Final = "(sensitive)"
_MOST_LINES: Final = 200


class ShownChangedValue(Struct, frozen=True):
    """One value of a change, as text."""

    column: str
    before: str | None
    """None: there was none."""
    after: str | None
    """None: there is none."""


class ShownLine(Struct, frozen=True):
    """A change of the row, or a statement on its table."""

    what: str
    """`insert`, `update`, `delete`; `schema`; `unknown`."""
    committed_at: int
    """Microseconds UTC; 0: not known."""
    seq: int
    gtid: str | None
    where: str
    """File and offset, of a TiCDC sink the folder's file and the number of the row in it; and the version."""
    text: str
    """The client's statement, the DDL, or why nothing is known."""
    values: tuple[ShownChangedValue, ...] = ()
    key: tuple[str, ...] = ()
    """The row's key after the change, as words of a command."""


class ShownBlame(Struct, frozen=True):
    """One value of the row, and what gave it."""

    column: str
    value: str
    cause: str
    statement: str


class RowView(Struct, frozen=True):
    """All of it."""

    key_columns: tuple[str, ...]
    key: tuple[str, ...]
    values: tuple[ShownBlame, ...]
    """At the moment; empty if there is no such row then."""
    refusal: StrataError | None
    """Why the row is not shown."""
    lines: tuple[ShownLine, ...]
    """The newest first."""
    has_older: bool
    has_hidden: bool = False
    """Whether some values are not shown."""


def hidden_columns(source: Source, engine: sa.Engine, name: TableName) -> frozenset[str]:
    """The columns of a table whose values no page shows."""
    # Imported here, and below: Airflow's web server loads them with the first such page.
    from strata_cdc.selection.sensitive import sensitive_columns  # noqa: PLC0415  see above

    return frozenset(sensitive_columns(source, engine, [name]).get(str(name), ()))


def row_view(source: Source, engine: sa.Engine, name: TableName, key: Sequence[str], at: str) -> RowView:
    """A row by its key.

    Args:
        name: The table, as it is called at the moment.
        key: A value for each column of the key; empty: only the names of these columns are looked up.
        at: A time, a GTID set or a commit timestamp; empty: now.

    Raises:
        Usage: The table has no key, or the values do not fit it, or the key is sensitive.
        StrataError: The lake or the store does not answer.
    """
    from strata_cdc.past.rows import PastRows  # noqa: PLC0415  as above

    hidden = hidden_columns(source, engine, name)
    with PastRows(source) as rows:
        columns = rows.key_columns(name, at=at or None)
        if hidden & set(columns):
            raise QueryError("rows of this table are found by a column that the settings call sensitive")
        if not key:
            return RowView(columns, (), (), None, (), has_older=False)
        values: tuple[ShownBlame, ...] = ()
        refusal = None
        try:
            values = _blame(rows.blame(name, key, at=at or None), hidden, rows)
        except Usage as error:
            refusal = error
        lines = deque(rows.history(name, key, until=at or None), _MOST_LINES + 1)
    return RowView(
        columns,
        tuple(key),
        values,
        refusal,
        _lines(lines, hidden, is_sink=source.is_sink)[:_MOST_LINES],
        has_older=len(lines) > _MOST_LINES,
        has_hidden=bool(hidden),
    )


def _blame(row: BlamedRow, hidden: Collection[str], rows: PastRows) -> tuple[ShownBlame, ...]:
    from strata_cdc.past.row_texts import cause_statement, cause_text, value_text  # noqa: PLC0415  as above

    return tuple(
        ShownBlame(
            given.column,
            HIDDEN if given.column in hidden else value_text(given.value, row.definition.column(given.column)),
            cause_text(given, rows.commits),
            # The statement may have the values of other columns.
            "" if hidden and not _is_ddl(given.cause) else cause_statement(given),
        )
        for given in row.values
    )


def _is_ddl(cause: Any) -> bool:
    from strata_cdc.past.row_history import HistoryEvent  # noqa: PLC0415  as above

    return isinstance(cause, HistoryEvent)


def _lines(lines: Iterable[HistoryLine], hidden: Collection[str], *, is_sink: bool) -> tuple[ShownLine, ...]:
    return tuple(reversed([_line(line, hidden, is_sink=is_sink) for line in lines]))


def _line(line: HistoryLine, hidden: Collection[str], *, is_sink: bool) -> ShownLine:
    from strata_cdc.past.row_history import HistoryChange, HistoryEvent  # noqa: PLC0415  as above
    from strata_cdc.past.row_texts import unknown_text, value_text  # noqa: PLC0415  as above

    if isinstance(line, HistoryEvent):
        event = line.event
        text = event.statement or "another definition, and no statement in the log"
        where = f"{event.binlog_file or ''} {'' if event.binlog_pos is None else event.binlog_pos}".strip()
        # A DDL of a sink has a schema file, which is not stored: only its timestamp is known.
        where = "" if is_sink else where
        return ShownLine("schema", event.committed_at, event.seq, event.gtid, where, text)
    if not isinstance(line, HistoryChange):
        return ShownLine("unknown", 0, line.until, None, "", unknown_text(line))

    def shown(column: str, value: Any) -> str | None:
        if value is None:
            return None
        return HIDDEN if column in hidden else value_text(value.shown, line.span.definition.column(column))

    values = [
        ShownChangedValue(
            column,
            shown(column, changed.before),
            (HIDDEN if column in hidden else changed.difference)
            if changed.difference
            else shown(column, changed.after),
        )
        for column, changed in line.changed.items()
    ]
    at = f", row {line.binlog_pos:,}" if is_sink else f":{line.binlog_pos}"
    where = f"{line.binlog_file}{at}, {line.span.name}, version {line.span.version_id}"
    text = "" if hidden else line.statement.text or line.statement.unknown or ""
    return ShownLine(line.op, line.committed_at, line.seq, line.gtid, where, text, tuple(values), _key_words(line))


def _key_words(line: HistoryChange) -> tuple[str, ...]:
    from strata_cdc.schema.model.types import Family, parse_column_type  # noqa: PLC0415  as above

    def is_bytes(name: str) -> bool:
        column = line.span.definition.column(name)
        return column is not None and parse_column_type(column.column_type).kind.facts.family is Family.BYTES

    # JSON has bytes in base64, a command in hexadecimal digits.
    return tuple(f"0x{b64decode(value).hex()}" if is_bytes(name) else str(value) for name, value in line.key.items())


def rows_at(source: Source, engine: sa.Engine, name: TableName, where: str, at: str) -> Any:
    """The first rows of a table at a moment, as `past.first_rows.FirstRows`.

    Args:
        name: The table, as it is called at the moment.
        where: A condition of MySQL's SQL; empty: all rows.
        at: A time, a GTID set or a commit timestamp; empty: the last moment that the table's mirror has reached.

    Raises:
        StrataError: As for `first_rows`.
    """
    # Imported here: Airflow's web server loads it with the first such page.
    from strata_cdc.past.first_rows import RowRequest, first_rows  # noqa: PLC0415  see above

    hidden = hidden_columns(source, engine, name)
    answer = first_rows(source, engine, RowRequest(name, where, at, not_by=tuple(hidden)))
    if not hidden:
        return answer
    is_hidden = [column in hidden for column in answer.columns]
    has_key = not set(hidden) & set(answer.key)
    shown = tuple(
        replace(
            row,
            values=tuple(HIDDEN if hides else value for hides, value in zip(is_hidden, row.values, strict=True)),
            key=row.key if has_key else (),
        )
        for row in answer.rows
    )
    return replace(answer, rows=shown)
