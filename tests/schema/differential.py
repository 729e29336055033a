"""Runs statements on a real server, replays its binlog, and compares every version with information_schema.
Not here: which statements (`sequences.py`, `cases/`, corpora of one's own)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pymysql

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import ddl_events, read_transactions
from strata_cdc.schema.ddl.context import context_of, statement_text
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from tests.schema.shown import Shown, differences, read_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.replay.catalog import Catalog


_BROKEN_TABLE = 1034
"""ER_NOT_KEYFILE: the server has torn a MyISAM table, whose statements it refuses and half does."""


@dataclass
class Recorded:
    """A statement that the server took and logged, and what it showed afterwards."""

    statement: str
    file: str
    end: int
    """The binlog's end behind it (bytes)."""
    shown: Shown


@dataclass
class Report:
    """What came of a comparison."""

    statements: int = 0
    versions: int = 0
    gaps: dict[str, str] = field(default_factory=dict)
    """Reasons by statement."""
    differences: list[tuple[str, str]] = field(default_factory=list)
    """Statement, difference: the first of each table only, for what follows is its echo."""


def run_and_record(
    connection: pymysql.Connection,
    observer: pymysql.Connection,
    statements: Iterable[str | bytes],
    on_refused: Callable[[str], None] = lambda _: None,
    in_procedure: Callable[[], bool] = lambda: False,
) -> Iterator[Recorded]:
    """Runs each statement; those that the server refuses or does not log are passed over.

    `observer` is a connection of its own: a session may set any charset for what it is shown. `in_procedure` says
    whether the next one runs in a procedure, behind a statement for which the server flags all that follow.
    """
    position = _place(observer)
    for statement in statements:
        try:
            with connection.cursor() as cursor:
                if in_procedure():
                    _call(cursor, statement)
                else:
                    cursor.execute(statement)
        except (pymysql.Error, UnicodeError) as error:
            if error.args[0] == _BROKEN_TABLE:
                return
            on_refused(_text(statement))  # which may have done a part of its work all the same
            _forget_tables(observer)
        after = _place(observer)
        if after != position:
            position = after
            yield Recorded(_text(statement), *after, read_shown(observer))


def _forget_tables(connection: pymysql.Connection) -> None:
    """A refused RENAME INDEX changes the table that the server has open (9.7): what follows must not hang on that."""
    with connection.cursor() as cursor:
        cursor.execute("FLUSH LOCAL TABLES")


def _text(statement: str | bytes) -> str:
    return statement if isinstance(statement, str) else statement.decode(errors="replace")


def _call(cursor: pymysql.cursors.Cursor, statement: str | bytes) -> None:
    cursor.execute("DROP PROCEDURE IF EXISTS called")
    cursor.execute(f"CREATE PROCEDURE called() BEGIN DROP TABLE IF EXISTS never; {_text(statement)}; END")
    cursor.execute("CALL called()")


def _place(connection: pymysql.Connection) -> tuple[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOG STATUS")
        file, position, *_ = cursor.fetchone()
    return file, position


def logged_statements(path: Path) -> Iterator[tuple[int, tuple[Change, ...]]]:
    """Where each DDL of a binlog file ends (bytes), and the changes it asks for."""
    with open_binlog(path) as binlog:
        for record in read_transactions(binlog):
            for event in ddl_events(binlog, record):
                text = statement_text(event.query)
                yield record.end, read_ddl_or_gap(text, context_of(event.query, binlog.format))


def compare(catalog: Catalog, path: Path, recorded: Iterable[Recorded]) -> Report:
    """Replays the file, whose sessions are as old as it is, and compares after every recorded statement."""
    report = Report()
    catalog.temporary.server_restarted()
    logged = iter(logged_statements(path))
    pending = next(logged, None)
    broken: set[str] = set()
    for record in recorded:
        touched: list[TableChange] = []
        while pending is not None and pending[0] <= record.end:
            report.statements += 1
            touched += catalog.apply(pending[1])
            pending = next(logged, None)
        report.versions += len(touched)
        for change in touched:
            if change.gap is not None:
                report.gaps.setdefault(record.statement, f"{change.name}: {change.gap}")
        found = differences(record.shown, catalog)
        for text in found:
            table = text.partition(": ")[0]
            if table not in broken:
                report.differences.append((record.statement, text))
        # A table that is right again (dropped, created anew) may be wrong again.
        broken = {text.partition(": ")[0] for text in found}
    return report
