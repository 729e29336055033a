"""What a MySQL user can see of a server's schema, from its grants: information_schema leaves the rest out in silence.
Not here: reading the schema (`engine.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata.schema.model.definition import TableName

_MOST_NAMES: Final = 10
_GRANT = re.compile(r"(GRANT|REVOKE) (?P<rights>.+?) ON (?P<object>.+?) (TO|FROM) ", re.DOTALL)
_OBJECT = re.compile(
    r"(?P<database>\*|`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")\.(?P<table>\*|`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")"
)
_COLUMNS = re.compile(r"\([^)]*\)")

# Any of these on a table shows all of its columns (sql/auth/sql_auth_cache.h, the rights that a table can have).
_TABLE_RIGHTS = frozenset({"ALL PRIVILEGES", "SELECT", "INSERT", "UPDATE", "REFERENCES"})
"""Rights that show columns: those that can also be given on single columns."""


class Sight(Struct, frozen=True):
    """Which tables a user sees in full."""

    everything: bool
    """Whether a table that is not seen is not there."""
    databases: tuple[str, ...] = ()
    """Patterns (`_` and `%`) of databases that are seen in full."""
    tables: frozenset[tuple[str, str]] = frozenset()
    revoked: tuple[str, ...] = ()
    """Databases that are taken out of a global grant."""
    global_rights: bool = False

    def sees_all_columns_of(self, name: TableName) -> bool:
        """Whether no column of a table can be hidden; a grant on single columns hides the others."""
        return self.sees_all_of(name.database) or (name.database, name.table) in self.tables

    def sees_all_of(self, database: str) -> bool:
        """Whether no table of a database can be hidden."""
        if self.global_rights and database not in self.revoked:
            return True
        return any(_matches(pattern, database) for pattern in self.databases)

    def hidden(self) -> list[str]:
        """What is hidden, in sentences for the user; empty if nothing is."""
        if self.everything:
            return []
        if self.global_rights:
            return [
                f"the tables of database {name}: a partial revoke takes them out of the grant" for name in self.revoked
            ]
        names = [*self.databases, *sorted(f"{database}.{table}" for database, table in self.tables)]
        seen = ", ".join(names[:_MOST_NAMES]) + (" and others" if len(names) > _MOST_NAMES else "")
        return [f"all tables but those of {seen}: the user has no right on *.*" if seen else "all tables"]


def read_sight(grants: Iterable[Sequence[object]]) -> Sight:
    """From the rows of SHOW GRANTS (which has the rights of active roles merged in)."""
    global_rights = False
    databases: list[str] = []
    tables: set[tuple[str, str]] = set()
    revoked: list[str] = []
    for (line,) in grants:
        found = _GRANT.match(str(line) + " ")
        target = _OBJECT.fullmatch(found["object"]) if found else None
        if found is None or target is None:
            continue
        # Rights on single columns show only these columns: they are no right on the table.
        rights = (
            {right.strip() for right in found["rights"].split(",")}
            if "(" not in found["rights"]
            else _whole(found["rights"])
        )
        if not rights & _TABLE_RIGHTS:
            continue
        database, table = _unquoted(target["database"]), _unquoted(target["table"])
        if found[1] == "REVOKE":
            revoked.append(database)
        elif target["database"] == "*":
            global_rights = True
        elif target["table"] == "*":
            databases.append(database)
        else:
            tables.add((database, table))
    return Sight(
        everything=global_rights and not revoked,
        databases=tuple(databases),
        tables=frozenset(tables),
        revoked=tuple(revoked),
        global_rights=global_rights,
    )


def _whole(rights: str) -> set[str]:
    """The rights of a list that are not on single columns: of `SELECT (a, b), INSERT` the last."""
    marked = _COLUMNS.sub("()", rights)
    return {right.strip() for right in marked.split(",") if "()" not in right}


def _unquoted(name: str) -> str:
    return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '`"' else name


def _matches(pattern: str, database: str) -> bool:
    """A database in a grant is a pattern, as of LIKE; a backslash takes the meaning from the next character."""
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(
        re.escape(part[-1]) if part[0] == "\\" and len(part) == 2 else wild.get(part, re.escape(part)) for part in parts
    )
    return re.fullmatch(regex, database, re.DOTALL) is not None
