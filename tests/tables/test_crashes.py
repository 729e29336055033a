"""A publisher that is killed (SIGKILL) between any two of its writes: readers see the old rows or the new ones, and the
same step run again gives the same rows as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.tables.read import read_generations
from tests.tables.changes import ORDERS, SOURCE
from tests.tables.dying_publisher import finish

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[2]


def rows(lake: Path) -> list[int]:
    parts = read_generations(str(lake), SOURCE, ORDERS)
    return sorted(number for part in parts for number in part["id"].to_pylist())


def test_killed_between_any_two_writes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'include'}"}
    subprocess.run([sys.executable, "-m", "tests.tables.dying_publisher", str(tmp_path)], cwd=REPOSITORY,
                   env=environment, check=True)  # fmt: skip
    lakes = sorted((lake for lake in tmp_path.iterdir()), key=lambda lake: int(lake.name))
    assert len(lakes) > 15
    seen = []
    for lake in lakes:
        found = rows(lake)
        # Nothing yet; the old rows; the new ones of one generation or of both. Never a part of a commit.
        assert found in ([], [1, 2], [3, 5], [3, 4, 5]), lake.name
        seen.append(found)
        finish(str(lake))
        assert rows(lake) == [3, 4, 5], lake.name
    assert seen[0] == []
    assert seen[-1] == [3, 4, 5]
    assert [1, 2] in seen
