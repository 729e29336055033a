"""Rows whose data are of another schema than the one valid at their commit, commit by commit, as they are landed.
Not here: what is done with them (`quadrants.py`), the file of a segment (`landed_rows.py`)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.ticdc.ddl_kinds import DdlKind
from strata_cdc.ticdc.landed_rows import CrossedRows, SegmentRows, row_column
from strata_cdc.ticdc.landed_slice import has_rows, segment_at
from strata_cdc.ticdc.quadrants import Quadrant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.plan import Slice
    from strata_cdc.ticdc.history import SinkHistory, SinkVersion
    from strata_cdc.ticdc.windows import CommitWindow


def crossed_rows(
    window: CommitWindow, written: Mapping[str, SinkVersion], history: SinkHistory
) -> Iterator[CrossedRows]:
    """The rows of a window that lie across a DDL; one that several DDL are between is there for each.

    Args:
        window: The commits.
        written: The version of each file, by its path.
        history: All versions.
    """
    counts = Counter[tuple[int, str, str, str, str]]()
    for decoded in window.rows:
        if isinstance(decoded, ChangeBatch | QuarantinedRows):
            for path, seqs in _by_file(decoded, written):
                some, rows = np.unique(seqs, return_counts=True)
                for seq, count in zip(some.tolist(), rows.tolist(), strict=True):
                    for crossing in _crossings(written[path], window.steps[seq - window.first_seq].ts, history):
                        counts[(seq, decoded.table.database, decoded.table.table, *crossing)] += count
    for key, count in sorted(counts.items()):
        yield CrossedRows(*key, count)


def _by_file(decoded: ChangeBatch | QuarantinedRows, written: Mapping[str, SinkVersion]) -> Iterator[tuple[str, Ints]]:
    """The ordinals of rows, by file; without the files that have the version of the rows."""
    batch = decoded.batch if isinstance(decoded, ChangeBatch) else decoded.rows
    valid = decoded.version_id if isinstance(decoded, ChangeBatch) else None
    paths, seqs = row_column(batch, "_binlog_file"), row_column(batch, "_seq").to_numpy()
    for path in paths.unique().to_pylist():
        if written[path].number != valid:
            yield path, seqs[pc.equal(paths, path).to_numpy(zero_copy_only=False)]


def _crossings(data: SinkVersion, ts: int, history: SinkHistory) -> Iterator[tuple[str, str]]:
    """The DDL between the version that rows were written under and the one valid at their commit."""
    table = history.tables[data.folder]
    valid = table.valid_at(ts)
    if valid is None or valid.ts == data.ts:
        return
    first, last = sorted((data, valid), key=lambda version: version.ts)
    quadrant = Quadrant.OLD_NEW if data.ts < valid.ts else Quadrant.NEW_OLD
    for _, version in pairwise((first, *table.between(first, last))):
        if version.kind is not DdlKind.STATE:
            yield str(version.kind), str(quadrant)


def crossed_in(slices: Iterable[Slice], first_seq: int, last_seq: int) -> dict[tuple[str, str, str, str], int]:
    """Rows across DDL in the landed segments of some slices, by database, table, DDL and quadrant.

    Args:
        slices: Planned slices; those of a binlog have none.
        first_seq: The first commit.
        last_seq: The last one.

    Raises:
        DamagedFileError: A segment is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    counts = Counter[tuple[str, str, str, str]]()
    for url in sorted({piece.segment for piece in slices if has_rows(piece.segment)}):
        for crossed in SegmentRows(segment_at(url)).contents.crossed:
            if first_seq <= crossed.seq <= last_seq:
                counts[crossed.database, crossed.table, crossed.kind, crossed.quadrant] += crossed.rows
    return dict(sorted(counts.items()))
