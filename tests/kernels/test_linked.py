"""The library of linked kernels: there after set-up, whole, and left to the compiler where it does not fit."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest

from scripts.startup.kernel_arguments import ArgumentGroup, Array, Number, read_annotation
from strata_cdc.binlog.kernels.crc import CRC_TABLES, crc32
from strata_cdc.binlog.kernels.jit import compile_now
from strata_cdc.binlog.kernels.nulls import count_nulls
from strata_cdc.startup.linked import library_paths, linked_kernels
from strata_cdc.startup.processor import has_checked_bounds, is_plain_python

linked = linked_kernels(compile_now)
needs_library = pytest.mark.skipif(
    is_plain_python()
    or has_checked_bounds()
    or library_paths() is None
    or not (shutil.which("cc") or shutil.which("ld")),
    reason="nothing to link with here, or another mode",
)

NO_COMPILER = """
import sys
from strata_cdc.cli.main import run
code = run(["decode", "scripts/startup/warm/every_type.binlog", "--format", "parquet", "--out", sys.argv[1]])
assert code == 0
import strata_cdc.landing.land_binlog
loaded = {"numba", "llvmlite", "pandas"} & set(sys.modules)
assert not loaded, loaded
"""


@needs_library
def test_decoding_and_landing_load_no_compiler(tmp_path):
    assert linked, "`make setup` links the kernels"
    subprocess.run([sys.executable, "-c", NO_COMPILER, str(tmp_path)], check=True)


@needs_library
def test_arguments_that_the_library_has_no_code_for_are_compiled_for():
    rows = np.array([0, 5, 0, 0, 7, 0], np.uint32)
    assert count_nulls(rows) == 4
    assert count_nulls(rows[::2]) == 2
    assert count_nulls(rows.astype(np.int64)) == 4
    rows.flags.writeable = False
    assert count_nulls(rows) == 4


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 65, 1000])
def test_numbers_of_any_kind_are_taken(size):
    data = np.arange(size).astype(np.uint8)
    assert crc32(CRC_TABLES, data, np.int64(0), np.uint8(size) if size < 256 else size, 0) == zlib.crc32(data)


def test_an_annotation_has_a_choice_for_each_type_it_leaves_open():
    assert read_annotation("Int") == [Number()]
    assert read_annotation("Integers") == [Array(kind, 1) for kind in ("int8", "int16", "int32", "int64")]
    [group] = read_annotation("tuple[Int, CodePoints]")
    assert group == ArgumentGroup((Number(), Array("int32", 1)))
    assert group.names("a") == ["a_0of", "a_1of", "a_1of_0"]
    assert group.rebuilt("a") == "(a_0of, carray(a_1of, (a_1of_0, ), int32), )"
    assert group.handed("a") == ["a[0]", "memory(a[1])", "len(a[1])"]
    with pytest.raises(KeyError):
        read_annotation("Anything")
