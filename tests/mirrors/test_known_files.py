"""What is known of keys is bounded, and what fits stays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from strata_cdc.mirrors.known_files import KnownFiles
from tests.mirrors.model import Model, rows_of

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 1 << 17


def test_a_table_beyond_the_bound_is_not_read_whole_again() -> None:
    known = KnownFiles(6 * ROWS * 8)
    misses = []
    for _ in range(3):
        missing = [file for file in range(10) if known.get(str(file)) is None]
        for file in missing:
            known.hold(str(file), np.arange(file * ROWS, (file + 1) * ROWS))
        assert known.held_bytes <= 6 * ROWS * 8
        misses.append(len(missing))
    assert misses == [10, 4, 4]


@pytest.mark.parametrize("key", [("id",), ("t", "id"), ()])
def test_rows_are_found_whatever_is_forgotten(tmp_path: Path, key: tuple[str, ...]) -> None:
    model, lake = Model(9, key), str(tmp_path)
    model.live(60)
    model.create(lake)
    bring = partial(model.bring, lake, bound_bytes=60)
    for cut in (10, 20, 25, 30, 50, 60):
        assert rows_of(bring(cut)) == model.states[cut]
