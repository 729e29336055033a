"""Judges the settings that MariaDB alone has, or that mean something else there.
Not here: the settings of both families, and those of MySQL (`check_settings.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.protocol.engine_file import STORAGE_ENGINE
from strata_cdc.flavour import Flavour
from strata_cdc.ops.doctor.findings import Finding, error, ok, warning

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST_MARIADB: Final = (10, 6, 0)
_UTF8: Final = "UTF8_IS_UTF8MB3"


def judge_version(variables: Mapping[str, str]) -> Finding:
    """Whether this version is read."""
    version = variables.get("version", "")
    if Flavour.parse(version).version < OLDEST_MARIADB:
        return error("version", f"{version}: MariaDB is read from 10.6 on", "Upgrade the server.")
    return ok("version", version)


def judge_strict_mode(variables: Mapping[str, str]) -> Finding:
    """Whether the server itself refuses numbers that go back."""
    if variables.get("gtid_strict_mode", "OFF").upper() in ("ON", "1"):
        return ok("gtid_strict_mode", "ON")
    return warning(
        "gtid_strict_mode",
        "OFF: a session may number its transactions below what the server has already; landing stops there, since a "
        "position has all numbers below its newest",
        "SET GLOBAL gtid_strict_mode = ON; and the same in my.cnf under [mysqld].",
    )


def judge_old_mode(variables: Mapping[str, str]) -> Finding | None:
    """Whether the charset `utf8` is utf8mb3 in new sessions, as a replay of their DDL takes it: no event has it."""
    value = variables.get("old_mode")
    if value is None:
        return None
    modes = [mode for mode in value.split(",") if mode]
    if _UTF8 in (mode.upper() for mode in modes):
        return ok("old_mode", value)
    return warning(
        "old_mode",
        f"{value!r} is without {_UTF8}: the charset utf8 in DDL is utf8mb4 then, which no event has, and is taken for "
        "utf8mb3; rows of such CHAR and VARCHAR columns are quarantined until `strata snapshot`",
        f"SET GLOBAL old_mode = '{','.join([*modes, _UTF8])}'; and the same in my.cnf under [mysqld]; sessions that "
        "are connected keep the old one until they reconnect. Or name utf8mb4 in DDL.",
    )


def judge_binlog_storage(variables: Mapping[str, str]) -> Finding | None:
    """Whether the binlog lies in files."""
    value = variables.get(STORAGE_ENGINE, "")
    if not value:
        return None
    return warning(
        STORAGE_ENGINE,
        f"{value}: this binlog is read by its protocol, which was never tried on a real server; it has no positions, "
        "so dumps, `strata reconcile` and tokens of sessions are refused",
        "docs/mariadb.md says what is proved. To have a binlog in files: in my.cnf under [mysqld], remove "
        f"{STORAGE_ENGINE}; restart the server.",
    )


def judge_former_replica(variables: Mapping[str, str]) -> Finding | None:
    """Whether the changes of a source are missing in the server's own binlog, if its user may not see that it is a
    replica: it has then applied something."""
    if variables.get("is_replica") != "UNKNOWN" or not variables.get("gtid_slave_pos"):
        return None
    if variables.get("log_slave_updates", "OFF").upper() in ("ON", "1"):
        return ok("log_slave_updates", "ON")
    return warning(
        "log_slave_updates",
        "OFF, and the server has applied changes as a replica: if it still is one, they are not in its own binlog",
        "In my.cnf under [mysqld]: log_slave_updates = ON; restart the server. Or GRANT REPLICA MONITOR to this user: "
        "then it is known.",
    )
