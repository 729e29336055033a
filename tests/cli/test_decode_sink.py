"""`strata decode FOLDER`: rows of a TiCDC folder as of binlogs, what was special about them, and what is refused."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from strata_cdc.cli.main import run
from tests.binlog.test_transactions import MIXED
from tests.docs.reader import REPOSITORY
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn

if TYPE_CHECKING:
    from pathlib import Path

ID = SinkColumn("id", pk=True, nullable=False)
STATE = SinkColumn("state", "VARCHAR", precision="9")
NEW, PAID = {"id": 1, "state": "new"}, {"id": 1, "state": "paid"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    feed = Feed(tmp_path / "feed", FeedForm(old_value=True, null="NULL"))
    table = feed.table("orders", (ID, STATE))
    feed.write(table, [Row(START + 1, NEW), Row(START + 2, PAID, NEW)])
    feed.write(table, [Row(START + 2, PAID, NEW)])
    feed.ddl(table, START + 3, 6, "ALTER TABLE orders DROP state", (ID,))
    feed.write(table, [Row(START + 5, {"id": 5, "state": None})], version=START)
    feed.write(table, [Row(START + 9, {"id": 9})], indexed=False)
    feed.checkpoint(START + 99)
    return feed.folder


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_rows_are_those_of_a_binlog(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decode", str(folder), "--out", "-", "--null", "NULL"]) == 0
    printed = capsys.readouterr()
    names = {"gtid": None, "database": "shop", "table": "orders"}
    assert lines(printed.out) == [
        {**names, "seq": 1, "row": 1, "op": "insert", "before": None, "after": NEW},
        {**names, "seq": 2, "row": 1, "op": "update", "before": NEW, "after": PAID},
        {**names, "seq": 4, "row": 1, "op": "insert", "before": None, "after": {"id": 5}},
    ]
    for remark in (
        f"all commits below {START + 99} were read",
        "1 data file not read",
        "shop.orders: 1 row came again",
        "1 row of old data, new schema, around drop column: a row at commit-ts ",
    ):
        assert remark in printed.err


def test_rows_before_an_error_are_kept(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = next(folder.rglob("CDC*1.csv"))
    path.write_bytes(path.read_bytes() + path.read_bytes()[:9])
    out = tmp_path / "rows.jsonl"
    assert run(["decode", str(folder), "--out", str(out), "--null", "NULL"]) == 1
    assert [line["seq"] for line in lines(out.read_text())] == [1]
    error = capsys.readouterr().err
    assert "the file ends in the middle of it" in error
    assert path.name in error


def test_holes_are_an_error_after_all_rows(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next(folder.rglob("CDC*2.csv")).unlink()
    out = tmp_path / "rows.jsonl"
    assert run(["decode", str(folder), "--out", str(out), "--null", "NULL"]) == 1
    assert [line["seq"] for line in lines(out.read_text())] == [1, 2, 4]
    assert "1 data file missing, numbers 2 to 2" in capsys.readouterr().err


def test_options_of_the_other_kind_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decode", str(folder), "--out", "-", "--store", "sqlite://"]) == 2
    assert "--store is for binlogs" in capsys.readouterr().err
    assert run(["decode", str(MIXED), "--out", "-", "--time-zone", "UTC"]) == 2
    assert "--time-zone is for a TiCDC folder" in capsys.readouterr().err
    assert run(["decode", str(folder.parent), "--out", "-"]) == 2
    assert "these folders in it are: feed" in capsys.readouterr().err


def test_the_commands_of_the_page(folder: Path, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "ticdc.md").read_text()
    commands = [shlex.split(line)[1:] for line in page.splitlines() if line.startswith("strata decode")]
    assert len(commands) == 3
    for number, words in enumerate(commands):
        words[1] = str(folder)
        out = words.index("--out") + 1
        words[out] = words[out] if words[out] == "-" else str(tmp_path / f"{number}-{words[out]}")
        assert run([*words, "--null", "NULL"]) == 0


def test_parquet(folder: Path, tmp_path: Path) -> None:
    assert run(["decode", str(folder), "--out", str(tmp_path / "out"), "--format", "parquet", "--null", "NULL"]) == 0
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 2
