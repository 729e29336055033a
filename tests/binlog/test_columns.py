"""Columns to Arrow and back, with Arrow's own conversions as the witness."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.arrow_columns import from_numbers, repeated_number, repeated_text, to_numbers, to_texts

NUMBERS = st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.none(), max_size=40)


@given(NUMBERS, st.sampled_from((np.int64, np.int32)), st.integers(0, 9), st.integers(0, 40))
def test_numbers(values, dtype, begin, length):
    nulls = np.array([value is None for value in values], np.bool_)
    plain = np.array([value or 0 for value in values], dtype)
    column = to_numbers(plain, nulls)
    column.validate(full=True)
    assert column.equals(pa.array(values, column.type))
    assert to_numbers(plain).to_pylist() == plain.tolist()
    piece = column.slice(begin, length)
    assert from_numbers(piece, -7).tolist() == [-7 if value is None else value for value in piece.to_pylist()]
    assert from_numbers(piece).dtype == np.int64


@given(st.lists(st.text() | st.none(), max_size=20))
def test_texts(texts):
    column = to_texts(texts)
    column.validate(full=True)
    assert column.equals(pa.array(texts, pa.string()))


@given(st.text(), st.integers(0, 40))
def test_the_same_text_again_and_again(text, count):
    assert repeated_text(text, count).equals(pa.array([text] * count, pa.string()))


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.none(), st.integers(0, 40))
def test_the_same_number_again_and_again(number, count):
    for kind in (pa.int64(), pa.timestamp("us", tz="UTC")):
        assert repeated_number(number, count, kind).equals(pa.array([number] * count, pa.int64()).cast(kind))


LOOK_UP = """
import sys
from pathlib import Path
from strata_cdc.landing.landed import landing_folder
from strata_cdc.landing.repair import repair_landing
from strata_cdc.progress.find_position import find_position
from tests.binlog.binlogs import Binlog
binlog = Binlog()
binlog.previous()
binlog.insert(1, [1], micros=5)
folder = Path(sys.argv[1], "landing", "s")
folder.mkdir(parents=True)
(folder / "0000000001-b.000001-000000000157.binlog").write_bytes(binlog.data)
repair_landing(landing_folder(sys.argv[1], "s"))
point = find_position(sys.argv[1], "s", time=6)
find_position(sys.argv[1], "s", gtid_set=point.gtid_executed)
find_position(sys.argv[1], "s", file=point.binlog_position)
print(point.seq, sorted({"pandas", "scipy", "sqlalchemy", "deltalake"} & set(sys.modules)))
"""


def test_indexes_are_written_and_read_without_pandas(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOOK_UP, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "1 []\n"
