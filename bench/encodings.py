"""Parquet's encodings and compressions by what is in a column: what writing, reading and keeping a value costs.

Run it: `python -m bench encodings [ROWS] [COLUMN...]` (default: 100,000 rows, all columns). Each column is a file of
its own, in one row group; a cell has CPU nanoseconds of a value to write, to read by Arrow and to read by DuckDB, both
in one thread, and its bytes in the file. `tables/encodings.py` chooses by this.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator

ROUNDS = 7
AS_INTEGERS = "as integers,"
COMPRESSIONS: Final[tuple[tuple[str, int | None], ...]] = (
    ("none", None),
    ("lz4", None),
    ("zstd", -1),
    ("zstd", 1),
    ("zstd", 3),
)
_BYTES = ("PLAIN", "dictionary", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
_INTEGERS = ("PLAIN", "dictionary", "DELTA_BINARY_PACKED")
_FIXED = ("PLAIN", "dictionary", "BYTE_STREAM_SPLIT")


def main(arguments: list[str]) -> None:
    """Prints a line for each column and encoding."""
    rows = int(arguments[0]) if arguments else 100_000
    print(f"\n{rows:,} rows; ns a value to write, to read by Arrow, by DuckDB; bytes a value\n")
    print(
        "| column | encoding |" + "".join(f" {name} {level or ''} |".replace("  ", " ") for name, level in COMPRESSIONS)
    )
    print("|---|---|" + "---|" * len(COMPRESSIONS))
    for name, make in COLUMNS.items():
        if arguments[1:] and name not in arguments[1:]:
            continue
        column = make(rows, np.random.default_rng(7))
        for encoding in _encodings(column.type):
            cells = (_cell(column, encoding, *compression) for compression in COMPRESSIONS)
            print(f"| {name} | {encoding} | " + " | ".join(cells) + " |", flush=True)


def _encodings(kind: pa.DataType) -> tuple[str, ...]:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _BYTES
    if pa.types.is_decimal(kind):
        return (*_BYTES[:2], f"{AS_INTEGERS} PLAIN", f"{AS_INTEGERS} DELTA_BINARY_PACKED")
    return _FIXED if pa.types.is_floating(kind) else _INTEGERS


def _cell(column: pa.Array, encoding: str, compression: str, level: int | None) -> str:
    table = pa.table({"c": column})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.parquet"

        def write() -> None:
            pq.write_table(
                table,
                path,
                compression=compression,
                compression_level=level,
                use_dictionary=encoding == "dictionary",
                column_encoding=None if encoding == "dictionary" else {"c": encoding.rpartition(" ")[2]},
                store_decimal_as_integer=encoding.startswith(AS_INTEGERS),
                write_statistics=False,
                row_group_size=len(column),
            )

        wrote = _cpu(write)
        read = _cpu(lambda: pq.read_table(path, use_threads=False, pre_buffer=False, memory_map=True))
        with duckdb.connect(config={"threads": 1}) as connection:
            query = f"SELECT count(*) FROM read_parquet('{path}') WHERE c IS NULL"
            queried = _cpu(lambda: connection.execute(query).fetchall())
        size = path.stat().st_size
    costs = " ".join(f"{1e9 * seconds / len(column):.0f}" for seconds in (wrote, read, queried))
    return f"{costs}; {size / len(column):.2f}"


def _cpu(work: Callable[[], Any]) -> float:
    """CPU seconds, the least of some rounds: what other work on the machine adds is no part of it."""
    found = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def _digits(rows: int, generator: Generator, groups: int) -> pa.Array:
    numbers = generator.integers(0, 10**11, (rows, groups))
    return pa.array(["-".join(f"{one:011d}" for one in row) for row in numbers.tolist()])


def _documents(rows: int, generator: Generator) -> pa.Array:
    totals, skus = generator.integers(0, 10_000, rows), generator.integers(0, 1 << 32, rows)
    return pa.array(
        [
            f'{{"lines": [{{"n": {at % 9}, "sku": "{sku:08x}"}}, "gift"], "order": {at}, "total": {total}}}'
            for at, (total, sku) in enumerate(zip(totals.tolist(), skus.tolist(), strict=True))
        ]
    )


def _uuids(rows: int, generator: Generator) -> list[uuid.UUID]:
    return [uuid.UUID(bytes=generator.bytes(16)) for _ in range(rows)]


def _decimals(rows: int, generator: Generator) -> pa.Array:
    cents = generator.integers(0, 10**7, rows).tolist()
    return pa.array([f"{one / 100:.2f}" for one in cents]).cast(pa.decimal128(18, 4))


def _moments(steps: Any) -> pa.Array:
    return pa.array(1_795_000_000_000_000 + steps, pa.timestamp("us", tz="UTC"))


COLUMNS: Final[dict[str, Callable[[int, Generator], pa.Array]]] = {
    "integers that rise": lambda rows, of: pa.array(np.cumsum(of.integers(1, 4, rows)), pa.int64()),
    "integers that rise, 32 bits": lambda rows, of: pa.array(np.cumsum(of.integers(1, 4, rows)), pa.int32()),
    "random of 1,000,000, 32 bits": lambda rows, of: pa.array(of.integers(0, 1_000_000, rows), pa.int32()),
    "random, 64 bits": lambda rows, of: pa.array(of.integers(-(1 << 62), 1 << 62, rows), pa.int64()),
    "amounts, most of them small": lambda rows, of: pa.array((of.pareto(1.2, rows) * 10).astype(np.int32), pa.int32()),
    "few integers": lambda rows, of: pa.array(of.integers(0, 6, rows), pa.int8()),
    "an integer, the same": lambda rows, _: pa.array(np.full(rows, 17), pa.int64()),
    "commit times, a row each": lambda rows, of: _moments(np.cumsum(of.integers(1, 400, rows))),
    "commit times, of 5,000 rows": lambda rows, _: _moments(np.arange(rows) // 5000 * 2_000_000),
    "random moments": lambda rows, of: _moments(of.integers(-(10**15), 10**15, rows)),
    "random seconds": lambda rows, of: _moments(of.integers(-(10**9), 10**9, rows) * 1_000_000),
    "random days": lambda rows, of: pa.array(of.integers(0, 20_000, rows).astype(np.int32), pa.date32()),
    "random doubles": lambda rows, of: pa.array(of.random(rows)),
    "prices, doubles": lambda rows, of: pa.array(np.round(of.random(rows) * 100, 2)),
    "prices, DECIMAL(18,4)": _decimals,
    "few texts": lambda rows, of: pa.array(np.array(["new", "paid", "sent", "gone"])[of.integers(0, 4, rows)]),
    "short texts": lambda rows, of: pa.array(
        [f"customer {one} of town" for one in of.integers(0, 10**6, rows).tolist()]
    ),
    "sentences": lambda rows, of: pa.array(
        [f"a note of some length about order {one}, which nobody reads" for one in of.integers(0, 10**6, rows).tolist()]
    ),
    "names, 5,000 of them": lambda rows, of: pa.array(
        [sha256(str(one).encode()).hexdigest()[:12] for one in of.integers(0, 5000, rows).tolist()]
    ),
    "digits, 119": lambda rows, of: _digits(rows, of, 10),
    "UUIDs as text": lambda rows, of: pa.array([str(one) for one in _uuids(rows, of)]),
    "UUIDs as bytes": lambda rows, of: pa.array([one.bytes for one in _uuids(rows, of)], pa.binary()),
    "JSON": _documents,
    "GTIDs, a row each": lambda rows, of: pa.array(
        [f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{one}" for one in np.cumsum(of.integers(1, 16, rows)).tolist()]
    ),
}
