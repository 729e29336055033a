"""Judges the grants of the user that Strata logs in as.
Not here: reading them (`schema/live/grants.py`), asking the server for them (`check_source.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.ops.doctor.findings import Finding, error, ok, warning
from strata_cdc.schema.model.create_sql import quoted

if TYPE_CHECKING:
    from strata_cdc.flavour import Flavour
    from strata_cdc.schema.live.grants import Grants

_STORE_RIGHTS = ("CREATE", "ALTER", "INDEX", "SELECT", "INSERT", "UPDATE", "DELETE")


def judge_grants(grants: Grants, user: str, store_database: str | None) -> list[Finding]:
    """Findings on the grants.

    Args:
        grants: Of the user.
        user: Quoted, as in a GRANT statement.
        store_database: The store's database on this server; None if the store is elsewhere.
    """
    findings = [_replication(grants, user), _state(grants, user), _select(grants, user)]
    if store_database is not None:
        findings.append(_store(grants, user, store_database))
    return findings


def judge_backup_admin(grants: Grants, user: str, flavour: Flavour) -> Finding:
    """For a server that runs without GTIDs; the grant begins with MySQL 8.0."""
    if grants.has("BACKUP_ADMIN"):
        return ok("BACKUP_ADMIN", "granted")
    return error(
        "BACKUP_ADMIN",
        "not granted: without GTIDs, a snapshot of the schema locks out DDL for a moment while its position in "
        "the binlog is read",
        f"GRANT BACKUP_ADMIN ON *.* TO {user};"
        if flavour.is_mysql(8)
        else "Begin the source by hand, with `strata land` and `strata track SEGMENTS... --baseline FILE.sql`.",
    )


def _replication(grants: Grants, user: str) -> Finding:
    if grants.has("REPLICATION SLAVE"):
        return ok("REPLICATION SLAVE", "granted")
    return error(
        "REPLICATION SLAVE",
        "not granted: the server will not send its binlog",
        f"GRANT REPLICATION SLAVE ON *.* TO {user};",
    )


def _state(grants: Grants, user: str) -> Finding:
    # MariaDB's name of it since 10.5 is BINLOG MONITOR; it takes both names in GRANT.
    if any(map(grants.has, ("REPLICATION CLIENT", "BINLOG MONITOR", "SUPER"))):
        return ok("REPLICATION CLIENT", "granted")
    return error(
        "REPLICATION CLIENT",
        "not granted: the server will not tell which binlogs it has, nor whether it is a replica",
        f"GRANT REPLICATION CLIENT ON *.* TO {user};",
    )


def _select(grants: Grants, user: str) -> Finding:
    revoked = grants.revoked("SELECT")
    if grants.has("SELECT") and revoked:
        return warning(
            "SELECT",
            f"granted on all databases but {', '.join(revoked)}: the schema of their tables cannot be read, so their "
            "rows from before the first DDL that names them stay undecoded",
            # Where there is a partial revoke, names of databases are no patterns (`Grants.is_literal`).
            " ".join(f"GRANT SELECT ON {quoted(database)}.* TO {user};" for database in revoked),
        )
    if grants.has("SELECT"):
        return ok("SELECT", "granted on all databases")
    some = grants.scopes_of("SELECT")
    remedy = f"GRANT SELECT ON *.* TO {user};"
    if some:
        return warning(
            "SELECT",
            f"granted on {', '.join(some[:5])}{' and others' if len(some) > 5 else ''} only: the schema of other "
            "tables cannot be read, so their rows from before the first DDL that names them stay undecoded",
            remedy,
        )
    return error("SELECT", "not granted: the schema of tables cannot be read", remedy)


def _store(grants: Grants, user: str, database: str) -> Finding:
    missing = [right for right in _STORE_RIGHTS if not grants.has(right, database)]
    if not missing:
        return ok("store grants", f"granted on {database}")
    return error(
        "store grants",
        f"{', '.join(missing)} not granted on database {database}, where schema versions are kept",
        f"GRANT {', '.join(_STORE_RIGHTS)} ON {quoted(database)}.* TO {user};",
    )
