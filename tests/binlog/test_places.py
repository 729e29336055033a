"""A piece of a file that was cut out, put in or moved is found: rows in front of it, then one error with its place."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.binlog.events.model import XaStep
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.cli.main import run
from strata_cdc.errors import MisplacedEventError, StrataError
from strata_cdc.landing.land_files import land_files
from tests.binlog.binlogs import SERVER, Binlog

GOLDEN = Path(__file__).parent / "golden"
FILES = {"binlog": "mixed.binlog", "relay log": "relay-bin.000004", "relay log with ROTATEs": "relay-bin.000005"}


def read(path):
    found = []
    try:
        with open_binlog(path) as binlog:
            found.extend(read_transactions(binlog))
    except StrataError as error:
        return found, error
    return found, None


def decode(path, *options):
    out = path.parent / "rows.jsonl"
    code = run(["--json", "decode", str(path), "--out", str(out), *options])
    return code, [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture(params=[*FILES, "segment"])
def whole(request, tmp_path):
    """A file that is read without a fault, of each kind."""
    if request.param != "segment":
        path = tmp_path / FILES[request.param]
        path.write_bytes((GOLDEN / FILES[request.param]).read_bytes())
        return path
    archive = tmp_path / "archive"
    archive.mkdir()
    (archive / "binlog.000001").write_bytes((GOLDEN / "mixed.binlog").read_bytes())
    land_files(str(archive), lake=str(tmp_path), source="s")
    return next((tmp_path / "landing" / "s").glob("*.binlog"))


def changed(path, pieces):
    """Writes the file anew, of these pieces of it."""
    data = path.read_bytes()
    path.write_bytes(b"".join(data[begin:end] for begin, end in pieces))


def events_of(path):
    data, at, found = path.read_bytes(), 4, []
    while at < len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append((at, at + length))
        at += length
    return found


def assert_found(path, before, records, offset, capsys):
    found, fault = read(path)
    assert isinstance(fault, MisplacedEventError)
    assert (fault.offset, [r.gtid for r in found]) == (offset, [r.gtid for r in records[:before]])
    capsys.readouterr()
    code, rows = decode(path, "--physical")
    error = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (code, error["error"], error["file"], error["offset"]) == (1, "MisplacedEventError", str(path), offset)
    assert max((row["seq"] for row in rows), default=0) <= before + 1
    code, some = decode(path, "--physical", "--skip-corrupt")
    assert (code, some[: len(rows)]) == (1, rows)
    return some


def test_a_file_as_it_was_written(whole):
    records, fault = read(whole)
    assert (len(records) > 1, fault) == (True, None)
    assert decode(whole, "--physical")[0] == 0


def is_decision(record, prepared):
    """Whether the rows of a prepared transaction take effect at this one."""
    marks = (record.mark, prepared.mark)
    return (
        None not in marks
        and [mark.step for mark in marks] == [XaStep.COMMIT, XaStep.PREPARE]
        and (record.mark.xid == prepared.mark.xid)
    )


def test_a_transaction_was_cut_out(whole, capsys):
    records, _ = read(whole)
    _, rows = decode(whole, "--physical")
    size, data = whole.stat().st_size, whole.read_bytes()
    for at, record in enumerate(records):
        # What is gone from the end of a file is not missing in the middle of it.
        if record.end == size or data[record.end + 4] == 4:
            continue
        changed(whole, [(0, record.begin), (record.end, size)])
        some = assert_found(whole, at, records, record.begin, capsys)
        lost = {str(record.gtid), *(str(one.gtid) for one in records if is_decision(one, record))}
        assert [row["gtid"] for row in some] == [row["gtid"] for row in rows if row["gtid"] not in lost]
        whole.write_bytes(data)


def test_an_event_was_cut_out(whole, capsys):
    records, _ = read(whole)
    size, data = whole.stat().st_size, whole.read_bytes()
    for begin, end in events_of(whole):
        before = sum(record.end <= begin for record in records)
        if before == len(records) or not records[before].begin < begin < end < records[before].end:
            continue
        changed(whole, [(0, begin), (end, size)])
        assert_found(whole, before, records, begin, capsys)
        whole.write_bytes(data)


def test_a_transaction_is_there_twice(whole, capsys):
    records, _ = read(whole)
    _, rows = decode(whole, "--physical")
    size, data = whole.stat().st_size, whole.read_bytes()
    for at, record in enumerate(records):
        changed(whole, [(0, record.end), (record.begin, size)])
        some = assert_found(whole, at + 1, records, record.end, capsys)
        assert [row["gtid"] for row in some] == [row["gtid"] for row in rows], "its rows are given once"
        whole.write_bytes(data)


def test_two_transactions_changed_places(whole, capsys):
    records, _ = read(whole)
    size, data = whole.stat().st_size, whole.read_bytes()
    for at, (one, other) in enumerate(pairwise(records)):
        changed(whole, [(0, one.begin), (other.begin, other.end), (one.end, other.begin), (one.begin, one.end),
                        (other.end, size)])  # fmt: skip
        assert_found(whole, at, records, one.begin, capsys)
        whole.write_bytes(data)


def test_what_was_lost_may_have_been_a_ddl(tmp_path, capsys):
    binlog = Binlog()
    binlog.previous()
    places = []
    for gno, text in enumerate(("CREATE TABLE d.t (a INT)", "ALTER TABLE d.t RENAME COLUMN a TO b"), start=1):
        places.append(binlog.gtid(gno))
        binlog.query(text)
    places.append(binlog.insert(3, [7]))
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data[: places[1]] + binlog.data[places[2] :])
    assert decode(path) == (1, [])
    assert run(["track", str(path), "--store", f"sqlite:///{tmp_path}/one.db", "--source", "s"]) == 1
    assert f"@ {places[1]}" in capsys.readouterr().err
    assert decode(path, "--skip-corrupt") == (1, [])
    code = run(["track", str(path), "--store", f"sqlite:///{tmp_path}/two.db", "--source", "s", "--skip-corrupt"])
    assert (code, "became unknown" in capsys.readouterr().err) == (1, True)


def test_a_segment_has_what_its_index_says_was_left_out(tmp_path, capsys):
    """What had landed from one file is left out of the next; nothing else may be."""
    files = {}
    for name, previous, numbers in (("binlog.000001", "", (2,)), ("binlog.000002", "", (1, 2, 3))):
        binlog = Binlog()
        binlog.previous(previous)
        for number in numbers:
            binlog.insert(number, [number])
        binlog.event(4, b"\4" + bytes(7) + b"binlog.000009")
        files[name] = bytes(binlog.data)
    archive = tmp_path / "archive"
    archive.mkdir()
    for name, data in files.items():
        (archive / name).write_bytes(data)
        land_files(str(archive), lake=str(tmp_path), source="s")
        (archive / name).unlink()
    segment = max((tmp_path / "landing" / "s").glob("*.binlog"))
    code, rows = decode(segment, "--physical")
    assert (code, [row["after"]["@1"] for row in rows]) == (0, [1, 3])
    Path(f"{segment}{SUFFIX}").rename(tmp_path / "aside")
    code, rows = decode(segment, "--physical")
    assert (code, [row["after"]["@1"] for row in rows]) == (1, [1])
    (tmp_path / "aside").rename(f"{segment}{SUFFIX}")
    records, _ = read(segment)
    changed(segment, [(0, records[0].begin), (records[0].end, segment.stat().st_size)])
    assert isinstance(read(segment)[1], MisplacedEventError)


def test_what_lands_is_proved_as_well(tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir()
    path = archive / "binlog.000001"
    path.write_bytes((GOLDEN / "mixed.binlog").read_bytes())
    records, _ = read(path)
    changed(path, [(0, records[4].begin), (records[4].end, path.stat().st_size)])
    with pytest.raises(MisplacedEventError):
        land_files(str(archive), lake=str(tmp_path), source="s")
    [segment] = (tmp_path / "landing" / "s").glob("*.binlog")
    assert [r.gtid for r in read(segment)[0]] == [r.gtid for r in records[:4]]


def test_what_comes_again_in_another_file_counts_once(tmp_path, capsys):
    """As after a failover to a replica that writes transactions in another order."""
    paths = []
    for number, numbers in enumerate(((1, 2), (2, 3), (2, 3), (3, 4)), start=1):
        binlog = Binlog()
        binlog.previous("" if number == 1 else f"{SERVER}:1-{numbers[0] - 1}:9")
        if number == 1:
            binlog.gtid(9)
            binlog.query("CREATE TABLE d.t (a INT)")
        for gno in numbers:
            binlog.insert(gno, [gno])
        paths.append(tmp_path / f"binlog.00000{number}")
        paths[-1].write_bytes(binlog.data)
    for options in ((), ("--physical",), ("--skip-corrupt",)):
        out = tmp_path / "rows.jsonl"
        capsys.readouterr()
        assert run(["--json", "decode", *map(str, paths), "--out", str(out), *options]) == 0
        said = json.loads(capsys.readouterr().out)["repeated"]
        assert [text.split(" comes")[0][-1] for text in said] == ["2", "2", "3", "3"]
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [(row["seq"], *row["after"].values()) for row in rows] == [(2, 1), (3, 2), (4, 3), (5, 4)]
