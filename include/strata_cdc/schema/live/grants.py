"""The rights of a MySQL user, from SHOW GRANTS, and which part of a server's schema the user can see:
information_schema hides the rest without any message. Not here: reading the schema (`engine.py`), whether the rights
are sufficient (`ops/doctor/`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.model.definition import TableName

PARTIAL_REVOKES: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name = 'partial_revokes'"
"""Its row has ON if `Grants.is_literal`; none before MySQL 8.0.16, and of MariaDB."""
_MOST_NAMES: Final = 10
_EVERY: Final = "*"
_GRANT = re.compile(r"(?P<verb>GRANT|REVOKE) (?P<rights>.+?) ON (?:TABLE )?(?P<object>.+?) (TO|FROM) ", re.DOTALL)
_OBJECT = re.compile(
    r"(?P<database>\*|`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")\.(?P<table>\*|`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")"
)
_ON_COLUMNS = re.compile(r"[\w ]+\([^)]*\)")

_ALL: Final = frozenset({"ALL", "ALL PRIVILEGES"})
_SHOWING: Final = _ALL | {"SELECT", "INSERT", "UPDATE", "REFERENCES"}
"""Each of these rights on a table shows all of its columns (sql/auth/sql_auth_cache.h, the rights that a table can
have)."""


class Grant(Struct, frozen=True):
    """One line of SHOW GRANTS, without rights on single columns: these are not rights on the table."""

    rights: frozenset[str]
    database: str
    """A pattern (`_` and `%`) unless `Grants.is_literal`, or `*` for all."""
    table: str
    """`*` for all."""
    is_revoke: bool = False
    """A partial revoke: it excludes the database from a grant on all databases."""

    @property
    def scope(self) -> str:
        """`*.*`, `database.*` or `database.table`."""
        return f"{self.database}.{self.table}"


class Grants(Struct, frozen=True):
    """All rights of a user."""

    lines: tuple[Grant, ...] = ()
    is_literal: bool = False
    """Whether names of databases are no patterns and a backslash escapes nothing: MySQL with `partial_revokes`
    (9.7: a user with a grant on `a_b` is denied tables of `axb`, one with a grant on `a\\_b` those of both)."""

    @classmethod
    def parse(cls, lines: Iterable[str], *, is_literal: bool = False) -> Self:
        """Reads the output of SHOW GRANTS (with the rights of active roles); ignores grants of roles and proxies, and
        grants on routines."""
        return cls(tuple(grant for line in lines if (grant := _read(line)) is not None), is_literal)

    def has(self, right: str, database: str | None = None) -> bool:
        """Whether the user has a right on all databases, or on the named database."""
        wanted = _ALL | {right}
        if database is None:
            return any(grant.scope == "*.*" and grant.rights & wanted for grant in self._granted())
        own = (
            grant
            for grant in self._own()
            if grant.table == _EVERY and _matches(grant.database, database, is_literal=self.is_literal)
        )
        if any(grant.rights & wanted for grant in own):
            return True
        return self.has(right) and database not in self.revoked(right)

    def revoked(self, *rights: str) -> tuple[str, ...]:
        """Databases for which a partial revoke removes any of these rights."""
        return tuple(grant.database for grant in self.lines if grant.is_revoke and grant.rights & _ALL.union(rights))

    def scopes_of(self, right: str) -> list[str]:
        """The scopes of grants on less than all databases: `database.*` and `database.table`."""
        return sorted({grant.scope for grant in self._own() if grant.rights & (_ALL | {right})})

    def sight(self) -> Sight:
        """The tables that the user sees completely."""
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
            is_literal=self.is_literal,
        )

    def _granted(self) -> list[Grant]:
        return [grant for grant in self.lines if not grant.is_revoke]

    def _own(self) -> list[Grant]:
        """Grants on less than all databases."""
        return [grant for grant in self._granted() if grant.database != _EVERY]


class Sight(Struct, frozen=True):
    """The tables that a user sees completely."""

    everything: bool
    """Whether a table that the user does not see does not exist."""
    databases: tuple[str, ...] = ()
    """Patterns (`_` and `%`), unless `is_literal`, of databases that the user sees completely."""
    tables: frozenset[tuple[str, str]] = frozenset()
    revoked: tuple[str, ...] = ()
    """Databases that are excluded from a global grant."""
    global_rights: bool = False
    is_literal: bool = False
    """See `Grants.is_literal`."""

    def sees_all_columns_of(self, name: TableName) -> bool:
        """Whether no column of a table can be hidden; a grant on single columns hides the others."""
        return self.sees_all_of(name.database) or (name.database, name.table) in self.tables

    def sees_all_of(self, database: str) -> bool:
        """Whether no table of a database can be hidden."""
        if self.global_rights and database not in self.revoked:
            return True
        return any(_matches(pattern, database, is_literal=self.is_literal) for pattern in self.databases)

    def hidden(self) -> list[str]:
        """The hidden parts, in sentences for the user; empty if nothing is hidden."""
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
    match = _GRANT.match(f"{line} ")
    target = _OBJECT.fullmatch(match["object"]) if match else None
    if match is None or target is None:
        return None
    listed = _ON_COLUMNS.sub("", match["rights"]).split(",")
    rights = frozenset(right.strip().upper() for right in listed) - {""}
    return Grant(rights, _unquoted(target["database"]), _unquoted(target["table"]), match["verb"] == "REVOKE")


def _unquoted(name: str) -> str:
    return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '`"' else name


def _matches(pattern: str, database: str, *, is_literal: bool) -> bool:
    """Whether a grant's pattern matches a database, like LIKE; a backslash escapes the next character."""
    if is_literal:
        return pattern == database
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(
        re.escape(part[-1]) if part[0] == "\\" and len(part) == 2 else wild.get(part, re.escape(part)) for part in parts
    )
    return re.fullmatch(regex, database, re.DOTALL) is not None
