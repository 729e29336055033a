"""`strata decode --skip-corrupt`: what is readable behind damage is read, what is not is named."""

from __future__ import annotations

import json

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.cli.main import run
from tests.binlog.binlogs import SERVER, Binlog
from tests.binlog.test_transactions import MIXED


def decode(path, out, *options):
    code = run(["decode", str(path), "--out", str(out), "--format", "jsonl", *options])
    return code, [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture(scope="module")
def records():
    with open_binlog(MIXED) as binlog:
        return list(read_transactions(binlog))


@pytest.fixture(params=[(), ("--physical",)], ids=["versions", "physical"])
def options(request):
    return request.param


def test_rows_of_other_transactions_are_all_there(records, options, tmp_path, capsys):
    code, whole = decode(MIXED, tmp_path / "whole.jsonl", *options)
    assert code == 0
    victim = next(r for r in records if r.tables and not r.ddl_offsets)
    data = bytearray(MIXED.read_bytes())
    data[victim.end - 40] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    capsys.readouterr()
    code, rows = decode(path, tmp_path / "some.jsonl", *options, "--skip-corrupt", "--json")
    assert code == 1
    assert [row for row in rows if row["seq"] != victim.seq] == [row for row in whole if row["seq"] != victim.seq]
    said = capsys.readouterr()
    [skipped] = json.loads(said.out)["skipped"]
    assert f"{victim.begin:,}" in skipped
    error = json.loads(said.err.splitlines()[-1])
    assert (error["error"], error["gtid"], error["file"]) == ("ChecksumError", str(victim.gtid), str(path))
    code, before = decode(path, tmp_path / "until.jsonl", *options)
    assert code == 1
    assert before == rows[: len(before)]
    assert max((row["seq"] for row in before), default=0) <= victim.seq


@pytest.mark.parametrize("options", [(), ("--skip-corrupt",)])
def test_a_broken_cell_that_no_checksum_tells_costs_its_row(options, tmp_path, capsys):
    binlog = Binlog(checksum=False)
    binlog.previous()
    binlog.gtid(1)
    binlog.query("CREATE TABLE t (a JSON)")
    # Row 2 of transaction 3, and row 1 of transaction 5, say that they are small objects, and end there.
    documents = {2: [b"\x04\x01"], 3: [b"\x04\x02", b"\x00", b"\x04\x01"], 4: [b"\x04\x00"], 5: [b"\x00", b"\x04\x00"]}
    for gno, values in documents.items():
        binlog.gtid(gno)
        binlog.query("BEGIN")
        binlog.event(19, (1).to_bytes(6, "little") + b"\1\0" + b"\1d\0\1t\0" + b"\1\xf5\1\4\1")
        rows = b"".join(b"\0" + len(value).to_bytes(4, "little") + value for value in values)
        binlog.event(30, (1).to_bytes(6, "little") + b"\1\0\2\0\1\1" + rows)
        binlog.xid()
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    code, rows = decode(path, tmp_path / "rows.jsonl", *options, "--json")
    assert [(row["seq"], row["after"]["a"]) for row in rows] == [
        (2, "true"), (3, "false"), (3, "true"), (4, "null"), (5, "null")]  # fmt: skip
    assert code == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["quarantined"] == 2
    assert json.loads(said.err.splitlines()[-1])["gtid"] == f"{SERVER}:3"


def test_behind_what_may_have_been_ddl_no_schema_is_guessed(records, tmp_path, capsys):
    _, whole = decode(MIXED, tmp_path / "whole.jsonl")
    victims = [r for r in records if r.ddl_offsets and not r.tables]
    assert victims
    fewer = 0
    for victim in victims:
        data = bytearray(MIXED.read_bytes())
        data[victim.end - 5] ^= 1
        path = tmp_path / "binlog.000001"
        path.write_bytes(data)
        code, rows = decode(path, tmp_path / "rows.jsonl", "--skip-corrupt")
        assert code == 1
        # A table that is made behind the damage is known from there on; nothing else is.
        assert all(row in whole for row in rows)
        _, physical = decode(path, tmp_path / "physical.jsonl", "--skip-corrupt", "--physical")
        assert len(physical) == len(whole)
        fewer += len(rows) < len(whole)
    assert fewer
    said = capsys.readouterr().err
    assert "were skipped" in said
    assert "the server lost events" not in said


def test_a_file_whose_tables_were_made_before_it_needs_a_baseline(tmp_path, capsys):
    binlog = Binlog()
    binlog.previous(f"{SERVER}:1-6")
    binlog.insert(7, [1])
    path = tmp_path / "binlog.000002"
    path.write_bytes(binlog.data)
    assert decode(path, tmp_path / "rows.jsonl", "--json") == (1, [])
    error = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (error["error"], error["table"]) == ("SchemaGapError", "d.t")
    assert "`--baseline FILE.sql`" in error["remedy"]
    assert "snapshot" not in error["remedy"]
    baseline = tmp_path / "before.sql"
    baseline.write_text("CREATE DATABASE d; CREATE TABLE d.t (a INT);")
    code, [row] = decode(path, tmp_path / "rows.jsonl", "--baseline", str(baseline))
    assert (code, row["after"]) == (0, {"a": 1})
