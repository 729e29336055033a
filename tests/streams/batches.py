"""Transactions that nobody has logged, as a batch of columns. Not here: tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.events.batch import TransactionBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.position.sets import Gtid

BYTES = 10
"""Of each transaction."""


def batch_of_gtids(
    gtids: Sequence[Gtid | None],
    times: Sequence[int],
    *,
    first_seq: int = 1,
    binlog_file: str = "b.000002",
    first_pos: int = 4,
) -> TransactionBatch:
    """Transactions without rows and statements, one after the other in a file."""
    count = len(gtids)
    sids = tuple(dict.fromkeys(gtid.sid for gtid in gtids if gtid is not None))
    begins = first_pos + BYTES * np.arange(count, dtype=np.int64)
    nothing, never = np.zeros(0, np.int64), np.zeros(count, np.int64)
    return TransactionBatch(
        binlog_file=binlog_file,
        first_seq=first_seq,
        begins=begins,
        ends=begins + BYTES,
        positions=begins,
        sids=sids,
        sid_numbers=np.array([-1 if gtid is None else sids.index(gtid.sid) for gtid in gtids], np.int64),
        numbers=np.array([0 if gtid is None else gtid.gno for gtid in gtids], np.int64),
        committed_at=np.array(times, np.int64),
        commit_timestamps=np.array(times, np.int64),
        incidents=(),
        marks=(),
        tables=(),
        entries_end=never,
        entry_tables=nothing,
        entry_events=nothing,
        entry_rows=nothing,
        statements_end=never,
        statements=nothing,
        splits_end=never,
        split_offsets=nothing,
        split_rows=nothing,
        split_maps_end=nothing,
        split_maps=nothing,
    )
