"""GTIDs that transactions own while they commit, as MySQL shows them.
Not here: sets of GTIDs (`sets.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.position.sets import Gtid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.position.port import Executed


def owned_gtids(text: str) -> list[Gtid]:
    """Reads `gtid_owned`: `UUID:NUMBER#THREAD:NUMBER#THREAD, UUID:TAG:NUMBER#THREAD`.

    A transaction owns its GTID before the time of its commit is written into the binlog, and until it is in
    `gtid_executed` (8.0 on, sql/binlog.cc, `process_flush_stage_queue`). So whatever has an earlier time of commit than
    the clock shows is in one of the two, if they are queried in this order: the clock and `gtid_owned` in one
    statement, then `gtid_executed`.
    """
    gtids = []
    for server in filter(None, (part.strip() for part in text.split(","))):
        uuid, *rest = server.split(":")
        tag = ""
        for part in rest:
            number, mark, _ = part.partition("#")
            if not mark:
                tag = f"{part}:"
            else:
                gtids.append(Gtid.parse(f"{uuid}:{tag}{number}"))
    return gtids


def with_gtids(executed: Executed, gtids: Iterable[Gtid]) -> Executed:
    """What a server has executed, with some GTIDs more."""
    for gtid in gtids:
        executed = executed.add(gtid)
    return executed
