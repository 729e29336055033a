"""Sources whose log has no times of commits (MariaDB): what a group needs so that it can order their transactions.
Not here: which times they have (`SpanTransactions.times`), the servers' clocks (`binlog/protocol/server_clocks.py`).

A MariaDB session may set the time of what it writes, a replica logs the times of its primary, and 10.11 logs when a
statement began. So such a source has the times of its landed stream's commit clock: the largest time that has been
logged up to a transaction. It is a function of the position, and never goes back; but the next transaction may come at
any time that is not before it. So the source proves nothing by being idle, and the group waits for its next
transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.errors import SourceSettingsError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import has_commit_times
from strata_cdc.streams.transaction_texts import time_text

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.config.settings import Source
    from strata_cdc.groups.chunks import SpanTransactions
    from strata_cdc.groups.membership import Membership

HEARTBEAT_SQL: Final = (
    "CREATE DATABASE IF NOT EXISTS heartbeat;"
    " CREATE TABLE IF NOT EXISTS heartbeat.beat (id INT PRIMARY KEY, at DATETIME(6) NOT NULL);"
    " CREATE EVENT IF NOT EXISTS heartbeat.each_second ON SCHEDULE EVERY 1 SECOND"
    " DO REPLACE INTO heartbeat.beat VALUES (1, NOW(6));"
    " SET GLOBAL event_scheduler = ON;"
)
"""Lets a MariaDB server write a transaction each second."""
WAITS: Final = "MariaDB proves nothing by being idle: the group waits for its next transaction"
ADVICE: Final = "an EVENT that writes a row each second lets the group go on (`strata doctor` prints it)"


def refuse_unordered(source: Source, membership: Membership, *, is_mariadb: bool) -> None:
    """Checks that the transactions of a source have a place in the group's order.

    Args:
        membership: The group's sources.
        is_mariadb: Whether its server is known to be MariaDB; what has landed may show it, too.

    Raises:
        SourceSettingsError: It is MariaDB, and nothing of it has landed, or it takes part in a switchover.
    """
    landed = LandedStream.open(source.lake, source.name)
    if not is_mariadb and has_commit_times(landed.executed()):
        return
    if not landed.segments:
        raise SourceSettingsError(
            "a group orders the transactions of a MariaDB source by the largest time that was logged up to each, which "
            "counts from where its landing begins; nothing of it has landed",
            source=source.name,
            remedy=f"Run `strata land --source {source.name}` first.",
        )
    if membership.switchover_to(source.name) is not None or membership.end(source.name) is not None:
        raise SourceSettingsError(
            "a MariaDB source takes part in a switchover: its log does not have the times of commits by which one "
            "source takes over from another",
            source=source.name,
            remedy="Begin a group of another name with the new sources, from `now` when nothing writes to the old "
            "ones any more.",
        )


def refuse_ahead(some: SpanTransactions, times: Ints, latest: int) -> SourceSettingsError | None:
    """Excludes transactions that are too far in the future.

    Args:
        some: Transactions of a source without commit times.
        times: Their times; they ascend (microseconds UTC, in the group's time).
        latest: The last time that is allowed.

    Returns:
        The error for the first of them; None if there is none.
    """
    count = int(np.searchsorted(times, latest, "right"))
    if count == len(times):
        return None
    gtid = str(some.transaction(count).record.gtid)
    some.leave_out(np.arange(len(times)) >= count)
    return error_ahead(int(times[count]), gtid)


def error_ahead(time: int, gtid: str | None = None) -> SourceSettingsError:
    """The error for a source whose times are too far in the future.

    Args:
        time: Microseconds UTC.
        gtid: The transaction that has the time; None if it came before the stream began.
    """
    return SourceSettingsError(
        f"its newest logged time is {time_text(time)}, which a session of MariaDB (`SET timestamp`) or a wrong clock "
        "has set: all that follows in this source comes after that time in the group's order",
        gtid=gtid,
        remedy="Wait until then, or land the server under another source name with `land_from = 'snapshot'`, whose "
        "times count from there (docs/groups.md#mariadb). `secure_timestamp = YES` keeps sessions from setting a time.",
    )
