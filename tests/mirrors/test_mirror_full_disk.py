"""A disk that fills up while a mirror is brought up to date or kept: one clear error, the mirror is as it was, and once
there is room the same goes on."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.mirrors.compact import compact, vacuum
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.modes import Mode
from tests.disks import enlarge, no_file_above, small_disk
from tests.mirrors.model import Model, opened, rows_of

if TYPE_CHECKING:
    from pathlib import Path

LATE = 4 * 10**15
"""A time long behind all others, microseconds."""


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("room", [4, 16, 52, 100, 148, 200])
def test_a_disk_that_fills_up(tmp_path: Path, mode: Mode, room: int) -> None:
    model, lake = Model(4, limits=MirrorLimits(file_rows=8, checkpoint_commits=3)), str(tmp_path)
    model.live(80)
    with small_disk(tmp_path, room << 10):
        with pytest.raises(LakeUnavailableError, match="Free space there"):
            _live(model, lake, mode)
        before = Model.opened_or_none(lake)
        assert before is None or rows_of(before) == model.states[before.position.seq]
        assert not list(tmp_path.rglob("*.part"))
        if before is not None:
            with suppress(LakeUnavailableError):
                compact(before)
            # It makes room by itself.
            vacuum(opened(lake), now_micros=LATE, retain_hours=0)
            assert rows_of(opened(lake)) == model.states[before.position.seq]
        enlarge(tmp_path, 8 << 20)
        if before is None:
            model.create(lake, mode)
        assert rows_of(model.bring(lake, 80)) == rows_of(compact(model.opened(lake))[0]) == model.states[80]


def _live(model: Model, lake: str, mode: Mode) -> None:
    model.create(lake, mode)
    for cut in range(4, 81, 4):
        model.bring(lake, cut)


@pytest.mark.parametrize("room", [0, 300, 700])
def test_files_that_may_not_grow(tmp_path: Path, room: int) -> None:
    model, lake = Model(4), str(tmp_path)
    model.live(40)
    model.create(lake)
    model.bring(lake, 20)
    with no_file_above(room), pytest.raises(LakeUnavailableError):
        model.bring(lake, 40)
    assert rows_of(opened(lake)) == model.states[20]
    assert rows_of(model.bring(lake, 40)) == model.states[40]
