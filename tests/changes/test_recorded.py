"""Recorded binlogs: the fast decoder, the naive one, and what was recorded beside the file say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.changes.live import changes
from tests.naive.decoder import decode

RECORDED = Path(__file__).with_name("recorded")
CASES = ("every_type", "no_checksum", "minimal", "many_rows")


@pytest.mark.parametrize("case", CASES)
def test_fast_and_naive_agree_with_the_record(case):
    path = RECORDED / f"{case}.binlog"
    expected = [json.loads(line) for line in (RECORDED / f"{case}.jsonl").read_text().splitlines()]
    assert expected
    found = changes(path, None)
    # The naive decoder counts transactions with rows and without alike, as the fast one does.
    assert found == expected
    assert json.loads(json.dumps(decode(path.read_bytes()))) == expected


def test_compressed_transactions_hold_the_same_rows():
    found = changes(RECORDED / "compressed.binlog", None)
    texts = [(RECORDED / f"{case}.jsonl").read_text() for case in ("every_type", "many_rows")]
    plain = [json.loads(line) for text in texts for line in text.splitlines()]
    kept = ("table", "op", "row", "before", "after")
    assert [{name: row[name] for name in kept} for row in found] == [
        {name: row[name] for name in kept} for row in plain
    ]
