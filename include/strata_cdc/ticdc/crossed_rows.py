"""Rows whose data are of another schema than the one valid at their commit, commit by commit, as they are landed.
Not here: what is done with them (`quadrants.py`), the file of a segment (`landed_rows.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.errors import Crossing, Location
from strata_cdc.schema.model.quadrants import DdlKind
from strata_cdc.ticdc.landed_rows import CrossedRows, SegmentRows
from strata_cdc.ticdc.landed_slice import has_rows, segment_at
from strata_cdc.ticdc.quadrants import Translation

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
    locations: dict[tuple[int, str, str, str, str], tuple[Location, Location]] = {}
    for decoded in window.rows:
        if isinstance(decoded, ChangeBatch | QuarantinedRows):
            for path, seqs, numbers in _by_file(decoded, written):
                some, first, rows = np.unique(seqs, return_index=True, return_counts=True)
                for seq, number, count in zip(some.tolist(), numbers[first].tolist(), rows.tolist(), strict=True):
                    ts = window.steps[seq - window.first_seq].ts
                    for crossing in _crossings(written[path], ts, history):
                        key = (seq, decoded.table.database, decoded.table.table, crossing.ddl, crossing.quadrant)
                        counts[key] += count
                        locations.setdefault(key, (Location(commit_ts=ts, file=path, offset=number), crossing.made_at))
    for key, count in sorted(counts.items()):
        yield CrossedRows(*key, count, *locations[key])


def _by_file(
    decoded: ChangeBatch | QuarantinedRows, written: Mapping[str, SinkVersion]
) -> Iterator[tuple[str, Ints, Ints]]:
    """The ordinals of rows and their numbers in their file, by file; without the files that have the version of the
    rows."""
    batch = decoded.batch if isinstance(decoded, ChangeBatch) else decoded.rows
    valid = decoded.version_id if isinstance(decoded, ChangeBatch) else None
    columns = ChangeColumns(batch)
    paths, seqs = columns.fact("_binlog_file"), columns.fact("_seq").to_numpy()
    numbers = columns.fact("_binlog_pos").to_numpy()
    for path in paths.unique().to_pylist():
        if written[path].number != valid:
            mine = pc.equal(paths, path).to_numpy(zero_copy_only=False)
            yield path, seqs[mine], numbers[mine]


def _crossings(data: SinkVersion, ts: int, history: SinkHistory) -> Iterator[Crossing]:
    """The DDL between the version that rows were written under and the one valid at their commit."""
    table = history.tables[data.folder]
    translation = Translation(data, table.valid_at(ts), table, is_positional=False)
    if translation.quadrant is not None:
        for version in translation.crossed():
            if version.kind is not DdlKind.STATE:
                yield Crossing(str(version.kind), str(translation.quadrant), version.location)


class CrossedTotal(Struct):
    """Rows of one table across one kind of DDL."""

    database: str
    table: str
    crossing: Crossing
    """The first one."""
    row: Location | None
    """The first row."""
    rows: int = 0


def crossed_in(slices: Iterable[Slice], first_seq: int, last_seq: int) -> list[CrossedTotal]:
    """Rows across DDL in the landed segments of some slices, by database, table, DDL and quadrant.

    Args:
        slices: Planned slices; those of a binlog have none.
        first_seq: The first commit.
        last_seq: The last one.

    Raises:
        DamagedFileError: A segment is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    totals: dict[tuple[str, str, str, str], CrossedTotal] = {}
    for url in sorted({planned_slice.segment for planned_slice in slices if has_rows(planned_slice.segment)}):
        for crossed in SegmentRows(segment_at(url)).contents.crossed:
            if first_seq <= crossed.seq <= last_seq:
                key = (crossed.database, crossed.table, crossed.kind, crossed.quadrant)
                crossing = Crossing(crossed.kind, crossed.quadrant, crossed.made_at or Location())
                totals.setdefault(key, CrossedTotal(*key[:2], crossing, crossed.row)).rows += crossed.rows
    return [total for _, total in sorted(totals.items())]
