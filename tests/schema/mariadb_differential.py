"""Runs statements on a MariaDB, replays its binlog, and compares every version with information_schema.
Not here: which statements (`mariadb_sequences.py`, `test_mariadb_ddl.py`)."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING

import pymysql

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import ddl_events, read_transactions, table_maps
from strata_cdc.changes.table_map_check import disagreements
from strata_cdc.schema.apply.diff import facts_in_doubt
from strata_cdc.schema.ddl.context import context_of, statement_text
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.live.engine import LiveSchema
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.schema.replay.catalog import Catalog
from strata_cdc.schema.tracker.reconcile import with_facts_of
from tests.schema.differential import Recorded, Report
from tests.schema.mariadb_shown import differences, read_shown
from tests.schema.shown import SYSTEM_DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from strata_cdc.schema.ddl.changes import Change
    from tests.mariadb_server import MariadbServer

_OF_ROWS = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|REPLACE|SELECT)\b", re.IGNORECASE)
"""Statements after which no comparison is needed."""

END_SECONDS = 30
"""For a statement whose answer nobody reads; some hang the server."""


def emptied(server: MariadbServer) -> pymysql.Connection:
    """A connection to a server that has only an empty database `d`, which is all that its binlog has."""
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        for name in {name for (name,) in cursor.fetchall()} - set(SYSTEM_DATABASES):
            cursor.execute(f"DROP DATABASE `{name}`")
        cursor.execute("RESET MASTER")
        cursor.execute("CREATE DATABASE d")
    return connection


def run_and_compare(
    server: MariadbServer,
    statements: Iterable[str],
    *,
    settings: Iterable[str] = (),
    on_refused: Callable[[str, Exception], None] = lambda *_: None,
    read_seconds: float | None = None,
) -> Report:
    """Runs statements in a session with database `d`, replays what the server logs of them, and compares after each;
    at the end also with a snapshot, and with the TABLE_MAPs of rows. A statement that takes longer than `read_seconds`
    ends the session."""
    # Bytes: a text of another charset than the client's would leave the rest of its result unread.
    observer, connection = emptied(server), server.connect("d", read_timeout=read_seconds, use_unicode=False, conv={})
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(setting)
    recorded = [
        *_run_and_record(connection, observer, statements, on_refused),
        *_record_end(connection, observer),
    ]
    catalog = Catalog()
    report = _compare(catalog, server.binlogs()[-1], recorded)
    report.differences += [("a snapshot", text) for text in _snapshot_differences(catalog, observer)]
    report.differences += [("a row", text) for text in _row_differences(catalog, server, observer)]
    observer.close()
    return report


def _run_and_record(
    connection: pymysql.Connection,
    observer: pymysql.Connection,
    statements: Iterable[str],
    on_refused: Callable[[str, Exception], None],
) -> Iterator[Recorded]:
    """Statements that the server does not log are passed over; of those that it refuses it may log a part. Ends where
    the session breaks, while the server may still be at its last statement."""
    position = _place(observer)
    for statement in statements:
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        except (pymysql.Error, ValueError) as error:
            on_refused(statement, error)
            if not connection.open:
                return
        after = _place(observer)
        if after != position:
            position = after
            if not _OF_ROWS.match(statement):
                yield Recorded(statement, *after, read_shown(observer))


def _record_end(connection: pymysql.Connection, observer: pymysql.Connection) -> Iterator[Recorded]:
    """Ends a session. What it was still doing, because nobody read its answer, is done and logged by then.

    Raises:
        TimeoutError: It does not end.
    """
    position, session, until = _place(observer), connection.thread_id(), time.monotonic() + END_SECONDS
    if connection.open:
        connection.close()
    with observer.cursor() as cursor:
        while cursor.execute("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s", (session,)):
            if time.monotonic() > until:
                raise TimeoutError(f"session {session} does not end")
            time.sleep(0.01)
    after = _place(observer)
    if after != position:
        yield Recorded("the end of the session", *after, read_shown(observer))


def _place(connection: pymysql.Connection) -> tuple[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = cursor.fetchone()
    return file, int(position)


def logged_changes(path: Path) -> Iterator[tuple[int, str, tuple[Change, ...]]]:
    """Where the transaction of each DDL of a binlog file ends (bytes), its text, and the changes it asks for."""
    with open_binlog(path) as binlog:
        for record in read_transactions(binlog):
            for event in ddl_events(binlog, record):
                context = context_of(event.query, binlog.format)
                text = statement_text(event.query, context.flavour)
                yield record.end, text, read_ddl_or_gap(text, context)


def _compare(catalog: Catalog, path: Path, recorded: Iterable[Recorded]) -> Report:
    report = Report()
    catalog.temporary.server_restarted()
    logged = logged_changes(path)
    pending = next(logged, None)
    broken: set[str] = set()
    for record in recorded:
        while pending is not None and pending[0] <= record.end:
            report.statements += 1
            for change in catalog.apply(pending[2]):
                report.versions += 1
                if change.gap is not None and change.name.database.lower() not in SYSTEM_DATABASES:
                    report.gaps.setdefault(record.statement, f"{change.name}: {change.gap}")
            pending = next(logged, None)
        found = differences(record.shown, catalog)
        for text in found:
            if text.partition(": ")[0] not in broken:
                report.differences.append((record.statement, text))
        broken = {text.partition(": ")[0] for text in found}
    return report


def _snapshot_differences(replayed: Catalog, connection: pymysql.Connection) -> list[str]:
    """What a snapshot says otherwise than information_schema, or than the replay where information_schema is silent;
    and the replay, too, once the snapshot has given it what was in doubt."""
    shown, snapshot = read_shown(connection), Catalog()
    live = LiveSchema(connection)
    for name, definition in live.tables():
        snapshot.put(name, definition)
    found = [f"{name}: a snapshot has a gap: {reason}" for name, reason in live.doubtful.items()]
    found += differences(shown, snapshot)
    for name, theirs in snapshot:
        ours = replayed.get(name)
        if isinstance(ours, TableDefinition) and isinstance(theirs, TableDefinition):
            hidden = [[column for column in one.columns if column.hidden] for one in (ours, theirs)]
            if hidden[0] != hidden[1] or ours.period != theirs.period:
                found.append(f"{name}: {hidden[1]}, {theirs.period} != {hidden[0]}, {ours.period}")
            if not set(theirs.hash_columns) & set(ours.hash_columns):
                found.append(f"{name}: {theirs.hash_columns} hashes != {ours.hash_columns}")
            completed = with_facts_of(ours, theirs)
            replayed.put(name, completed)
            if completed.in_doubt:
                found.append(f"{name}: still in doubt: {facts_in_doubt(completed)}")
    return found + differences(read_shown(connection), replayed)


def _row_differences(replayed: Catalog, server: MariadbServer, connection: pymysql.Connection) -> list[str]:
    """What TABLE_MAPs say otherwise than the replay; a row of defaults for each table makes them."""
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', foreign_key_checks = 0")
        cursor.execute("FLUSH BINARY LOGS")
        for name, _ in replayed:
            with contextlib.suppress(pymysql.Error):
                cursor.execute(f"INSERT IGNORE INTO {quoted(name.database)}.{quoted(name.table)} () VALUES ()")
    found = []
    with open_binlog(server.binlogs()[-1]) as binlog:
        for record in read_transactions(binlog):
            for table_map in table_maps(binlog, record):
                definition = replayed.get(TableName(table_map.database, table_map.table))
                if isinstance(definition, TableDefinition):
                    found += [f"{table_map.table}: {one}" for one in disagreements(definition, table_map)]
    return found
