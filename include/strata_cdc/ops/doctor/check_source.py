"""Checks all that a source needs: the server's settings and grants, the store and the lake.
Not here: judging single things (`check_settings.py`, `check_grants.py`, `check_lake.py`, `check_tables.py`)."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.protocol.connection import connect, server_errors
from strata_cdc.binlog.protocol.hosting import hosting_of, retention_hours
from strata_cdc.binlog.protocol.replication import ServerState
from strata_cdc.binlog.protocol.server_files import ServerFiles
from strata_cdc.clock import now_micros, second_text
from strata_cdc.config.engines import Engine
from strata_cdc.counted import counted
from strata_cdc.errors import AccessDeniedError, StrataError, Usage
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.lake.known_lake import require_known
from strata_cdc.lake.lost_tables import lost_tables
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.last_transaction import LastTransaction, prove_landed
from strata_cdc.landing.resume_landing import check_files, check_sets, is_by_gtid
from strata_cdc.ops.doctor.check_grants import judge_backup_admin, judge_grants
from strata_cdc.ops.doctor.check_hosting import judge_hosting, where_it_is_set
from strata_cdc.ops.doctor.check_lake import check_lake, check_sink, check_uploads
from strata_cdc.ops.doctor.check_settings import judge_settings
from strata_cdc.ops.doctor.check_tables import check_arguments, check_merges, check_own, check_patterns
from strata_cdc.ops.doctor.findings import Finding, FindingSeverity, error, ok, warning
from strata_cdc.pipeline.plan.closable import is_ahead
from strata_cdc.quality.check_step.own_at_versions import mistakes_of_file
from strata_cdc.schema.live.grants import PARTIAL_REVOKES, Grants
from strata_cdc.schema.live.names import ServerTables
from strata_cdc.selection.sensitive import unmatched_columns
from strata_cdc.selection.wanted import folds_names, known_tables
from strata_cdc.startup.spark import how_to_fix, mixed_spark
from strata_cdc.store.database import DEFAULT_DATABASE, find_store
from strata_cdc.store.lakes import LakeLedger
from strata_cdc.store.own import own_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pymysql

    from strata_cdc.config.settings import Source
    from strata_cdc.quality.checks.own import OwnFile
    from strata_cdc.quality.checks.rules import Rule

_OPENS = ok("store", "opens")
_CLOCK_SECONDS = 60
_ANSWER_SECONDS = 30


def check_source(source: Source) -> tuple[Finding, ...]:
    """Looks at everything; a thing that fails is a finding, and the others are looked at all the same.

    Raises:
        SettingsError: The store's URL cannot be read.
    """
    if source.is_sink:
        return (*check_sink(source), *_check_rest(source, ServerTables()))
    server = ServerTables()
    try:
        connection = connect(source.address, read_seconds=_ANSWER_SECONDS)
    except StrataError as failure:
        # Neither settings nor grants can be looked at; the store may live elsewhere.
        findings = [_failed("connection", failure)]
        return (*findings, *_check_rest(source, None if _store_is_here(source) else server))
    try:
        with server_errors(source.address):
            findings = [ok("connection", str(source.address)), *_check_server(connection, source)]
            findings += check_merges(connection)
            server = ServerTables.from_server(connection)
    except StrataError as failure:
        findings = [_failed("connection", failure)]
    finally:
        connection.close()
    return (*findings, *_check_rest(source, server))


def _check_rest(source: Source, server: ServerTables | None) -> Iterator[Finding]:
    """The checks that are not of the server: store, lake, and the settings' patterns of tables.

    Args:
        server: The server's tables; None if it does not answer, and the store is on it.
    """
    store = None
    if server is not None:
        store = _check_store(source)
        yield store
        # What was on the server counts, too: rows of tables that are gone may still be pending.
        server = _with_history(source, server) if store == _OPENS else server
    yield check_lake(source.lake, source.name)
    yield from check_uploads(source.lake)
    yield from _check_spark(source)
    if store == _OPENS:
        yield _check_known(source)
        yield from _check_lost(source)
    if server is not None:
        yield check_patterns(source, server.names, folded=server.folded)
        if source.settings.sensitive and store == _OPENS:
            yield from _check_sensitive(source)
    if source.settings.checks is not None:
        yield from check_own(
            source.settings.checks, server.names if server else (), _history_of(source) if server else None
        )


def _check_spark(source: Source) -> Iterator[Finding]:
    """A mixed installation of Spark, where runs of this source may be done by it."""
    engine = source.settings.engine_settings.engine
    mixed = None if engine is Engine.LOCAL else mixed_spark()
    if mixed is not None and engine is Engine.SPARK:
        yield error("spark", mixed, how_to_fix(mixed))
    elif mixed is not None:
        yield warning("spark", f"{mixed}: runs above local_mb are decoded without Spark", how_to_fix(mixed))


def _check_known(source: Source) -> Finding:
    """Whether lake and store know each other; those that have not been used together are left so."""
    try:
        engine = find_store(source.store_url)
        if engine is None or LakeLedger(engine).get(source.name) is None:
            return ok("lake and store", "not used together yet")
        require_known(source, engine)
    except StrataError as failure:
        return _failed("lake and store", failure)
    return ok("lake and store", "belong together")


def _check_lost(source: Source) -> list[Finding]:
    """The tables of which somebody has deleted something."""
    try:
        engine = find_store(source.store_url)
        lost = () if engine is None else lost_tables(source, engine)
    except StrataError as failure:
        return [_failed("published tables", failure)]
    return [error("published tables", f"{facts.table}: {facts.message}", facts.remedy or "") for facts in lost]


def _with_history(source: Source, server: ServerTables) -> ServerTables:
    """The tables of the server and those of the history; as they are where the lake or the store does not answer,
    which is a finding of its own."""
    try:
        engine = find_store(source.store_url)
        if engine is None:
            return server
        stream = LandedStream.open(source.lake, source.name)
        mine = own_database(engine, stream.servers())
        users = frozenset(table for table in server.names if table.database not in mine)
        return ServerTables(
            users | known_tables(source, engine, stream), server.folded or folds_names(source.name, engine)
        )
    except StrataError:
        return server


def _check_sensitive(source: Source) -> Iterator[Finding]:
    engine = find_store(source.store_url)
    for unmatched in () if engine is None else unmatched_columns(source, engine):
        yield warning("sensitive", unmatched, "Name it as database.table.column; `strata schema show` has the columns.")


def _history_of(source: Source) -> Callable[[OwnFile, list[Rule]], list[str]] | None:
    """The contradictions between the schema history and a file of expectations; None if no store answers."""
    try:
        engine = find_store(source.store_url)
    except StrataError:
        return None
    return None if engine is None else partial(mistakes_of_file, engine, source.name)


def check_own_only(source: Source) -> tuple[Finding, ...]:
    """The findings about users' own expectations: as in `check_source`, and about their arguments.

    Raises:
        Usage: The settings name no folder of them.
    """
    folder = source.settings.checks
    if folder is None:
        raise Usage(
            "the settings name no folder of expectations", source=source.name, remedy="docs/checks.md shows how."
        )
    findings = tuple(check_own(folder, _with_history(source, ServerTables()).names, _history_of(source)))
    return findings if has_error(findings) else (*findings, *check_arguments(folder))


def has_error(findings: tuple[Finding, ...]) -> bool:
    """Whether any of it is an error."""
    return any(finding.severity is FindingSeverity.ERROR for finding in findings)


def _check_server(connection: pymysql.Connection[Any], source: Source) -> list[Finding]:
    variables = _read_variables(connection)
    user, grants = _read_grants(connection)
    findings = judge_settings(variables)
    service = hosting_of(variables, source.address.host)
    if service is not None:
        hours = retention_hours(connection) if service.has_own_retention else None
        findings = [*judge_hosting(service, variables, hours), *where_it_is_set(service, findings)]
    findings += judge_grants(grants, user, DEFAULT_DATABASE if _store_is_here(source) else None)
    flavour = Flavour.parse(variables.get("version", ""))
    if flavour.vendor is Vendor.MYSQL and variables.get("gtid_mode", "OFF").upper() != "ON":
        findings.append(judge_backup_admin(grants, user, flavour))
    if _store_is_here(source) and variables.get("super_read_only", "OFF").upper() == "ON":
        findings.append(
            error(
                "super_read_only",
                "ON, and the store is on this server",
                "Name a store elsewhere: `store` or `store_connection` in the settings of the source.",
            )
        )
    findings.append(_check_clock(connection))
    if variables.get("log_bin", "OFF").upper() in ("ON", "1"):
        findings.append(_check_landed(connection, source))
        findings.extend(_check_commit_times(source))
    return findings


def check_replica(source: Source, connection_id: str) -> Finding:
    """Whether landing could continue with another server.

    Args:
        source: The source with the other server's address.
        connection_id: Of the other server's connection.
    """
    name = f"replica {connection_id}"
    try:
        connection = connect(source.address, read_seconds=_ANSWER_SECONDS)
        with closing(connection), server_errors(source.address):
            findings = _check_server(connection, source)
    except StrataError as failure:
        findings = [_failed("connection", failure)]
    errors = [finding for finding in findings if finding.severity is FindingSeverity.ERROR]
    if errors:
        reasons = "; ".join(f"{finding.name}: {finding.what}" for finding in errors)
        return warning(name, f"landing could not continue with {source.address}: {reasons}", errors[0].remedy)
    landed = next((finding.what for finding in findings if finding.name == "landed"), "nothing yet")
    return ok(name, f"landing could continue with {source.address}: {landed}")


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
        answers = [_one_row(cursor, f"SHOW {word} STATUS") for word in ("REPLICA", "SLAVE")]
        is_known = any(answer is not None for answer in answers)
        variables["is_replica"] = "ON" if any(answers) else "OFF" if is_known else "UNKNOWN"
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
        is_literal = (_one_row(cursor, PARTIAL_REVOKES) or {}).get("Value") == "ON"
        cursor.execute(statement)
        grants = Grants.parse((str(row[0]) for row in cursor.fetchall()), is_literal=is_literal)
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
    """Whether the server can continue where the landed stream ends."""
    try:
        stream = LandedStream.open(source.lake, source.name)
        last = stream.segments[-1] if stream.segments else None
        if last is None:
            return ok("landed", "nothing yet")
        stream.require_whole()
        server = ServerState.from_server(connection)
        if is_by_gtid(server, stream.resume):
            landed = stream.executed()
            check_sets(landed, server)
            unproved = prove_landed(source.address, server, landed, last)
            to_come = (server.executed - landed).count()
            summary = f"{counted(stream.last_seq, 'transaction')}; {to_come} to come"
            return warning("landed", f"{summary}; {unproved}") if unproved else ok("landed", summary)
        tail = LastTransaction.landed(last)
        check_files(tail, server, ServerFiles.from_server(connection))
        tail.refuse_other_bytes(source.address)
    except StrataError as failure:
        return _failed("landed", failure)
    return ok("landed", f"{counted(stream.last_seq, 'transaction')}, up to {tail.end}")


def _check_commit_times(source: Source) -> list[Finding]:
    """Nothing where they are of the past, or where nothing can be read."""
    try:
        stream = LandedStream.open(source.lake, source.name)
    except StrataError:
        return []
    if not is_ahead(stream, now_micros()):
        return []
    return [
        warning(
            "commit times",
            f"they have reached {second_text(stream.clock)}, which is in the future; all that follows has this time",
            "A session has set its `timestamp`, or the server's clock was wrong: until then, positions say what came "
            "when, and times do not. `secure_timestamp = REPLICATION` in MariaDB's my.cnf keeps sessions from it.",
        )
    ]


def _check_store(source: Source) -> Finding:
    try:
        store = find_store(source.store_url)
    except StrataError as failure:
        return _failed("store", failure)
    return _OPENS if store else ok("store", "none yet; it is made by the first snapshot or track")


def _store_is_here(source: Source) -> bool:
    return source.settings.store is None and source.settings.store_connection is None


def _failed(name: str, failure: StrataError) -> Finding:
    remedy = failure.remedy
    if isinstance(failure, AccessDeniedError):
        # That of the error names this very command.
        remedy = "Check user and password of the connection."
    return error(name, failure.message, remedy)
