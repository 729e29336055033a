"""Delta tables as other programs read them.
Not here: what must hold (the tests beside this file)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def by_deltalake(url: str, version: int | None) -> pa.Table:
    table = DeltaTable(url, version=version)
    return pa.table(QueryBuilder().register("mirror", table).execute("SELECT * FROM mirror").read_all())


def by_duckdb(url: str, version: int | None) -> pa.Table:
    package = importlib.util.find_spec("duckdb_ext")
    assert package is not None
    assert package.submodule_search_locations is not None
    (extension,) = Path(package.submodule_search_locations[0]).rglob("delta.duckdb_extension")
    assert version is None, "this extension reads the newest version alone"
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        (count,) = connection.execute(f"SELECT count(*) FROM delta_scan('{url}')").fetchone() or (None,)
        found = pa.table(connection.execute(f"SELECT * FROM delta_scan('{url}')").arrow())
    assert count == found.num_rows
    return found


def by_polars(url: str, version: int | None) -> pa.Table:
    scan = pl.scan_delta(url, version=version)
    found = scan.collect().to_arrow()
    assert scan.select(pl.len()).collect().item() == found.num_rows
    return found


READERS = (by_deltalake, by_duckdb, by_polars)
