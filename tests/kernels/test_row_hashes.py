"""Hashes of Arrow columns are the same wherever the values lie in memory: cut, empty, all NULL, over NumPy's memory,
over bytes that were read; and while several threads hash columns."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from strata_cdc.arrow_columns import to_numbers, to_texts
from strata_cdc.changes.row_hashes import hash_rows

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 60
SECONDS = float(os.environ.get("STRATA_HASH_SECONDS", "0"))
"""More than `ROUNDS`, for a soak."""
VALUES: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.int8(): lambda rng: rng.randrange(-128, 128),
    pa.int16(): lambda rng: rng.randrange(-(1 << 15), 1 << 15),
    pa.int32(): lambda rng: rng.randrange(-(1 << 31), 1 << 31),
    pa.int64(): lambda rng: rng.randrange(-(1 << 63), 1 << 63),
    pa.float64(): lambda rng: rng.random(),
    pa.decimal128(30, 4): lambda rng: Decimal(rng.randrange(10**20)) / 10000,
    pa.bool_(): lambda rng: rng.random() < 0.5,
    pa.string(): lambda rng: "é" * rng.choice((0, 1, 4, 8, 17, 300)),
    pa.binary(): lambda rng: rng.randbytes(rng.choice((0, 7, 8, 9, 15, 16, 31, 32, 33, 700))),
    pa.list_(pa.float32()): lambda rng: [float(at) for at in range(rng.randrange(4))],
    pa.struct([("a", pa.int32()), ("b", pa.binary())]): lambda rng: {"a": rng.randrange(9), "b": rng.randbytes(9)},
}


def drawn(rng: random.Random, kind: pa.DataType, count: int) -> list[Any]:
    nulls = rng.choice((0.0, 0.3, 1.0))
    return [None if rng.random() < nulls else VALUES[kind](rng) for _ in range(count)]


def read_back(column: pa.Array) -> pa.Array:
    """The column over the bytes of an Arrow stream, as the rows of a landed segment are."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([column], names=["c"])
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    with pa.ipc.open_stream(sink.getvalue().to_pybytes()) as reader:
        return next(iter(reader)).column(0)


def elsewhere(rng: random.Random, kind: pa.DataType, values: list[Any]) -> list[pa.Array | pa.ChunkedArray]:
    """The same values in other memory."""
    before, after = (drawn(rng, kind, rng.randrange(20)) for _ in range(2))
    whole = pa.array([*before, *values, *after], kind)
    cut = whole.slice(len(before), len(values))
    at = rng.randrange(len(values) + 1)
    found = [
        cut,
        pa.chunked_array([cut.slice(0, at), cut.slice(at)], kind),
        read_back(cut),
        read_back(whole)[len(before) :][: len(values)],
    ]
    if kind == pa.string():
        found.append(to_texts(values))
    if kind == pa.int64():
        numbers = np.array([value or 0 for value in values], np.int64)
        found.append(to_numbers(numbers, np.array([value is None for value in values], np.bool_)))
    if pa.types.is_list(kind):
        entries = pa.array([1.0, 2.0, *cut.flatten().to_pylist()], pa.float32())[2:]
        lengths = [len(value or ()) for value in values]
        offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
        mask = pa.array([value is None for value in values], pa.bool_())
        found.append(pa.ListArray.from_arrays(offsets, entries, mask=mask))
    return found


def one_round(seed: int) -> int:
    rng = random.Random(seed)
    count, compared = rng.choice((0, 1, 7, 8, 9, 63, 64, 65, 500)), 0
    for kind in VALUES:
        values = drawn(rng, kind, count)
        expected = hash_rows([pa.array(values, kind)], count)
        for column in elsewhere(rng, kind, values):
            assert np.array_equal(hash_rows([column], count), expected), (seed, kind)
            compared += 1
    return compared


def test_hashes_do_not_depend_on_where_values_lie() -> None:
    """Several threads at once, as files are checked."""
    seeds, until = iter(range(1 << 40)), time.monotonic() + SECONDS
    # NumPy's error state is of a thread, and kernels as plain Python count on wrapping numbers (`conftest.py`).
    with ThreadPoolExecutor(4, initializer=partial(np.seterr, over="ignore")) as pool:
        while True:
            assert all(pool.map(one_round, [next(seeds) for _ in range(ROUNDS)]))
            if time.monotonic() >= until:
                return
