"""Planned slices of the landed segments of a sink, read as every slice is (`changes/port.py`).
Not here: the segments (`landed_rows.py`), planning (`changes/plan.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from strata_cdc.arrow_columns import repeated_number
from strata_cdc.binlog.bytes.segment import SegmentForm, SegmentName
from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.port import ChangeBatch, QuarantinedRows, placed
from strata_cdc.errors import SchemaMismatchError
from strata_cdc.files.storage import Folder
from strata_cdc.landing.landed import LandedSegment
from strata_cdc.schema.model.definition import definition_from_json
from strata_cdc.ticdc.landed_rows import SegmentRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.changes.plan import PlannedVersion, Range, Slice
    from strata_cdc.errors import ErrorFacts
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.ticdc.landed_rows import LandedPart


def has_rows(url: str) -> bool:
    """Whether a landed segment holds rows of a source without a binlog."""
    return url.endswith(f".{SegmentForm.ROWS}")


def segment_at(url: str) -> LandedSegment:
    """The landed segment with a URL.

    Raises:
        ValueError: It is not that of a segment.
    """
    folder, _, name = url.rpartition("/")
    parsed = SegmentName.parse(name)
    if parsed is None:
        raise ValueError(url)
    return LandedSegment(Folder.open(folder), parsed)


def why_set_aside(segment: LandedSegment, table: TableName) -> ErrorFacts | None:
    """Why rows of a table in a landed segment are set aside; None if none are, or it holds no rows.

    Raises:
        DamagedFileError: The segment is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    if segment.name.form is not SegmentForm.ROWS:
        return None
    name = table.database, table.table
    parts = SegmentRows(segment).contents.parts
    return next((part.error for part in parts if part.error and (part.database, part.table) == name), None)


def read_sink_slice(planned_slice: Slice) -> Iterator[ChangeBatch | QuarantinedRows]:
    """The rows of a slice of a landed segment with rows, as `ReadSlice`.

    Raises:
        DamagedFileError: The segment is not as it was written.
        SchemaMismatchError: Its rows have other columns than the version that the plan names.
        LakeUnavailableError: The storage does not answer.
    """
    segment = segment_at(planned_slice.segment)
    rows = SegmentRows(segment)
    tables = {(table.database, table.table): table for table in planned_slice.tables}
    for part_of in planned_slice.ranges():
        first, last = _ordinals(segment, part_of)
        for part in rows.contents.parts:
            table = tables.get((part.database, part.table))
            if table is not None and part.first_seq <= last and part.last_seq >= first:
                yield from _rows(rows, part, table, first, last)


def _ordinals(segment: LandedSegment, part_of: Range) -> tuple[int, int]:
    """The ordinals of the first and the last commit of a range."""
    before = segment.summary.first_seq
    begin, end = (segment.index.count_below("begin", offset) for offset in (part_of.begin, part_of.end))
    return before + begin, before + end - 1


def _rows(
    rows: SegmentRows, part: LandedPart, table: PlannedVersion, first: int, last: int
) -> Iterator[ChangeBatch | QuarantinedRows]:
    definition = definition_from_json(rows.contents.definitions[part.definition])
    for batch in rows.batches(part):
        seqs = ChangeColumns(batch).fact("_seq").to_numpy()
        begin, end = (int(at) for at in np.searchsorted(seqs, (first, last + 1), side="left"))
        if begin == end:
            continue
        some = _numbered(batch.slice(begin, end - begin), table.version_id)
        if part.error is not None:
            why = part.error
            error = SchemaMismatchError(why.message, remedy=why.remedy, table=str(table.name)).across(why.crossing)
            at = placed(error, some).located(commit_ts=rows.commit_ts(int(seqs[begin])))
            yield QuarantinedRows(table.name, table.version_id, definition, at, some)
            continue
        if definition != table.read_definition():
            raise SchemaMismatchError(
                f"the landed rows have another version than {table.version_id}, which the plan names",
                table=str(table.name),
                file=rows.url,
                remedy="Report it with the output of `strata schema history`: nothing of the slice was published.",
            )
        yield ChangeBatch(table.name, table.version_id, definition, some)


def _numbered(batch: pa.RecordBatch, version: int) -> pa.RecordBatch:
    """Rows with the store's id of their version."""
    columns = batch.columns
    columns[ChangeColumns(batch).index("_schema_version")] = repeated_number(version, batch.num_rows, pa.int64())
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
