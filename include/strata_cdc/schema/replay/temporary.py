"""Temporary tables, as far as a binlog shows them: they hide base tables from statements that use the same name.
Not here: the effect of the statements (`catalog.py`)."""

from __future__ import annotations

from collections import OrderedDict
from itertools import starmap
from typing import TYPE_CHECKING, Final, Self

from strata_cdc.schema.history.versions import SessionTables, TemporarySessions
from strata_cdc.schema.model.definition import TableName, Unknown, definition_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import TableDefinition

_RULED_OUT: Final = 10_000
"""Maximum number of stored names that are known not to be temporary tables of their sessions."""


class TemporaryTables:
    """The temporary tables of all sessions of a server.

    A binlog has them only if a session logs statements (`binlog_format = STATEMENT`), and a binlog that is read from
    the middle may lack those that were made before. An event with the flag for temporary tables does not say which
    table it uses, and the flag may come from another statement of the same procedure (`DdlContext.uses_temporary`).
    """

    def __init__(self) -> None:
        self._tables: dict[int | None, dict[TableName, TableDefinition | Unknown]] = {}
        self._ruled_out: OrderedDict[tuple[int | None, TableName], None] = OrderedDict()
        self._knows_all = False

    @classmethod
    def from_stored(cls, kept: TemporarySessions, unseen: Unknown) -> Self:
        """The tables in `kept`; `unseen` is used for tables of which a former version of Strata stored only the
        names."""
        tables = cls()
        tables._knows_all = kept.knows_all
        for session in kept.sessions:
            known = [_known(*names_of) for names_of in session.known] or [unseen] * len(session.names)
            tables._tables[session.thread_id] = dict(zip(starmap(TableName, session.names), known, strict=True))
        return tables

    def kept(self) -> TemporarySessions:
        """The state for a later run that continues the stream."""
        sessions = []
        for thread_id, tables in self._tables.items():
            ordered = sorted(tables.items())
            names = tuple((name.database, name.table) for name, _ in ordered)
            sessions += [SessionTables(thread_id, names, tuple(_text(text) for _, text in ordered))] if names else []
        return TemporarySessions(self._knows_all, tuple(sessions))

    def server_restarted(self) -> None:
        """The sessions have ended, and their tables are dropped."""
        self._tables.clear()
        self._ruled_out.clear()
        self.nothing_before()

    def nothing_before(self) -> None:
        """From here on, all temporary tables are seen."""
        self._knows_all = True

    def get(self, context: DdlContext, name: TableName) -> TableDefinition | Unknown | None:
        """The temporary table that the statement means by the name; None if no such table is known."""
        session = self._tables.get(context.thread_id) if context.uses_temporary is not False else None
        return session.get(name) if session else None

    def may_hide(self, context: DdlContext, name: TableName) -> bool:
        """Whether the name may mean a temporary table that was made before the start of what was read."""
        if not context.uses_temporary or self._knows_all:
            return False
        return (context.thread_id, name) not in self._ruled_out

    def put(self, context: DdlContext, name: TableName, definition: TableDefinition | Unknown) -> None:
        """Adds a table to the session."""
        self._tables.setdefault(context.thread_id, {})[name] = definition

    def drop(self, context: DdlContext, name: TableName) -> bool:
        """Removes a table from the session; False if it is not known."""
        return self._tables.get(context.thread_id, {}).pop(name, None) is not None

    def rename(self, context: DdlContext, old: TableName, new: TableName) -> bool:
        """Renames a table of the session by RENAME TABLE; False if it is not known. Only MariaDB has this statement for
        temporary tables, and its event has no flag for them."""
        session = self._tables.get(context.thread_id, {})
        if not context.flavour.is_mariadb() or context.thread_id is None or old not in session:
            return False
        session[new] = session.pop(old)
        return True

    def rule_out(self, context: DdlContext, names: Iterable[TableName]) -> None:
        """The session has just used base tables with these names: it has no temporary tables with these names."""
        for name in names:
            self._ruled_out[context.thread_id, name] = None
            self._ruled_out.move_to_end((context.thread_id, name))
        while len(self._ruled_out) > _RULED_OUT:
            self._ruled_out.popitem(last=False)


def _known(definition: str, reason: str) -> TableDefinition | Unknown:
    return definition_from_json(definition) if definition else Unknown(reason)


def _text(table: TableDefinition | Unknown) -> tuple[str, str]:
    return ("", table.reason) if isinstance(table, Unknown) else (table.to_json(), "")
