"""Columns that are called like ours, or have a dot in their name: Parquet files that everybody can read."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from strata_cdc.cli.main import run
from strata_cdc.tables.layout import METADATA, column_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

ROWS = 200
NAMES = (*METADATA, "__op", "_GTID", "c", "_before.c", "a.b")


@pytest.mark.mysql
@pytest.mark.parametrize("kind", ["INT", "VARCHAR(64)"])
def test_columns_of_any_name(mysql_server: MysqlServer, tmp_path: Path, kind: str):
    names = [name for name in NAMES if name != "_gtid"]  # beside _GTID
    values = [at if kind == "INT" else sha256(str(at).encode()).hexdigest() for at in range(ROWS)]
    connection = mysql_server.connect()
    with connection.cursor() as cursor:
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("CREATE DATABASE d")
        cursor.execute(f"CREATE TABLE d.t (id INT PRIMARY KEY, {', '.join(f'`{name}` {kind}' for name in names)})")
        insert = f"INSERT INTO d.t VALUES ({', '.join(['%s'] * (len(names) + 1))})"
        cursor.executemany(insert, [(at, *[value] * len(names)) for at, value in enumerate(values)])
        connection.commit()
        cursor.execute("UPDATE d.t SET id = id + %s", (ROWS,))
        connection.commit()
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DROP DATABASE d")
    connection.close()
    assert run(["decode", str(mysql_server.binlogs()[0]), "--out", str(tmp_path), "--format", "parquet"]) == 0
    (path,) = (tmp_path / "d" / "t").iterdir()
    found = pq.read_table(path)
    assert len({name.casefold() for name in found.column_names}) == len(found.column_names)
    assert found["_op"].to_pylist() == ["insert"] * ROWS + ["update"] * ROWS
    for name in names:
        assert found[column_name(name)].to_pylist() == values * 2
        assert [row and row[column_name(name)] for row in found["_before"].to_pylist()] == [None] * ROWS + values
