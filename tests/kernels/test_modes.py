"""The same tests with kernels as plain Python, and with a check of each access: the three must not differ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.properties import EXAMPLES_VARIABLE

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = ("tests/kernels", "tests/changes/test_recorded.py")


@pytest.mark.slow
# To compile all of them again takes a minute. Where they are plain Python, NumPy checks each access by itself.
@pytest.mark.parametrize(
    ("mode", "examples"),
    [
        ("NUMBA_DISABLE_JIT", 25),
        pytest.param("NUMBA_DISABLE_JIT", 100, marks=pytest.mark.soak),
        pytest.param("NUMBA_BOUNDSCHECK", 100, marks=pytest.mark.soak),
    ],
)
def test_kernels_pass_in_every_mode(mode, examples, tmp_path):
    # A cache of its own: Numba takes a kernel from it whatever the mode was when it was compiled.
    environment = {**os.environ, mode: "1", "NUMBA_CACHE_DIR": str(tmp_path), EXAMPLES_VARIABLE: str(examples)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *TESTS]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
