"""The number of rows by table in a range of the landed stream, from the counts of the binlog's own events.
Not here: whether they are wanted (`pipeline/plan/pending.py`), counting what was decoded (`quality/checks/`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    import numpy.typing as npt

    from strata_cdc.binlog.events.index import RowCounts
    from strata_cdc.landing.landed import LandedStream


def count_rows(stream: LandedStream, first_seq: int, last_seq: int) -> dict[TableName, int]:
    """Rows by table that take effect with the transactions first_seq < seq <= last_seq; an update counts once.

    Tables without rows and those of the server's own databases are not in it.

    Raises:
        StreamHoleError: Some of these transactions were deleted by age.
    """
    rows_by_table: Counter[TableName] = Counter()
    placement = PreparedPlacement(stream, first_seq, last_seq)
    committed = placement.committed()
    excluded = np.array(sorted(placement.prepares - committed), np.int64)
    for segment in stream.segments_of(first_seq + 1, last_seq):
        for counts in segment.index.row_counts(first_seq + 1):
            if counts.first_seq > last_seq:
                break
            for number, rows in enumerate(_rows_by_table(counts, first_seq, last_seq, excluded)):
                rows_by_table[TableName(*counts.tables[number])] += rows
    for seq in sorted(seq for seq in committed if seq <= first_seq):
        for table in stream.record_at(seq)[1].tables:
            rows_by_table[TableName(table.database, table.table)] += table.rows
    users = {name: rows for name, rows in rows_by_table.items() if rows and name.database not in SYSTEM_DATABASES}
    return dict(sorted(users.items()))


def _rows_by_table(counts: RowCounts, first_seq: int, last_seq: int, excluded: npt.NDArray[np.int64]) -> list[int]:
    """Rows by number of the table in `counts.tables`, of the transactions inside the range."""
    seqs = np.arange(counts.first_seq, counts.first_seq + len(counts.entries_end))
    counted = (seqs > first_seq) & (seqs <= last_seq)
    if len(excluded):
        counted &= ~np.isin(seqs, excluded)
    inside = np.repeat(counted, np.diff(counts.entries_end, prepend=0))
    tables, rows = counts.entry_tables[inside], counts.entry_rows[inside]
    # Floats hold whole numbers up to 2**53 exactly.
    totals: list[int] = np.bincount(tables, rows, len(counts.tables)).astype(np.int64).tolist()
    return totals
