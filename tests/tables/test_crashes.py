"""A publisher that is killed (SIGKILL) between any two of its writes: readers see the old rows or the new ones, and the
same step run again gives the same rows as if nothing had happened. For each output behind the table port."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata_cdc.tables.read import read_columns
from tests.tables.changes import ORDERS, SOURCE
from tests.tables.conformance.outputs import OUTPUTS
from tests.tables.dying_publisher import finish

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[2]


def rows(lake: Path, output: str) -> list[int]:
    parts = read_columns(str(lake), SOURCE, ORDERS, OUTPUTS[output])
    return sorted(number for part in parts for number in part["id"].to_pylist())


def lakes_of_the_dead(folder: Path, output: str, *begin: Path) -> list[Path]:
    """One lake for each write before which the publisher was killed."""
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'include'}"}
    command = [sys.executable, "-m", "tests.tables.dying_publisher", str(folder), output, *map(str, begin)]
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True)
    return sorted(folder.iterdir(), key=lambda lake: int(lake.name))


@pytest.mark.parametrize("output", OUTPUTS)
def test_killed_between_any_two_writes(tmp_path: Path, output: str) -> None:
    lakes = lakes_of_the_dead(tmp_path, output)
    assert len(lakes) > 15
    seen = []
    for lake in lakes:
        found = rows(lake, output)
        # Nothing yet; the old rows; the new ones. Never a part of a commit.
        assert found in ([], [1, 2], [3, 4, 5]), lake.name
        seen.append(found)
        finish(str(lake), OUTPUTS[output])
        assert rows(lake, output) == [3, 4, 5], lake.name
    assert seen[0] == []
    assert seen[-1] == [3, 4, 5]
    assert [1, 2] in seen


def test_killed_while_old_generations_become_one_table(tmp_path: Path) -> None:
    golden = Path(__file__).parent / "golden" / "generations"
    # What is published is of the first of the three intervals that the old table has, and of its row 1.
    before, between, after = [2, 3, 4], [1, 2], [3, 4, 5]
    seen = []
    for lake in lakes_of_the_dead(tmp_path, "delta", golden):
        parts = read_columns(str(lake), SOURCE, ORDERS)
        found = sorted(number for part in parts for number in part["_seq"].to_pylist())
        assert found in ([1, *before], sorted([*between, *before]), sorted([*after, *before])), lake.name
        seen.append(len(parts))
        finish(str(lake), OUTPUTS["delta"])
        (part,) = read_columns(str(lake), SOURCE, ORDERS)
        assert sorted(part["_seq"].to_pylist()) == sorted([*after, *before]), lake.name
    assert {1, 3} == set(seen)
