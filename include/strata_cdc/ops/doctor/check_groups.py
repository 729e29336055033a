"""Checks a group: whether its sources have the same tables, and how far their clocks differ.
Not here: each source by itself (`check_source.py`)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.protocol.server_clocks import Server, corrections
from strata_cdc.counted import counted
from strata_cdc.errors import StrataError
from strata_cdc.groups.duplicates import refuse_one_server
from strata_cdc.groups.logged_times import HEARTBEAT_SQL, WAITS
from strata_cdc.ops.doctor.findings import Finding, error, ok, warning
from strata_cdc.schema.history.historian import Gap, History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.store.own import is_own_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from strata_cdc.binlog.protocol.server_clocks import ServerMoment
    from strata_cdc.config.settings import Group, Source
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName

_KEY = "PRIMARY KEY"
_ABSENT = "not there"
_IDLE_SECONDS: Final = 2.5
_DISPLAY_WIDTH: Final = re.compile(r"(?<=int)\(\d+\)|(?<=^year)\(4\)")
"""MariaDB shows it, and MySQL does not from 8.0.19 on; no value depends on it."""


class Member:
    """What the store knows of one source of a group."""

    def __init__(self, name: str, store: SchemaStore) -> None:
        """Reads all tables where the tracking is."""
        self.name, self._store = name, store
        position = store.position(name)
        tables = History(store, name).tables(AtSeq(position.seq)) if position else ()
        self.tables: dict[TableName, TableDefinition] = {
            table: version.definition
            for table, version in tables
            if not isinstance(version, Gap)
            and table.database not in SYSTEM_DATABASES
            and not is_own_table(table.database, table.table)
        }

    def made_by(self, table: TableName, part: str) -> str:
        """What made a column, or the key, what it is: a statement, or how else it became known."""
        made: StoredEntry | None = None
        before: str | None = None
        for entry in self._store.timeline(self.name, [table]):
            now = None if entry.fingerprint is None else parts_of(self._store.definition(entry.fingerprint)).get(part)
            if now != before:
                made, before = entry, now
        if made is None:
            return "which never had it"
        statement = self._store.ddl(made.version_id)
        when = f" (GTID {made.gtid})" if made.gtid else ""
        return f"by {' '.join(statement.split())}{when}" if statement else f"as a {made.origin.value} found it"


def check_group(group: Group, *, idle_seconds: float = _IDLE_SECONDS) -> Iterator[Finding]:
    """Findings on a group. What fails for one source is a finding.

    Args:
        idle_seconds: How long a MariaDB source may write nothing.
    """
    measured: dict[str, ServerMoment] = {}
    yield from _measure(group, measured)
    yield from _check_clocks(group, measured)
    yield from _check_heartbeats(group, measured, idle_seconds)
    members, failed = [], []
    for source in group.sources:
        try:
            members.append(_member(source))
        except StrataError as failure:
            failed.append(error("tables", f"{source.name}: {failure.message}", failure.remedy))
    yield from failed
    yield from check_shapes(members)


def _member(source: Source) -> Member:
    engine = open_store(source.store_url, OnMissing.EMPTY)
    try:
        return Member(source.name, SchemaStore(engine))
    finally:
        engine.dispose()


def check_shapes(members: Iterable[Member]) -> Iterator[Finding]:
    """Each difference between the tables of some sources, with the statements that made it."""
    known = [member for member in members if member.tables]
    names = sorted({table for member in known for table in member.tables})
    differences = 0
    for table in names:
        having = [member for member in known if table in member.tables]
        for lacking in (member for member in known if table not in member.tables):
            differences += 1
            yield warning("tables", f"{table}: {lacking.name} does not have it; {having[0].name} does")
        for difference in _differences(table, having):
            differences += 1
            yield warning("tables", difference)
    if not differences:
        yield ok("tables", f"{counted(len(names), 'table')}, the same in {counted(len(known), 'source')}")


def _differences(table: TableName, members: list[Member]) -> Iterator[str]:
    by_member = {member.name: parts_of(member.tables[table]) for member in members}
    by_name = {member.name: member for member in members}
    for part in sorted({part for parts in by_member.values() for part in parts}):
        members_by_form: dict[str, list[str]] = {}
        for name, parts in by_member.items():
            members_by_form.setdefault(parts.get(part, _ABSENT), []).append(name)
        if len(members_by_form) > 1:
            sides = [
                f"{form} in {', '.join(names)}, {by_name[names[0]].made_by(table, part)}"
                for form, names in members_by_form.items()
            ]
            yield f"{table}: {part} is " + "; ".join(sides)


def parts_of(definition: TableDefinition) -> Mapping[str, str]:
    """What has to be the same for rows to be of one table: columns, by name in lower case, and the key."""
    parts = {fold_name(column.name): _described(column) for column in definition.columns}
    if definition.primary_key:
        parts[_KEY] = f"({', '.join(map(fold_name, definition.primary_key))})"
    return parts


def _described(column: Column) -> str:
    charset = f" {column.character_set}" if column.character_set else ""
    column_type = _DISPLAY_WIDTH.sub("", column.column_type)
    return f"{column_type}{charset}{'' if column.nullable else ' not null'}"


def _measure(group: Group, measured: dict[str, ServerMoment]) -> Iterator[Finding]:
    """Measures all servers that answer."""
    for source in group.sources:
        server = Server(source.address)
        try:
            measured[source.name] = server.measure()
        except StrataError as failure:
            yield error("clocks", f"{source.name}: {failure.message}", failure.remedy)
        finally:
            server.close()


def _check_clocks(group: Group, measured: Mapping[str, ServerMoment]) -> Iterator[Finding]:
    try:
        refuse_one_server(group.name, {name: moment.server_uuid for name, moment in measured.items()})
    except StrataError as failure:
        yield error("servers", failure.message, failure.remedy)
    for name, correction in sorted(corrections(measured, group.clock_bound).items()):
        bound = f"to be trusted to {correction.bound / 1e6:.3f} s"
        if correction.amount:
            yield warning(
                "clocks",
                f"{name}: corrected by {-correction.amount / 1e6:+.3f} s, {bound}",
                "Let all servers keep their time with NTP.",
            )
        else:
            yield ok("clocks", f"{name}: that of the group, {bound}")


def _check_heartbeats(group: Group, measured: Mapping[str, ServerMoment], seconds: float) -> Iterator[Finding]:
    """Whether the sources that prove nothing by being idle are never idle."""
    waiting = [source for source in group.sources if source.name in measured]
    waiting = [source for source in waiting if not measured[source.name].proves_idleness]
    if not waiting:
        return
    time.sleep(seconds)
    for source in waiting:
        server = Server(source.address)
        try:
            is_idle = server.ask().executed == measured[source.name].executed
        except StrataError as failure:
            yield error("heartbeat", f"{source.name}: {failure.message}", failure.remedy)
            continue
        finally:
            server.close()
        if is_idle:
            yield warning("heartbeat", f"{source.name}: nothing was written for {seconds} s; {WAITS}", HEARTBEAT_SQL)
        else:
            yield ok("heartbeat", f"{source.name}: it writes at least each {seconds} s")
