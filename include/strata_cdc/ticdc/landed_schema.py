"""The changes of a sink's schemas at the ordinals of commits, as they are landed.
Not here: the versions themselves (`history.py`), making stored versions of them (`tracking/track_sink.py`)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.schema.model.definition import TableName, definition_from_json
from strata_cdc.schema.model.quadrants import DdlKind
from strata_cdc.ticdc.landed_rows import LandedSchemaChange, LandedTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.changes.port import SchemaChange
    from strata_cdc.ticdc.history import SinkHistory, SinkVersion
    from strata_cdc.ticdc.windows import CommitWindow


def known_key(table: TableName) -> str:
    """The key of a table in `LandingState.known`: names may have dots."""
    return msgspec.json.encode((table.database, table.table)).decode()


class SchemaLog:
    """Which definition each table has for the rows that follow; it knows when rows come with another one."""

    def __init__(self, history: SinkHistory, known: dict[str, str]) -> None:
        """Begins after what has landed.

        Args:
            history: All versions of the sink.
            known: As `LandingState.known`; it is changed.
        """
        self.known = known
        self._numbered: dict[int, SinkVersion] = {}
        self._of_ddl: dict[tuple[int, str], list[SinkVersion]] = defaultdict(list)
        self._before: dict[tuple[str, int], SinkVersion] = {}
        for folder, table in history.tables.items():
            for at, version in enumerate(table.versions):
                if _is_own(version):
                    self._numbered[version.number] = version
                if version.query:
                    self._of_ddl[version.ts, version.query].append(version)
                if at:
                    self._before[folder, version.ts] = table.versions[at - 1]

    def changes(self, window: CommitWindow) -> Iterator[LandedSchemaChange]:
        """The changes of a window, in order: DDL, and states of tables whose rows come without one. The offsets are
        not known here."""
        ddl = {(change.seq, change.number): change for change in window.ddl}
        states: dict[int, dict[int, SinkVersion]] = defaultdict(dict)
        for decoded in window.rows:
            if isinstance(decoded, ChangeBatch) and decoded.version_id is not None:
                seq = ChangeColumns(decoded.batch).fact("_seq")[0].as_py()
                states[seq][decoded.version_id] = self._numbered[decoded.version_id]
        for seq, number in sorted([*ddl, *((seq, 0) for seq in states)]):
            if number:
                yield self._ddl(ddl[seq, number], window.steps[seq - window.first_seq].ts)
            else:
                yield from self._states(seq, states[seq].values())

    def _ddl(self, change: SchemaChange, ts: int) -> LandedSchemaChange:
        versions = self._of_ddl[ts, change.statement]
        landed: dict[tuple[str, str], LandedTable] = {}
        for table in (table for version in versions for table in self._tables(version)):
            # Of two names that are swapped both are there afterwards.
            if table.definition is not None or (table.database, table.table) not in landed:
                landed[table.database, table.table] = table
        tables = tuple(landed.values())
        for table in tables:
            self._note(table)
        database = min(change.databases, default="")
        kind = str(versions[0].kind) if versions else ""
        return LandedSchemaChange(change.seq, change.number, 0, ts, tables, change.statement, database, kind)

    def _tables(self, version: SinkVersion) -> Iterator[LandedTable]:
        name = version.table
        if not _is_own(version) or version.kind is DdlKind.DROP_TABLE:
            # A RENAME ends the table in its former folder; DROP DATABASE ends all of its tables.
            yield LandedTable(name.database, name.table)
            return
        before = self._former(version)
        if before is not None:
            yield LandedTable(before.database, before.table)
        former = None if before is None else (before.database, before.table)
        yield LandedTable(name.database, name.table, version.definition.to_json(), former)

    def _former(self, version: SinkVersion) -> TableName | None:
        """The name before a RENAME, if its rows are in the sink."""
        if version.kind is not DdlKind.RENAME_TABLE:
            return None
        last = self._before.get((version.folder, version.ts))
        if last is not None and last.table != version.table:
            return last.table  # the folder is named by the table's id
        ended = (other for other in self._of_ddl[version.ts, version.query] if not _is_own(other))
        return next((other.table for other in ended if other.path == version.path), None)

    def _states(self, seq: int, versions: Iterable[SinkVersion]) -> Iterator[LandedSchemaChange]:
        tables = []
        ts = 0
        for version in versions:
            name = version.table
            if self.known.get(known_key(name)) != version.definition.fingerprint:
                tables.append(LandedTable(name.database, name.table, version.definition.to_json()))
                ts = max(ts, version.ts)
        for table in tables:
            self._note(table)
        if tables:
            yield LandedSchemaChange(seq, 0, 0, ts, tuple(tables))

    def _note(self, table: LandedTable) -> None:
        key = known_key(TableName(table.database, table.table))
        if table.definition is None:
            self.known.pop(key, None)
        else:
            self.known[key] = definition_from_json(table.definition).fingerprint


def _is_own(version: SinkVersion) -> bool:
    """Whether the version is in the folder that its schema file is in."""
    return version.path.rpartition("/meta/")[0] == version.folder
