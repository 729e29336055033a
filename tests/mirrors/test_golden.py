"""A mirror that an older version of Strata has stored opens, then and now, and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import strata_cdc.mirrors
from strata_cdc.mirrors.position import FORMAT
from tests.mirrors.model import SOURCE, TABLE, Model, rows_of

GOLDEN = Path(__file__).with_name("golden")
"""Made of `Model(1)` with 30 transactions, brought to 24, 27, 29 and 30, with a checkpoint at every second commit, a
compaction behind 27, and 35 confirmed."""


def test_there_is_one_of_each_format() -> None:
    assert sorted(int(path.name) for path in GOLDEN.iterdir()) == list(range(1, FORMAT + 1))


@pytest.mark.parametrize("stored", sorted(path.name for path in GOLDEN.iterdir()))
def test_it_opens_and_goes_on(tmp_path: Path, stored: str) -> None:
    lake = str(shutil.copytree(GOLDEN / stored, tmp_path / "lake"))
    model = Model(1)
    model.live(30)
    opened = strata_cdc.mirrors.open(lake, SOURCE, TABLE)
    assert rows_of(opened.mirror) == model.states[30]
    assert opened.at.seq == 35
    for seq in (24, 27, 29, 30):
        gtid_executed = f"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{seq}"
        then = strata_cdc.mirrors.open(lake, SOURCE, TABLE, at=gtid_executed)
        assert rows_of(then.mirror) == model.states[seq]
        assert str(then.position.positions[0].position) == gtid_executed
    model.seq = 35
    model.live(10)
    assert rows_of(model.bring(lake)) == model.states[45]
