"""Foreign keys by which the server changes rows of one table along with those of another: which there are, as far as
statements in the stream say, and what a reader of a script has to know of them.
Not here: which tables have rows that no log has for that reason (`schema/history/cascades.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.past.undo.steps import StepKind
from strata_cdc.schema.history.cascades import unlogged_cascades
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import read_rows
from strata_cdc.store.tables import schema_version, table_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.past.undo.table_outcomes import PrintedStatement

_NAME: Final = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_ACTION: Final = r"\s*ON\s+(?:DELETE|UPDATE)\s+(?:CASCADE|RESTRICT|SET\s+NULL|SET\s+DEFAULT|NO\s+ACTION)"
_KEY: Final = re.compile(
    rf"FOREIGN\s+KEY\s*(?:{_NAME}\s*)?\((?P<columns>[^)]*)\)\s*REFERENCES\s+(?P<parent>{_NAME}(?:\s*\.\s*{_NAME})?)\s*"
    rf"\((?P<referenced>[^)]*)\)(?P<actions>(?:{_ACTION})*)",
    re.IGNORECASE,
)


class CascadingKey(Struct, frozen=True):
    """A foreign key with CASCADE or SET NULL. It may have been dropped since, or its tables renamed."""

    child: TableName
    parent: TableName | None
    """None: the statement that made the key is not in the stream, so that it may be any table."""
    columns: tuple[str, ...] = ()
    """Of the child."""
    referenced: tuple[str, ...] = ()
    """Of the parent."""
    actions: str = ""
    """As in `ON DELETE CASCADE`."""
    is_logged: bool = True
    """Whether the log has the rows of the child that it changed."""

    @property
    def of_parent(self) -> str:
        """The table, and what the key does, for people."""
        return f"{self.parent} ({self.actions})" if self.parent else "the table that it references"


def cascading_keys(engine: sa.Engine, source: str) -> list[CascadingKey]:
    """The foreign keys of a source by which the server changes rows."""
    version, table = schema_version.c, table_version.c
    query = (
        sa.select(table.database_name, table.table_name, version.ddl)
        .join_from(table_version, schema_version, version.id == table.version_id)
        .where(version.source == source, table.fingerprint.is_not(None))
        .where(sa.func.lower(version.ddl).contains("references"))
    )
    rows = read_rows(engine, query)
    unlogged = {cascade.name for cascade in unlogged_cascades(engine, source)}
    foreign_keys = [key for database, name, ddl in rows for key in _keys_in(ddl, TableName(database, name), unlogged)]
    known = {key.child for key in foreign_keys}
    foreign_keys += [CascadingKey(child, None, is_logged=False) for child in sorted(unlogged - known)]
    return list(dict.fromkeys(foreign_keys))


def cascade_note(key: CascadingKey, written: PrintedStatement) -> str | None:
    """What a foreign key did, or will do, along with a statement; None if nothing.

    Args:
        key: The foreign key.
        written: The statement, and the change that it takes back.
    """
    if key.parent not in {None, written.table}:
        return None
    is_delete = written.kind is StepKind.DELETE
    if key.parent and is_delete and "ON DELETE CASCADE" in key.actions:
        return f"deleting rows of {key.parent} deletes those of {key.child} that reference them, newer ones too"
    if key.parent and is_delete and "ON DELETE SET NULL" in key.actions:
        return f"deleting rows of {key.parent} sets {', '.join(key.columns)} to NULL in {key.child}, in newer rows too"
    if key.is_logged or written.origin.what == "INSERT":
        return None
    return (
        f"rows of {key.child} may have been changed together with those of {key.of_parent}: this server does not log "
        "what foreign keys do, so the script cannot take it back"
    )


def _keys_in(statement: str, child: TableName, unlogged: set[TableName]) -> Iterator[CascadingKey]:
    for match in _KEY.finditer(statement):
        actions = " ".join(match["actions"].upper().split())
        if "CASCADE" in actions or "SET NULL" in actions:
            names = _names(match["parent"])
            parent = TableName(names[0] if len(names) > 1 else child.database, names[-1])
            columns = _names(match["columns"]), _names(match["referenced"])
            yield CascadingKey(child, parent, *columns, actions, is_logged=child not in unlogged)


def _names(text: str) -> tuple[str, ...]:
    matches = re.findall(_NAME, text)
    return tuple(name[1:-1].replace("``", "`") if name.startswith("`") else name for name in matches)
