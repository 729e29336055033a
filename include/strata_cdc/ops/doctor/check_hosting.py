"""Checks what is different with a server that a service runs: how long binlogs are kept, readers without a binlog, and
where its settings are changed.
Not here: which service it is (`binlog/protocol/hosting.py`), the settings themselves (`check_settings.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.binlog.protocol.binlog_expiry import DAYS, SECONDS
from strata_cdc.binlog.protocol.hosting import RETENTION, HostingService
from strata_cdc.ops.doctor.findings import Finding, error, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WHERE_SETTINGS_ARE: Final = {
    HostingService.RDS: "In the instance's parameter group",
    HostingService.AURORA: "In the cluster's parameter group",
    HostingService.CLOUD_SQL: "As a flag of the instance (gcloud sql instances patch NAME --database-flags)",
    HostingService.AZURE: "As a server parameter (az mysql flexible-server parameter set)",
}
_SET: Final = re.compile(r"SET (?:PERSIST|GLOBAL) (?P<setting>[^;]+);")
_DAY_HOURS: Final = 24
_MOST_HOURS: Final = {HostingService.RDS: 168, HostingService.AURORA: 2160}
"""What the services allow."""


def judge_hosting(service: HostingService, variables: Mapping[str, str], hours: int | None) -> Iterator[Finding]:
    """What the service is, and how long it keeps binlogs.

    Args:
        variables: The server's, by lower-case name.
        hours: `binlog retention hours`; None if it is not known. Only for services that have it.
    """
    yield ok("hosting", str(service))
    if service is HostingService.PLANETSCALE:
        yield error("hosting", "PlanetScale gives its binlogs to nobody", "Read the server that it replicates to.")
    if service is HostingService.AURORA and variables.get("innodb_read_only", "OFF").upper() in ("ON", "1"):
        yield error(
            "hosting",
            "this is a reader of the cluster, and readers have no binlog",
            "Use the cluster's own endpoint, which leads to its writer.",
        )
    if service.has_own_retention:
        yield _retention(service, hours)


def _retention(service: HostingService, hours: int | None) -> Finding:
    longer = f"CALL mysql.rds_set_configuration('{RETENTION}', {_MOST_HOURS[service]});"
    if hours is None:
        return warning(
            RETENTION,
            f"not known to this user: {service} may delete binlogs before they have landed",
            "GRANT EXECUTE ON PROCEDURE mysql.rds_show_configuration TO this user.",
        )
    if not hours:
        return error(RETENTION, f"NULL: {service} deletes binlogs as soon as it can, landed or not", longer)
    if hours < _DAY_HOURS:
        return warning(RETENTION, f"{hours}: binlogs are gone after {hours} hours, landed or not", longer)
    return ok(RETENTION, f"{hours}: binlogs are kept for {hours / _DAY_HOURS:.3g} days")


def where_it_is_set(service: HostingService, findings: list[Finding]) -> list[Finding]:
    """The findings with fixes that a user of the service can carry out: nobody there may SET PERSIST. What the server
    deletes by its own variables does not count where the service has a retention of its own."""
    own = service.has_own_retention
    kept = [finding for finding in findings if not (own and finding.name in (SECONDS, DAYS))]
    where = _WHERE_SETTINGS_ARE.get(service)
    return [_moved(finding, where) for finding in kept] if where else kept


def _moved(finding: Finding, where: str) -> Finding:
    settings = _SET.findall(finding.remedy or "")
    return replace(finding, remedy=f"{where}: {', '.join(settings)}.") if settings else finding
