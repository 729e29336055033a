"""A run whose lake is on S3 is killed (SIGKILL) before and after each request that writes to change tables, as the
store sees them: readers see the old rows or the new ones of each table, and the same run again publishes all once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.store_proxy import DEATHS

if TYPE_CHECKING:
    from tests.store_proxy import StoreProxy

pytestmark = [pytest.mark.slow, pytest.mark.soak]
REPOSITORY = Path(__file__).parents[2]


def test_killed_before_and_after_each_request(tmp_path: Path, store: StoreProxy) -> None:
    root = tmp_path / "worlds"
    root.mkdir()
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'include'}"}
    command = [sys.executable, "-m", "tests.pipeline.dying_on_s3", str(root), str(store.rules)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    deaths = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert {death for _, death, _, _, _ in deaths} == set(DEATHS)
    assert [survived for *_, survived, _, _ in deaths] == [False] * (len(deaths) - 1) + [True]
    # Files of three tables, the note of the interval, a new table, three commits.
    assert len({number for number, *_ in deaths}) > 7
    for number, death, _, before, after in deaths:
        assert all(rows in allowed for rows, allowed in zip(before, ((2, 5), (2, 5), (0, 3)), strict=True)), (
            number,
            death,
        )
        assert after == [5, 5, 3], (number, death)
    assert [2, 2, 0] in [before for _, _, _, before, _ in deaths]
    assert deaths[-1][3] == [5, 5, 3]
