"""Judges a server's settings: which of them prevent a usable binlog, and which have a price.
Not here: asking the server (`check_source.py`), grants (`check_grants.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.binlog.protocol.binlog_expiry import DAYS, SECONDS, expire_seconds
from strata_cdc.binlog.protocol.engine_file import STORAGE_ENGINE
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.ops.doctor.check_mariadb import (
    judge_binlog_storage,
    judge_former_replica,
    judge_old_mode,
    judge_strict_mode,
    judge_version,
)
from strata_cdc.ops.doctor.findings import Finding, error, ok, warning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OLDEST = (5, 6, 0)
_BY_RESTART = (
    "In my.cnf under [mysqld]: gtid_mode = ON, enforce_gtid_consistency = ON, log_slave_updates = ON; restart it."
)
_DAY = 86_400
_GTID_STEPS = {
    "OFF": ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"),
    "OFF_PERMISSIVE": ("ON_PERMISSIVE", "ON"),
    "ON_PERMISSIVE": ("ON",),
}
"""A server goes from one mode to the next only (manual, "Changing GTID Mode Online")."""
WITHOUT_GTIDS = (
    "Such a source cannot go on with another server after a failover, nor after a reset or a restored backup; it "
    "cannot be landed from archived files, watched for DDL, or queried by GTID sets; a snapshot of its schema needs "
    "the grant BACKUP_ADMIN"
)


def judge_settings(variables: Mapping[str, str]) -> list[Finding]:
    """Findings from what `SHOW GLOBAL VARIABLES` says; a variable that the server does not know is skipped."""
    flavour = Flavour.parse(variables.get("version", ""))
    judges = _JUDGES_OF_MARIADB if flavour.vendor is Vendor.MARIADB else _JUDGES
    findings = [judge(variables) for judge in judges]
    return [_mended_on(flavour, finding) for finding in findings if finding is not None]


def _mended_on(flavour: Flavour, finding: Finding) -> Finding:
    """The finding with a fix that its server knows: SET PERSIST, and what it sets, begin with MySQL 8.0."""
    if finding.remedy is None or flavour.is_mysql(8) or "SET PERSIST" not in finding.remedy:
        return finding
    if not flavour.is_mysql(5, 7, 6) and finding.name in ("gtid_mode", "enforce_gtid_consistency"):
        return replace(finding, remedy=_BY_RESTART)
    remedy = finding.remedy.replace("SET PERSIST", "SET GLOBAL")
    return replace(
        finding, remedy=f"{remedy} And the same in my.cnf under [mysqld]: a restart forgets what is only SET."
    )


def _version(variables: Mapping[str, str]) -> Finding:
    version = variables.get("version", "")
    flavour = Flavour.parse(version)
    if not flavour.is_mysql(*_OLDEST):
        return error("version", f"{version}: GTIDs begin with MySQL 5.6", "Upgrade the server.")
    return ok("version", version)


def _log_bin(variables: Mapping[str, str]) -> Finding:
    if _is_on(variables, "log_bin"):
        return ok("log_bin", "ON")
    return error(
        "log_bin", "OFF: the server writes no binlog", "In my.cnf under [mysqld]: log_bin = binlog; restart the server."
    )


def _gtid_mode(variables: Mapping[str, str]) -> Finding:
    mode = variables.get("gtid_mode", "OFF").upper()
    if mode == "ON":
        return ok("gtid_mode", "ON")
    steps = "; ".join(f"SET PERSIST gtid_mode = {step}" for step in _GTID_STEPS.get(mode, ("ON",)))
    return warning(
        "gtid_mode",
        f"{mode}: the binlog is landed by file and offset. {WITHOUT_GTIDS}",
        f"SET PERSIST enforce_gtid_consistency = ON; {steps}; before the last, wait until "
        "SHOW STATUS LIKE 'Ongoing_anonymous_transaction_count' is 0 and `strata land` has landed what there is.",
    )


def _enforce(variables: Mapping[str, str]) -> Finding | None:
    if variables.get("gtid_mode", "OFF").upper() != "ON":
        return None
    value = variables.get("enforce_gtid_consistency", "OFF").upper()
    if value == "ON":
        return ok("enforce_gtid_consistency", "ON")
    return error(
        "enforce_gtid_consistency",
        f"{value}: statements that cannot have a GTID are let through",
        "SET PERSIST enforce_gtid_consistency = WARN; look into the error log for a while; "
        "SET PERSIST enforce_gtid_consistency = ON.",
    )


def _server_id(variables: Mapping[str, str]) -> Finding:
    if variables.get("server_id", "0") != "0":
        return ok("server_id", variables["server_id"])
    return error("server_id", "0: the server refuses replicas", "SET PERSIST server_id = 1;")


def _binlog_format(variables: Mapping[str, str]) -> Finding | None:
    value = variables.get("binlog_format", "").upper()
    if not value:
        return None  # A server that knows rows only has no such variable.
    if value == "ROW":
        return ok("binlog_format", "ROW")
    return error(
        "binlog_format",
        f"{value}: changes are logged as statements, so the rows are not in the binlog",
        "SET PERSIST binlog_format = ROW; sessions that are connected keep the old one until they reconnect.",
    )


def _row_image(variables: Mapping[str, str]) -> Finding | None:
    value = variables.get("binlog_row_image", "").upper()
    # FULL_NODUP of MariaDB leaves out of the after image what the before image has.
    if value in ("", "FULL", "FULL_NODUP"):
        return ok("binlog_row_image", value) if value else None
    return warning(
        "binlog_row_image",
        f"{value}: updates and deletes carry some columns only; the others are NULL and listed in _missing, and the "
        "check that a change starts from where the last one ended sees those columns only",
        "SET PERSIST binlog_row_image = FULL;",
    )


def _partial_json(variables: Mapping[str, str]) -> Finding | None:
    if "PARTIAL_JSON" not in variables.get("binlog_row_value_options", "").upper():
        return None
    if variables.get("binlog_row_image", "FULL").upper() == "FULL":
        return ok("binlog_row_value_options", "PARTIAL_JSON: documents are rebuilt from the before image")
    return error(
        "binlog_row_value_options",
        "PARTIAL_JSON without full row images: a changed document cannot be rebuilt",
        "SET PERSIST binlog_row_image = FULL; or SET PERSIST binlog_row_value_options = '';",
    )


def _checksum(variables: Mapping[str, str]) -> Finding | None:
    value = variables.get("binlog_checksum", "").upper()
    if not value or variables.get(STORAGE_ENGINE):
        # A binlog in MariaDB's storage engine never has any.
        return None
    if value == "CRC32":
        return ok("binlog_checksum", "CRC32")
    return warning(
        "binlog_checksum",
        f"{value}: damage between the server and here can go unnoticed",
        "SET PERSIST binlog_checksum = CRC32;",
    )


def _encryption(variables: Mapping[str, str]) -> Finding | None:
    # MySQL's name, and MariaDB's.
    name = next((name for name in ("binlog_encryption", "encrypt_binlog") if _is_on(variables, name)), None)
    if name is None:
        return None
    return ok(name, "ON: the server sends its binlog decrypted; copies of its files cannot be read")


def _expiry(variables: Mapping[str, str]) -> Finding:
    seconds = expire_seconds(variables)
    if seconds is None:
        return ok(SECONDS, "binlogs are kept until somebody purges them")
    if seconds >= _DAY:
        return ok(SECONDS, f"{seconds}: binlogs are kept for {seconds / _DAY:.3g} days")
    return warning(
        SECONDS,
        f"{seconds}: binlogs are gone after {seconds / 3600:.3g} hours, landed or not",
        f"SET PERSIST {SECONDS} = 604800;" if SECONDS in variables else f"SET PERSIST {DAYS} = 7;",
    )


def _updates_of_replica(variables: Mapping[str, str]) -> Finding | None:
    if not _is_on(variables, "is_replica"):
        return None
    name = "log_replica_updates" if "log_replica_updates" in variables else "log_slave_updates"
    if _is_on(variables, name):
        return ok(name, "ON")
    return error(
        name,
        "OFF: the changes that this replica takes from its source are not in its own binlog",
        f"In my.cnf under [mysqld]: {name} = ON; restart the server. Or use its source.",
    )


def _filters(variables: Mapping[str, str]) -> Finding | None:
    filters = [name for name in ("binlog_do_db", "binlog_ignore_db") if variables.get(name)]
    if not filters:
        return None
    what = ", ".join(f"{name} = {variables[name]}" for name in filters)
    return warning(
        "binlog filters",
        f"{what}: changes of the databases that are excluded are nowhere in the binlog",
        "Remove them from my.cnf and restart the server.",
    )


def _cascades(variables: Mapping[str, str]) -> Finding | None:
    """Before 9.6 no server logs them, and none has the variable; whether a table has such a key is not queried."""
    if not _is_on(variables, "innodb_native_foreign_keys"):
        return None
    return warning(
        "innodb_native_foreign_keys",
        "ON: rows that foreign keys delete or change (CASCADE, SET NULL) are not in the binlog",
        "In my.cnf under [mysqld]: innodb_native_foreign_keys = OFF; restart the server.",
    )


def _is_on(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name, "").upper() in ("ON", "1", "YES")


_JUDGES: tuple[Callable[[Mapping[str, str]], Finding | None], ...] = (
    _version,
    _log_bin,
    _server_id,
    _gtid_mode,
    _enforce,
    _binlog_format,
    _row_image,
    _partial_json,
    _checksum,
    _encryption,
    _expiry,
    _updates_of_replica,
    _filters,
    _cascades,
)
_JUDGES_OF_MARIADB: tuple[Callable[[Mapping[str, str]], Finding | None], ...] = (
    judge_version,
    _log_bin,
    _server_id,
    judge_strict_mode,
    judge_old_mode,
    _binlog_format,
    _row_image,
    _checksum,
    _encryption,
    judge_binlog_storage,
    _expiry,
    _updates_of_replica,
    judge_former_replica,
    _filters,
)
