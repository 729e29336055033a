"""Servers that somebody else runs: which service it is, and how long that service keeps binlogs.

None of these could be tried here. What they answer is from their documentation (Amazon RDS User Guide and Aurora User
Guide, "Setting and showing binary log configuration"; Cloud SQL, Azure Database for MySQL and PlanetScale, "Server
parameters" and "Limitations") and from what monitoring tools test for.
Not here: what the server itself deletes (`binlog_expiry.py`), what doctor makes of it (`ops/doctor/check_hosting.py`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pymysql

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES: Final = ("aurora_version", "basedir", "version", "version_comment")
"""What tells the services from each other."""
RETENTION: Final = "binlog retention hours"
_RETENTION_UNKNOWN: Final = {1044, 1142, 1143, 1227, 1305, 1370}
"""No right to call the procedure, or there is none (share/messages_to_clients.txt)."""


class HostingService(StrEnum):
    """Who runs the server."""

    RDS = "Amazon RDS"
    AURORA = "Amazon Aurora"
    CLOUD_SQL = "Google Cloud SQL"
    AZURE = "Azure Database for MySQL"
    PLANETSCALE = "PlanetScale"

    @property
    def has_own_retention(self) -> bool:
        """Whether binlogs are kept for `binlog retention hours`, whatever the server's variables say."""
        return self in {HostingService.RDS, HostingService.AURORA}


def hosting_of(variables: Mapping[str, str], host: str) -> HostingService | None:
    """The service that runs a server; None for a server of one's own.

    Args:
        variables: The server's, by lower-case name; of `VARIABLES`, those that it has.
        host: The name by which it was reached.
    """
    version = f"{variables.get('version', '')} {variables.get('version_comment', '')}".lower()
    if "aurora_version" in variables:
        return HostingService.AURORA
    if "rdsdbbin" in variables.get("basedir", ""):
        return HostingService.RDS
    if "planetscale" in version or "vitess" in version or host.endswith(".psdb.cloud"):
        return HostingService.PLANETSCALE
    if "-google" in version:
        return HostingService.CLOUD_SQL
    if "-azure" in version or host.endswith(".mysql.database.azure.com"):
        return HostingService.AZURE
    return None


def retention_hours(connection: pymysql.Connection[Any]) -> int | None:
    """How long Amazon keeps binlogs: 0 for NULL, its default, with which it deletes them as soon as it needs them no
    longer. None if this user may not ask."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("CALL mysql.rds_show_configuration")
            rows = cursor.fetchall()
            while cursor.nextset():
                pass
    except (pymysql.err.OperationalError, pymysql.err.ProgrammingError) as failure:
        if failure.args[0] in _RETENTION_UNKNOWN:
            return None
        raise
    hours = {str(name).lower(): value for name, value, *_ in rows}.get(RETENTION)
    return int(hours) if hours is not None else 0
