"""Whether the bounds of values in a file's footer are true: readers skip files and row groups by them.
Not here: making such statistics (`tables/statistics.py`)."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.quality.checks.profile import FileFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

CHECK = "statistics_are_true"
_EPOCH = date(1970, 1, 1).toordinal()


class FileBounds:
    """The least and the greatest value of each column of a file, beside the bounds in the file."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._low: dict[str, Any] = {}
        self._high: dict[str, Any] = {}
        self._nulls: dict[str, int] = {}
        self._rows = 0

    def add(self, batch: pa.RecordBatch, group: pq.RowGroupMetaData) -> None:
        """Compares a row group with its own statistics."""
        self._rows += batch.num_rows
        stated = {group.column(at).path_in_schema: group.column(at).statistics for at in range(group.num_columns)}
        for field, column in zip(batch.schema, batch.columns, strict=True):
            statistics = stated.get(field.name)
            if statistics is None or not (statistics.has_min_max or statistics.has_null_count):
                continue
            low, high = _least_and_most(column)
            self._note(field.name, low, high, column.null_count)
            if statistics.has_null_count and statistics.null_count != column.null_count:
                self.wrong.append(
                    f"{field.name} has {column.null_count} NULLs, its footer says {statistics.null_count}"
                )
            if statistics.has_min_max and low is not None and not _holds(_stated(statistics), (low, high)):
                self.wrong.append(f"{field.name} has values outside of the bounds in its footer")

    def _note(self, name: str, low: Any, high: Any, nulls: int) -> None:
        self._nulls[name] = self._nulls.get(name, 0) + nulls
        if low is not None:
            self._low[name] = min(self._low.get(name, low), low)
            self._high[name] = max(self._high.get(name, high), high)

    def fault(self, stats: str) -> FileFault | None:
        """What is not true.

        Args:
            stats: The file's statistics as Delta's log is to have them (JSON); empty for none.
        """
        wrong = [*self.wrong, *(self._wrong_in(json.loads(stats)) if stats else ())]
        if not wrong:
            return None
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return FileFault(CHECK, f"what a staged file says of its values is not true: {wrong[0]}{more}", self._rows)

    def _wrong_in(self, stats: dict[str, Any]) -> Iterator[str]:
        if stats.get("numRecords") != self._rows:
            yield f"it has {self._rows} rows, its statistics say {stats.get('numRecords')}"
        for name, nulls in stats.get("nullCount", {}).items():
            if nulls != self._nulls.get(name, nulls):
                yield f"{name} has {self._nulls[name]} NULLs, its statistics say {nulls}"
        lows, highs = stats.get("minValues", {}), stats.get("maxValues", {})
        for name in sorted(self._low.keys() & lows.keys() & highs.keys()):
            if _number(lows[name]) > self._low[name] or _number(highs[name]) < self._high[name]:
                yield f"{name} has values outside of the bounds in its statistics"


def _number(bound: Any) -> Any:
    """A bound of Delta's log; dates as days since 1970."""
    return date.fromisoformat(bound).toordinal() - _EPOCH if isinstance(bound, str) else bound


def _least_and_most(column: pa.Array) -> tuple[Any, Any]:
    """As numbers: Python has no dates before the year 1."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.view(pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    bounds = pc.min_max(column)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _stated(statistics: Any) -> tuple[Any, Any]:
    if statistics.physical_type in {"INT32", "INT64"} and statistics.logical_type.type != "DECIMAL":
        return statistics.min_raw, statistics.max_raw
    return statistics.min, statistics.max


def _holds(stated: tuple[Any, Any], actual: tuple[Any, Any]) -> bool:
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (*stated, *actual)):
        return True
    return bool(stated[0] <= actual[0] and stated[1] >= actual[1])
