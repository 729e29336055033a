"""What a MySQL user may do, from SHOW GRANTS, and what of a server's schema it sees thereby: information_schema leaves
the rest out in silence. Not here: reading the schema (`engine.py`), whether the rights are enough (`ops/doctor/`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.model.definition import TableName

_MOST_NAMES: Final = 10
_EVERY: Final = "*"
_GRANT = re.compile(r"(?P<verb>GRANT|REVOKE) (?P<rights>.+?) ON (?:TABLE )?(?P<object>.+?) (TO|FROM) ", re.DOTALL)
_OBJECT = re.compile(
    r"(?P<database>\*|`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")\.(?P<table>\*|`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")"
)
_ON_COLUMNS = re.compile(r"[\w ]+\([^)]*\)")

_ALL: Final = frozenset({"ALL", "ALL PRIVILEGES"})
_SHOWING: Final = _ALL | {"SELECT", "INSERT", "UPDATE", "REFERENCES"}
"""Any of these on a table shows all of its columns (sql/auth/sql_auth_cache.h, the rights that a table can have)."""


class Grant(Struct, frozen=True):
    """One line of SHOW GRANTS, without rights on single columns: these are no rights on the table."""

    rights: frozenset[str]
    database: str
    """A pattern (`_` and `%`), or `*` for all."""
    table: str
    """`*` for all."""
    is_revoke: bool = False
    """A partial revoke: the database is taken out of what is granted on all."""

    @property
    def scope(self) -> str:
        """`*.*`, `database.*` or `database.table`."""
        return f"{self.database}.{self.table}"


class Grants(Struct, frozen=True):
    """All that a user may do."""

    lines: tuple[Grant, ...] = ()

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Self:
        """Reads what SHOW GRANTS prints (rights of active roles merged in); grants of roles, of proxies and on routines
        are passed over."""
        return cls(tuple(grant for line in lines if (grant := _read(line)) is not None))

    def has(self, right: str, database: str | None = None) -> bool:
        """Whether a right holds on all databases, or on the one that is named."""
        wanted = _ALL | {right}
        if database is None:
            return any(grant.scope == "*.*" and grant.rights & wanted for grant in self._granted())
        own = (grant for grant in self._own() if grant.table == _EVERY and _matches(grant.database, database))
        if any(grant.rights & wanted for grant in own):
            return True
        return self.has(right) and database not in self.revoked(right)

    def revoked(self, *rights: str) -> tuple[str, ...]:
        """Databases on which a partial revoke takes any of these rights away."""
        return tuple(grant.database for grant in self.lines if grant.is_revoke and grant.rights & _ALL.union(rights))

    def scopes_of(self, right: str) -> list[str]:
        """Where less than all databases are granted: `database.*` and `database.table`."""
        return sorted({grant.scope for grant in self._own() if grant.rights & (_ALL | {right})})

    def sight(self) -> Sight:
        """Which tables the user sees in full."""
        showing = [grant for grant in self.lines if grant.rights & _SHOWING]
        everywhere = any(grant.scope == "*.*" for grant in showing if not grant.is_revoke)
        revoked = tuple(grant.database for grant in showing if grant.is_revoke)
        own = [grant for grant in self._own() if grant in showing]
        return Sight(
            everything=everywhere and not revoked,
            databases=tuple(grant.database for grant in own if grant.table == _EVERY),
            tables=frozenset((grant.database, grant.table) for grant in own if grant.table != _EVERY),
            revoked=revoked,
            global_rights=everywhere,
        )

    def _granted(self) -> list[Grant]:
        return [grant for grant in self.lines if not grant.is_revoke]

    def _own(self) -> list[Grant]:
        """On less than everything."""
        return [grant for grant in self._granted() if grant.database != _EVERY]


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


def _read(line: str) -> Grant | None:
    found = _GRANT.match(f"{line} ")
    target = _OBJECT.fullmatch(found["object"]) if found else None
    if found is None or target is None:
        return None
    listed = _ON_COLUMNS.sub("", found["rights"]).split(",")
    rights = frozenset(right.strip().upper() for right in listed) - {""}
    return Grant(rights, _unquoted(target["database"]), _unquoted(target["table"]), found["verb"] == "REVOKE")


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
