"""Notes in the ledger which tables wait for a dump, and reports each of them once.
Not here: dumping them (`pipeline/read_again.py`), why they wait (`follow.py`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from strata_cdc.store.read_again import ReadAgainLedger, TableToRead

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.mirrors.follow.update_mirrors import MirrorReport

_LOG = logging.getLogger("strata.mirror")

Tell = Callable[[TableToRead], None]
"""Called with each table that was not waiting before."""


def warn(waiting: TableToRead) -> None:
    """Writes it to the log."""
    _LOG.warning("the mirror of %s goes no further: %s", waiting.name, waiting.reason)


def note_waiting(engine: sa.Engine, report: MirrorReport, *, now: int, tell: Tell = warn) -> None:
    """Stores what the mirrors of a source wait for; ignores a mirror with an error that no dump ends.

    Args:
        engine: The source's store.
        report: The results of the mirrors.
        now: Microseconds UTC.
        tell: Reports a table.
    """
    waiting = []
    judged = list(report.without)
    for table, mirror in report.outcomes.items():
        if mirror.error is not None and not mirror.needs_dump:
            continue
        judged.append(table)
        if mirror.needs_dump and mirror.behind is not None:
            seq = None if mirror.position is None else mirror.position.seq
            waiting.append(TableToRead(report.source, table.database, table.table, seq, mirror.behind, now))
    names = [(table.database, table.table) for table in judged]
    for fresh in ReadAgainLedger(engine).notice(report.source, waiting, names):
        tell(fresh)
