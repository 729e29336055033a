"""Runs statements on a MariaDB, replays its binlog, and compares every version with information_schema.
Not here: which statements (`mariadb_sequences.py`, `test_mariadb_ddl.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pymysql

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.events.query import parse_query
from strata_cdc.binlog.events.table_map import parse_table_map
from strata_cdc.schema.ddl.context import context_of, statement_text
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from tests.schema.differential import Recorded, Report
from tests.schema.mariadb_shown import differences, read_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from strata_cdc.binlog.events.model import Query, TableMap
    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.replay.catalog import Catalog

_HEADER = 19
_CHECKSUM = 4
_THREAD_SPECIFIC = 0x4
_ENDS = frozenset({b"COMMIT", b"ROLLBACK", b"BEGIN"})


class Logged(NamedTuple):
    """An event of a file."""

    end: int
    event: Query | TableMap


def logged_events(path: Path) -> Iterator[Logged]:
    """The statements and TABLE_MAPs of a binlog file with checksums."""
    raw = path.read_bytes()
    at, form = 4, None
    while at < len(raw):
        kind, length = raw[at + 4], int.from_bytes(raw[at + 9 : at + 13], "little")
        body, at = raw[at + _HEADER : at + length - _CHECKSUM], at + length
        if kind == EventType.FORMAT_DESCRIPTION:
            version = body[2:52].split(b"\0", 1)[0].decode()
            form = FormatDescription(4, version, tuple(body[57:-1]), has_checksum=True)
        elif kind == EventType.QUERY and form is not None:
            flags = int.from_bytes(raw[at - length + 17 : at - length + 19], "little")
            query = parse_query(body, form)
            yield Logged(at, _with_flags(query, thread_specific=bool(flags & _THREAD_SPECIFIC)))
        elif kind == EventType.TABLE_MAP:
            yield Logged(at, parse_table_map(body))


def _with_flags(query: Query, *, thread_specific: bool) -> Query:
    from msgspec.structs import replace  # noqa: PLC0415

    return replace(query, thread_specific=thread_specific)


def form_of(path: Path) -> FormatDescription:
    """The format description of a file."""
    body = path.read_bytes()[4 + _HEADER :]
    return FormatDescription(4, body[2:52].split(b"\0", 1)[0].decode(), (), has_checksum=True)


def run_and_record(
    connection: pymysql.Connection,
    observer: pymysql.Connection,
    statements: Iterable[str],
    on_refused: Callable[[str, Exception], None] = lambda *_: None,
) -> Iterator[Recorded]:
    """Runs each statement; those that the server refuses or does not log are passed over."""
    place = _place(observer)
    for statement in statements:
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        except (pymysql.Error, UnicodeError) as error:
            on_refused(statement, error)
        after = _place(observer)
        if after != place:
            place = after
            yield Recorded(statement, *after, read_shown(observer))


def _place(connection: pymysql.Connection) -> tuple[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, position, *_ = cursor.fetchone()
    return file, int(position)


def logged_changes(path: Path) -> Iterator[tuple[int, str, tuple[Change, ...]]]:
    """Where each statement of a binlog file ends (bytes), its text, and the changes it asks for."""
    form = form_of(path)
    for end, event in logged_events(path):
        if hasattr(event, "statement") and event.statement not in _ENDS:
            text = statement_text(event, form.flavour)
            yield end, text, read_ddl_or_gap(text, context_of(event, form))


def compare(catalog: Catalog, path: Path, recorded: Iterable[Recorded]) -> Report:
    """Replays the file, and compares after every recorded statement."""
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
                if change.gap is not None:
                    report.gaps.setdefault(record.statement, f"{change.name}: {change.gap}")
            pending = next(logged, None)
        found = differences(record.shown, catalog)
        for text in found:
            if text.partition(": ")[0] not in broken:
                report.differences.append((record.statement, text))
        broken = {text.partition(": ")[0] for text in found}
    return report
