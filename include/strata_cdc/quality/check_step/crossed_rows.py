"""Rows whose data are of another schema than the one valid where they are, as warnings of a verdict: by table, DDL and
case, with both positions.
Not here: finding them (`changes/crossing.py`, `ticdc/crossed_rows.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from strata_cdc.errors import Crossing
from strata_cdc.runs.verdict import Failure
from strata_cdc.schema.model.quadrants import crossed_line
from strata_cdc.store.full_names import full_name
from strata_cdc.ticdc.crossed_rows import crossed_in
from strata_cdc.ticdc.landed_slice import has_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.errors import Location
    from strata_cdc.runs.run_folder import DecodedRun
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.runs.specs import Interval


def crossed_rows(plan: RunPlan, interval: Interval, decoded: DecodedRun) -> Iterator[Failure]:
    """The rows of an interval that lie across a DDL. Of a binlog they are all in quarantine; of a TiCDC sink they are
    published where they are exact.

    Raises:
        DamagedFileError: A landed segment is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    mine = [planned_slice for planned_slice in plan.slices if planned_slice.interval_start == interval.start]
    planned = {(table.database, table.table) for table in plan.of_interval(interval)}
    if not any(has_rows(planned_slice.segment) for planned_slice in mine):
        yield from _of_binlog(decoded, interval)
        return
    for total in crossed_in(mine, interval.after_seq + 1, interval.last_seq):
        if (total.database, total.table) in planned:
            yield _across(full_name(total.database, total.table), total.rows, total.crossing, total.row)


def _of_binlog(decoded: DecodedRun, interval: Interval) -> Iterator[Failure]:
    rows = Counter[tuple[str, Crossing]]()
    first: dict[tuple[str, Crossing], Location] = {}
    for file in sorted(decoded.unreadable(interval.start), key=lambda file: file.min_seq):
        why = file.why
        if why.crossing is not None:
            key = (full_name(file.database, file.table), why.crossing)
            rows[key] += file.rows
            first.setdefault(key, why.location)
    for (table, crossing), count in rows.items():
        yield _across(table, count, crossing, first[table, crossing])


def _across(table: str, rows: int, crossing: Crossing, row: Location | None) -> Failure:
    return Failure.warning(table, "rows_have_the_valid_schema", crossed_line(rows, crossing, row), rows)
