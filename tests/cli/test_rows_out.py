"""Parquet output of many tables: all rows are there, and memory does not grow with the number of tables."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.dataset as ds

from strata.cli import rows_out
from strata.cli.main import run
from strata.rows.decode import ChangeBatch
from strata.schema.model import Column, TableDefinition, TableName
from tests.events.test_transactions import MIXED

DEFINITION = TableDefinition((Column("a", "bigint", True, None),))
TABLES, ROUNDS, ROWS = 20, 30, 100


def test_what_is_held_of_all_tables_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_out, "MOST_HELD_BYTES", 10_000)
    output = rows_out.ParquetOutput(str(tmp_path), "test")
    with output:
        for number in range(ROUNDS):
            for table in range(TABLES):
                batch = pa.record_batch({"a": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
                output.take(ChangeBatch(TableName("d", f"t{table}"), 1, DEFINITION, batch))
                held = sum(writer.held_bytes for writer in output._writers.values())
                assert held == output._held_bytes <= 10_000
    for table in range(TABLES):
        found = ds.dataset(tmp_path / "d" / f"t{table}").to_table().column("a").to_pylist()
        assert found == list(range(ROUNDS * ROWS))


def test_a_full_disk_is_said_in_one_line(capsys):
    assert run(["decode", str(MIXED), "--out", "/dev/full", "--format", "jsonl", "--json"]) == 3
    error = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (error["error"], error["file"]) == ("LakeUnavailableError", "/dev/full")
