"""`strata decode FILES`: rows of prepared transactions come with their XA COMMIT; what is not decoded is reported."""

from __future__ import annotations

import json

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.cli.main import run
from tests.binlog.binlogs import SERVER, Binlog

XID = "X'61',X'',1"


def prepare(binlog: Binlog, gno: int, values: list[int], gtrid: bytes = b"a") -> None:
    binlog.gtid(gno)
    binlog.query(f"XA START X'{gtrid.hex()}',X'',1")
    binlog.table_map()
    binlog.write(values)
    binlog.query(f"XA END X'{gtrid.hex()}',X'',1")
    binlog.xa_prepare(gtrid)


def decide(binlog: Binlog, gno: int, text: str) -> None:
    binlog.gtid(gno)
    binlog.query(text)


@pytest.fixture
def files(tmp_path):
    """Prepared in the first file, another table made in between, committed in the second."""
    first, second = Binlog(), Binlog()
    first.previous()
    decide(first, 1, "CREATE TABLE t (a INT)")
    prepare(first, 2, [1, 2])
    first.insert(3, [3])
    second.previous(f"{SERVER}:1-3")
    decide(second, 4, "CREATE TABLE u (a INT)")
    second.insert(5, [4])
    decide(second, 6, f"XA COMMIT {XID}")
    prepare(second, 7, [5, 6], b"b")
    second.insert(8, [7])
    paths = [tmp_path / "binlog.000001", tmp_path / "binlog.000002"]
    for path, binlog in zip(paths, (first, second), strict=True):
        path.write_bytes(binlog.data)
    return paths


@pytest.fixture(params=[(), ("--physical",)], ids=["versions", "physical"])
def options(request):
    return request.param


def decode(paths, out, *options):
    code = run(["decode", *map(str, paths), "--out", str(out), "--format", "jsonl", *options])
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return code, [(row["seq"], row["row"], row["gtid"].rpartition(":")[2], *row["after"].values()) for row in rows]


def test_rows_come_with_the_commit_and_what_is_undecided_is_said(files, options, tmp_path, capsys):
    code, rows = decode(files, tmp_path / "out.jsonl", *options)
    assert code == 0
    assert rows == [(3, 0, "3", 3), (5, 0, "5", 4), (6, 0, "6", 1), (6, 1, "6", 2), (8, 0, "8", 7)]
    (said,) = capsys.readouterr().err.splitlines()
    with open_binlog(files[1]) as binlog:
        at = next(record.begin for record in read_transactions(binlog, first_seq=4) if record.seq == 7)
    assert said.startswith(
        f"binlog.000002:{at} (GTID {SERVER}:7): XA PREPARE X'62',X'',1 is not decided in these files"
    )
    assert said.endswith("not decoded: 2 of d.t")


def test_a_commit_without_its_prepare_is_an_error_behind_all_other_rows(files, options, tmp_path, capsys):
    baseline = tmp_path / "before.sql"
    baseline.write_text("CREATE DATABASE d; CREATE TABLE d.t (a INT);")
    more = options or ("--baseline", str(baseline))
    code, rows = decode(files[1:], tmp_path / "out.jsonl", *more)
    assert code == 1
    assert [value for *_, value in rows] == [4, 7]
    said = capsys.readouterr().err
    assert f"XA COMMIT {XID} commits what none of the given files has the XA PREPARE of" in said
    assert f"{SERVER}:6" in said


def test_a_file_that_ends_inside_of_one_gives_none_of_its_rows(files, options, tmp_path, capsys):
    with open_binlog(files[0]) as binlog:
        end = next(record.end for record in read_transactions(binlog) if record.seq == 2)
    cut = tmp_path / "cut.000001"
    for size in (end - 1, end - 40, end - 60):
        cut.write_bytes(files[0].read_bytes()[:size])
        code, rows = decode([cut], tmp_path / "out.jsonl", *options)
        assert (code, rows) == (1, [])
        code, rows = decode([cut], tmp_path / "out.jsonl", *options, "--skip-corrupt")
        assert (code, rows) == (1, [])
    assert "ends" in capsys.readouterr().err


def json_rows(binlog: Binlog, begin: str, gno: int, values: list[bytes]) -> None:
    binlog.gtid(gno)
    binlog.query(begin)
    binlog.event(19, (1).to_bytes(6, "little") + b"\1\0" + b"\1d\0\1t\0" + b"\1\xf5\1\4\1")
    rows = b"".join(b"\0" + len(value).to_bytes(4, "little") + value for value in values)
    binlog.event(30, (1).to_bytes(6, "little") + b"\1\0\2\0\1\1" + rows)


TRUE, FALSE, NULL, BROKEN = b"\x04\x01", b"\x04\x02", b"\x04\x00", b"\x00"


def test_damage_elsewhere_does_not_move_them(tmp_path, capsys):
    """A broken cell that no checksum tells is found when the walk has gone on; what it undoes is not done twice."""
    binlog = Binlog(checksum=False)
    binlog.previous()
    decide(binlog, 1, "CREATE TABLE t (a JSON)")
    json_rows(binlog, f"XA START {XID}", 2, [TRUE])
    binlog.xa_prepare(b"a")
    json_rows(binlog, "BEGIN", 3, [FALSE, BROKEN])
    binlog.xid()
    json_rows(binlog, "XA START X'62',X'',1", 4, [NULL])
    binlog.xa_prepare(b"b")
    decide(binlog, 5, f"XA COMMIT {XID}")
    decide(binlog, 6, "XA COMMIT X'62',X'',1")
    json_rows(binlog, "XA START X'62',X'',1", 7, [NULL])
    binlog.xa_prepare(b"b")
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    code, rows = decode([path], tmp_path / "out.jsonl", "--skip-corrupt")
    assert (code, [(seq, value) for seq, _, _, value in rows]) == (1, [(3, "false"), (5, "true"), (6, "null")])
    said = capsys.readouterr().err
    assert said.count("is not decided") == 1
    assert "follows another" not in said


def test_damage_in_one_stops_there(tmp_path, capsys):
    binlog = Binlog(checksum=False)
    binlog.previous()
    decide(binlog, 1, "CREATE TABLE t (a JSON)")
    json_rows(binlog, f"XA START {XID}", 2, [TRUE, BROKEN])
    binlog.xa_prepare(b"a")
    json_rows(binlog, "BEGIN", 3, [FALSE])
    binlog.xid()
    decide(binlog, 4, f"XA COMMIT {XID}")
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    for options in ((), ("--skip-corrupt",)):
        code, rows = decode([path], tmp_path / "out.jsonl", *options)
        assert (code, [(seq, value) for seq, _, _, value in rows]) == (1, [(3, "false"), (4, "true")])
        assert f"{SERVER}:4" in capsys.readouterr().err
