"""A file that a command writes: all of it, or none of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from strata_cdc.cli.output_file import open_output
from strata_cdc.errors import Usage

KILLED = """
import os, signal, sys
from strata_cdc.cli.output_file import open_output
with open_output(sys.argv[1]) as file:
    file.write("half of it" * 10000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_process_that_is_killed_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "undo.sql"
    for before in (None, "the former script"):
        if before is not None:
            out.write_text(before)
        done = subprocess.run([sys.executable, "-c", KILLED, out], check=False)
        assert done.returncode == -signal.SIGKILL
        assert (out.read_text() if out.exists() else None) == before
    with open_output(str(out)) as file:
        file.write("all of it")
    assert out.read_text() == "all of it"
    assert names_in(tmp_path) == ["undo.sql"]


def test_what_fails_in_between_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "undo.sql"
    out.write_text("the former script")
    with pytest.raises(ZeroDivisionError), open_output(str(out)) as file:
        file.writelines(f"{1 / left}\n" for left in (2, 1, 0))
    assert out.read_text() == "the former script"
    assert names_in(tmp_path) == ["undo.sql"]


@pytest.mark.parametrize("out", ["no/such/folder/undo.sql", "a file/undo.sql", "."])
def test_what_cannot_be_written(out: str, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(Usage, match="cannot be written"), open_output(str(tmp_path / out)) as file:
        file.write("x")
    assert names_in(tmp_path) == ["a file"]


def test_devices_stay_devices() -> None:
    with open_output("/dev/null") as file:
        file.write("x")
    with pytest.raises(Usage, match="No space left"), open_output("/dev/full") as file:
        file.write("x")
    assert not Path("/dev/null.part").exists()
