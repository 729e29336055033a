"""Statistics of a Parquet file in the form of Delta's log (Delta protocol, "Per-file Statistics").
Not here: the bounds of row groups, which the writer makes (`row_groups.py`)."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from strata_cdc.errors import DamagedFileError
from strata_cdc.tables.layout import INTERVAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

_STATISTICS_OF = (pa.types.is_integer, pa.types.is_date)
"""Columns of these types get minimum and maximum in Delta's log; other types need rounding rules of their own."""


def delta_statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """Statistics of a file, from those of its row groups.

    Only columns at the top level whose bounds need no rounding have them; nested columns and texts have none.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    arrow = footer.schema.to_arrow_schema()
    wanted = {
        field.name for field in arrow if field.name != INTERVAL and any(test(field.type) for test in _STATISTICS_OF)
    }
    for group in range(footer.num_row_groups):
        for at in range(footer.num_columns):
            column = footer.row_group(group).column(at)
            name, bounds = column.path_in_schema, column.statistics
            is_nested = footer.schema.column(at).max_definition_level > 1
            if name not in wanted or is_nested or bounds is None or not bounds.has_null_count:
                continue
            nulls[name] = nulls.get(name, 0) + bounds.null_count
            if bounds.has_min_max:
                low[name] = min(low.get(name, bounds.min), bounds.min)
                high[name] = max(high.get(name, bounds.max), bounds.max)
    return {
        "numRecords": footer.num_rows,
        "minValues": {name: _as_json(value) for name, value in low.items()},
        "maxValues": {name: _as_json(value) for name, value in high.items()},
        "nullCount": nulls,
    }


def pack_statistics(stats: dict[str, Any]) -> bytes:
    """Statistics as JSON, compressed: a run may have hundreds of thousands of files, and most of what it says of them
    is statistics."""
    return zlib.compress(json.dumps(stats).encode(), 1)


def unpack_statistics(packed: bytes, file: str) -> str:
    """The JSON that was packed; of a file, path or URL, for errors.

    Raises:
        DamagedFileError: Something else was packed, or changed since.
    """
    try:
        return zlib.decompress(packed).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise DamagedFileError(
            f"its stored statistics have been changed: {error}",
            file=file,
            remedy="Decode the run again (task `decode`): it gives the same files.",
        ) from None


def renamed_statistics(stats: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The same statistics for a file whose columns have other names."""
    return {
        key: {names.get(name, name): bound for name, bound in value.items()} if isinstance(value, dict) else value
        for key, value in stats.items()
    }


def _as_json(value: Any) -> Any:
    return value if isinstance(value, int) else value.isoformat()
