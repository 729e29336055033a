"""Parquet output of many tables: all rows are there, and memory does not grow with the number of tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.cli import rows_out
from strata_cdc.cli.main import run
from strata_cdc.errors import SchemaMismatchError
from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from strata_cdc.tables.limits import FileLimits
from tests.binlog.test_transactions import MIXED
from tests.tables.changes import changes

REPOSITORY = Path(__file__).resolve().parents[2]
DEFINITION = TableDefinition((Column("a", "bigint", True, None),))
TABLES, ROUNDS, ROWS = 20, 30, 100


def test_what_is_held_of_all_tables_is_bounded(tmp_path):
    output = rows_out.ParquetOutput(str(tmp_path), most_bytes=10_000)
    with output:
        for number in range(ROUNDS):
            for table in range(TABLES):
                batch = pa.record_batch({"a": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
                output.write(ChangeBatch(TableName("d", f"t{table}"), 1, DEFINITION, batch))
                held = sum(gathered.groups.held_bytes for gathered in output._gathered.values())
                assert held == output._held_bytes <= 10_000
    for table in range(TABLES):
        assert rows_in_order(tmp_path / "d" / f"t{table}") == list(range(ROUNDS * ROWS))


@pytest.mark.parametrize("rows", [1, ROWS, 2 * ROWS, 7 * ROWS])
def test_files_in_the_order_of_their_names_are_the_stream(tmp_path, rows):
    for _ in ("once", "and again, over what is there"):
        write_one_table(tmp_path, rows, FileLimits(row_group_rows=2 * ROWS))
        assert rows_in_order(tmp_path / "d" / "t") == list(range(rows))
    # Another run with fewer files leaves none of those behind.
    write_one_table(tmp_path, rows, FileLimits(row_group_rows=100 * ROWS))
    assert [path.name for path in (tmp_path / "d" / "t").iterdir()] == ["version-1.parquet"]
    assert rows_in_order(tmp_path / "d" / "t") == list(range(rows))


def write_one_table(folder, rows, limits):
    with rows_out.ParquetOutput(str(folder), limits) as output:
        for begin in range(0, rows, ROWS):
            batch = pa.record_batch({"a": pa.array(range(begin, min(begin + ROWS, rows)), pa.int64())})
            output.write(ChangeBatch(TableName("d", "t"), 1, DEFINITION, batch))


def rows_in_order(folder):
    return [row for path in sorted(folder.iterdir()) for row in pq.read_table(path)["a"].to_pylist()]


@pytest.mark.parametrize(
    ("kind", "place"), [(rows_out.JsonlOutput, "out.quarantine"), (rows_out.ParquetOutput, "out/quarantine.jsonl")]
)
def test_rows_in_quarantine_are_counted_by_table_with_their_place(tmp_path, kind, place):
    error = SchemaMismatchError("another shape", table="d.t")
    with kind(str(tmp_path / "out")) as output:
        for table, count in (("t", 1), ("u", 2), ("u", 1)):
            rows = changes({"a": pa.int64()}, [{"op": "insert", "after": {"a": at}} for at in range(count)]).batch
            output.write(QuarantinedRows(TableName("d", table), 1, DEFINITION, error, rows))
    assert output.report() == {
        "rows": 0,
        "quarantined": 4,
        "quarantined_rows_of": ["d.u: 3", "d.t: 1"],
        "quarantined_because": [
            "d.u: 3, another shape (SchemaMismatchError)",
            "d.t: 1, another shape (SchemaMismatchError)",
        ],
        "quarantine": str(tmp_path / place),
    }
    lines = [json.loads(line) for line in (tmp_path / place).read_text().splitlines()]
    assert sorted((line["table"], line["after"]["a"], line["quarantined"]) for line in lines) == [
        ("t", 0, "another shape"),
        ("u", 0, "another shape"),
        ("u", 0, "another shape"),
        ("u", 1, "another shape"),
    ]


def test_rows_in_quarantine_beside_standard_output_are_said_to_be_nowhere():
    with rows_out.JsonlOutput("-") as output:
        rows = changes({"a": pa.int64()}, [{"op": "insert", "after": {"a": 1}}]).batch
        output.write(QuarantinedRows(TableName("d", "t"), 1, DEFINITION, SchemaMismatchError("x"), rows))
    assert output.report()["quarantine"].startswith("nowhere")


def test_a_full_disk_is_said_in_one_line(capsys):
    assert run(["decode", str(MIXED), "--out", "/dev/full", "--format", "jsonl", "--json"]) == 3
    error = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (error["error"], error["file"]) == ("LakeUnavailableError", "/dev/full")


def test_a_pattern_that_matches_nothing_is_told(tmp_path, capsys):
    binlog, out = str(REPOSITORY / "scripts/startup/warm/every_type.binlog"), str(tmp_path / "rows.jsonl")
    assert run(["decode", binlog, "--out", out, "--table", "*.*", "--table", "shoop.*"]) == 0
    said = capsys.readouterr().err
    assert "no table with rows in these files matches 'shoop.*'" in said
    assert "'*.*'" not in said
