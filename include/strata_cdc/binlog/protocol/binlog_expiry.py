"""How long a server keeps its binlogs, from its variables.
Not here: what is too short (`ops/doctor/check_settings.py`), how near it is (`ops/metrics.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS: Final = "binlog_expire_logs_seconds"
DAYS: Final = "expire_logs_days"
"""The only variable before MySQL 8.0.1 and MariaDB 10.6; MariaDB's has parts of days."""
_AUTO: Final = "binlog_expire_logs_auto_purge"
"""From MySQL 8.0.29 on."""
VARIABLES: Final = (SECONDS, DAYS, _AUTO)
_DAY: Final = 86400


def expire_seconds(variables: Mapping[str, str]) -> int | None:
    """Seconds after a file's last event until the server may delete it; None if it deletes none by itself.

    Args:
        variables: The server's, by lower-case name; of `VARIABLES`, those that it has.
    """
    if variables.get(_AUTO, "ON").upper() in {"OFF", "0"}:
        return None
    return int(variables.get(SECONDS, "0")) or int(float(variables.get(DAYS, "0")) * _DAY) or None
