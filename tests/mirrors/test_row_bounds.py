"""Row groups are left out only if none of their rows has a wanted value; dead rows keep their numbers."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata_cdc.errors import DamagedFileError
from strata_cdc.mirrors.actions import LiveFile
from strata_cdc.mirrors.data_files import read_file_rows
from strata_cdc.mirrors.row_bounds import row_groups_within

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.mirrors.row_bounds import Ranges

ROWS, GROUP = 100, 8
SCHEMA = pa.schema([("id", pa.int64()), ("big", pa.uint64()), ("text", pa.string()), ("later", pa.int32())])


def written(folder: Path, random: Random, *, has_bounds: bool) -> pa.Table:
    """A file with nearly sorted numbers; it lacks the column `later`."""
    numbers = [number + random.randrange(-5, 5) for number in range(ROWS)]
    rows = pa.table(
        {
            "id": pa.array([None if random.random() < 0.1 else number for number in numbers], pa.int32()),
            "big": pa.array([(1 << 63) + number for number in numbers], pa.uint64()),
            "text": [str(number) for number in numbers],
        }
    )
    pq.write_table(rows, folder / "f.parquet", row_group_size=GROUP, write_statistics=has_bounds)
    return rows


@pytest.mark.parametrize("has_bounds", [True, False])
def test_wanted_rows_are_never_left_out(tmp_path: Path, *, has_bounds: bool) -> None:
    random, left_out = Random(1), 0
    for _ in range(60):
        rows = written(tmp_path, random, has_bounds=has_bounds)
        dead = np.array(sorted(random.sample(range(ROWS), 20)), np.int64)
        alive = rows.filter(pa.array(~np.isin(np.arange(ROWS), dead)))
        low = random.randrange(-10, ROWS + 10)
        ranges: Ranges = random.choice([((low, low),), ((low, low + 9), (3, 3)), ((None, low),), ((low, None),)])
        name, base = random.choice([("id", 0), ("big", 1 << 63)])
        within = {name: tuple((_plus(one, base), _plus(other, base)) for one, other in ranges)}
        file = LiveFile("f.parquet", 1, ROWS, 0)
        parts = read_file_rows(str(tmp_path), file, SCHEMA, dead, within=within, rows_at_once=5)
        found = pa.concat_tables([SCHEMA.empty_table(), *parts])
        left_out += alive.num_rows - found.num_rows
        kept = [[row[name] for row in table.to_pylist() if _is_in(row[name], within[name])] for table in (found, alive)]
        assert kept[0] == kept[1]
        assert set(found["text"].to_pylist()) <= set(alive["text"].to_pylist())
        assert found["later"].null_count == found.num_rows
    assert (left_out > 1000) is has_bounds


def _plus(value: int | None, base: int) -> int | None:
    return None if value is None else max(value + base, 0 if base else value)


def _is_in(value: int | None, ranges: Ranges) -> bool:
    return value is not None and any(
        (low is None or low <= value) and (high is None or value <= high) for low, high in ranges
    )


def test_columns_of_other_types_leave_nothing_out(tmp_path: Path) -> None:
    written(tmp_path, Random(2), has_bounds=True)
    every = list(range(-(-ROWS // GROUP)))
    with pq.ParquetFile(tmp_path / "f.parquet") as parquet:
        for name in ("text", "nothing"):
            assert row_groups_within(parquet, {name: ((5, 5),)}) == every
        assert row_groups_within(parquet, {"id": ((1000, None),)}) == []


def test_a_file_with_other_rows_is_damaged_whatever_is_wanted(tmp_path: Path) -> None:
    written(tmp_path, Random(3), has_bounds=True)
    file = LiveFile("f.parquet", 1, ROWS + 1, 0)
    with pytest.raises(DamagedFileError, match="has 100 rows, not 101"):
        list(read_file_rows(str(tmp_path), file, SCHEMA, np.empty(0, np.int64), within={"id": ((1000, None),)}))
