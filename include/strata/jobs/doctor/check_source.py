"""Looks at all that a source needs, the server's settings, grants, store and lake, and says what stands in the way.
Not here: judging single settings and grants (`check_settings.py`, `check_grants.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from strata.errors import StrataError
from strata.events.landed import LandedStream
from strata.jobs.doctor.check_grants import judge_backup_admin, judge_grants
from strata.jobs.doctor.check_settings import judge_settings
from strata.jobs.doctor.findings import Finding, Severity, error, ok, warning
from strata.jobs.land.resume_landing import LandedTail, check_files, check_sets, is_by_gtid
from strata.schema.live.grants import Grants
from strata.store.database import DEFAULT_DATABASE, find_store
from strata.wire.connection import connect, server_errors
from strata.wire.replication import ServerState
from strata.wire.server_files import ServerFiles

if TYPE_CHECKING:
    import pymysql

    from strata.config.settings import Source

_CLOCK_SECONDS = 60
_ANSWER_SECONDS = 30


def check_source(source: Source) -> tuple[Finding, ...]:
    """Looks at everything; a thing that fails is a finding, and the others are looked at all the same.

    Raises:
        SettingsError: The store's URL cannot be read.
    """
    try:
        connection = connect(source.address, read_seconds=_ANSWER_SECONDS)
    except StrataError as failure:
        # Neither settings nor grants can be looked at; the store may live elsewhere.
        found = [_failed("connection", failure)]
        return (*found, _check_store(source)) if not _store_is_here(source) else tuple(found)
    try:
        with server_errors(source.address):
            found = [ok("connection", str(source.address)), *_check_server(connection, source)]
    except StrataError as failure:
        found = [_failed("connection", failure)]
    finally:
        connection.close()
    return (*found, _check_store(source))


def stands_in_the_way(findings: tuple[Finding, ...]) -> bool:
    """Whether any of it is an error."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def _check_server(connection: pymysql.Connection[Any], source: Source) -> list[Finding]:
    variables = _read_variables(connection)
    user, grants = _read_grants(connection)
    found = judge_settings(variables)
    found += judge_grants(grants, user, DEFAULT_DATABASE if _store_is_here(source) else None)
    if variables.get("gtid_mode", "OFF").upper() != "ON":
        found.append(judge_backup_admin(grants, user))
    if _store_is_here(source) and variables.get("super_read_only", "OFF").upper() == "ON":
        found.append(
            error(
                "super_read_only",
                "ON, and the store lives on this server",
                "Name a store elsewhere: `store` or `store_connection` in the settings of the source.",
            )
        )
    found.append(_check_clock(connection))
    if variables.get("log_bin", "OFF").upper() in ("ON", "1"):
        found.append(_check_landed(connection, source))
    return found


def _read_variables(connection: pymysql.Connection[Any]) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES")
        variables = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
        for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
            row = _one_row(cursor, statement)
            if row is not None:
                # File, position, filters; empty where there is no binlog.
                variables |= {name.lower(): str(value) for name, value in row.items() if "_DB" in name.upper()}
                break
        replica = _one_row(cursor, "SHOW REPLICA STATUS") or _one_row(cursor, "SHOW SLAVE STATUS")
        variables["is_replica"] = "ON" if replica else "OFF"
    return variables


def _one_row(cursor: Any, statement: str) -> dict[str, Any] | None:
    """The first row by names, {} if there is none; None if the server does not know the statement or forbids it."""
    import pymysql  # noqa: PLC0415 - the module of the settings is imported by DAGs

    try:
        cursor.execute(statement)
    except (pymysql.err.ProgrammingError, pymysql.err.OperationalError) as failure:
        if failure.args[0] in (1064, 1227):
            return None
        raise
    row = cursor.fetchone()
    return dict(zip((column[0] for column in cursor.description), row, strict=True)) if row else {}


def _read_grants(connection: pymysql.Connection[Any]) -> tuple[str, Grants]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        name, _, host = str(cursor.fetchone()[0]).rpartition("@")
        statement = "SHOW GRANTS"
        roles = _one_row(cursor, "SELECT CURRENT_ROLE() AS roles")
        if roles and roles["roles"] not in (None, "NONE"):
            statement = f"SHOW GRANTS FOR CURRENT_USER() USING {roles['roles']}"
        cursor.execute(statement)
        grants = Grants.parse(str(row[0]) for row in cursor.fetchall())
    return f"'{name}'@'{host}'", grants


def _check_clock(connection: pymysql.Connection[Any]) -> Finding:
    with connection.cursor() as cursor:
        cursor.execute("SELECT UNIX_TIMESTAMP(NOW(6))")
        apart = float(cursor.fetchone()[0]) - time.time()
    if abs(apart) < _CLOCK_SECONDS:
        return ok("clock", f"{abs(apart):.1f} s from this machine's")
    return warning(
        "clock",
        f"{abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} this machine's: intervals are cut by the server's "
        "clock and closed by both, so they close late or hold other changes than their name says",
        "Run NTP (chrony) on both machines.",
    )


def _check_landed(connection: pymysql.Connection[Any], source: Source) -> Finding:
    """Whether the server can go on where the landed stream ends."""
    try:
        stream = LandedStream.open(source.lake, source.name)
        last = stream.segments[-1] if stream.segments else None
        if last is None:
            return ok("landed", "nothing yet")
        server = ServerState.read(connection)
        if is_by_gtid(server, stream.resume):
            landed = stream.executed()
            check_sets(landed, server)
            return ok("landed", f"{stream.last_seq} transactions; {(server.executed - landed).count()} to come")
        tail = LandedTail.read(last)
        check_files(tail, server, ServerFiles.read(connection))
        tail.check_bytes(source.address)
    except StrataError as failure:
        return _failed("landed", failure)
    return ok("landed", f"{stream.last_seq} transactions, up to {tail.end}")


def _check_store(source: Source) -> Finding:
    try:
        store = find_store(source.store_url)
    except StrataError as failure:
        return _failed("store", failure)
    return ok("store", "opens" if store else "none yet; it is made by the first snapshot or track")


def _store_is_here(source: Source) -> bool:
    return source.settings.store is None and source.settings.store_connection is None


def _failed(name: str, failure: StrataError) -> Finding:
    return error(name, failure.message, failure.remedy)
