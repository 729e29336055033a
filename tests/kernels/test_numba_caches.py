"""Caches of Numba that cannot be read: a class of an argument's type was renamed, or the file is damaged."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.startup.numba_caches import delete_unreadable

KERNEL = """
import numba


@numba.njit(cache=True)
def kernel(x):
    return x + 1

print(kernel(1), sum(kernel.stats.cache_hits.values()))
"""


def run(folder: Path) -> str | None:
    """What the kernel gives, and how often it was in the cache; None where it fails."""
    # The tests run in other modes, too.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "made"]
    done = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cached")
    (folder / "made.py").write_text(KERNEL)
    assert [run(folder), run(folder)] == ["2 0", "2 1"]
    return folder


def damage(index: Path, how: str) -> None:
    content = index.read_bytes()
    match how:
        case "cut":
            index.write_bytes(content[: len(content) // 2])
        case "empty":
            index.write_bytes(b"")
        case "other bytes":
            index.write_bytes(bytes(255 - byte for byte in content))
        case "renamed":
            # As `OlderName` is pickled, which no module has any more.
            name = pickle.dumps(Path, protocol=0).replace(b"Path", b"OlderName")
            index.write_bytes(content[: content.index(b"\x80", 1)] + name)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "empty", "other bytes", "renamed"])
def test_what_cannot_be_read_is_made_anew(cached: Path, tmp_path: Path, how: str) -> None:
    shutil.copytree(cached, tmp_path, dirs_exist_ok=True)
    [index] = tmp_path.rglob("*.nbi")
    assert delete_unreadable(tmp_path) == []
    damage(index, how)
    assert run(tmp_path) is None, "Numba has learned to do without it"
    other = index.with_name("another.kernel-1.py311.1.nbc")
    other.write_bytes(b"")
    assert delete_unreadable(tmp_path) == [index.name]
    assert [path.name for path in index.parent.glob("*.nb*")] == [other.name]
    assert [run(tmp_path), run(tmp_path)] == ["2 0", "2 1"]


def test_those_of_the_kernels_can_be_read(tmp_path: Path) -> None:
    """Of the classes that their arguments have now."""
    kernels = Path(__file__).parents[2] / "include" / "strata" / "kernels" / "__pycache__"
    copied = [Path(shutil.copy(path, tmp_path)) for path in sorted(kernels.glob("*.nbi"))[:20]]
    assert delete_unreadable(tmp_path) == []
    assert all(path.exists() for path in copied)
