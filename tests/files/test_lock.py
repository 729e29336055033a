"""A folder that cannot be locked is an error that says what to do."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.lock import LOCK_FILE, hold_folder
from strata_cdc.files.storage import Folder

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

NOBODY = 65534
FORKED = multiprocessing.get_context("fork")


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").touch()
    with (
        pytest.raises(LakeUnavailableError, match="a part of this path is a file"),
        hold_folder(Folder.open(str(tmp_path / "lake" / "landing")), "landing"),
    ):
        pass


def lock_as_nobody(folder: str, answer: Connection) -> None:
    """Sends the error that another user gets; without the rights of root this process is one."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        with hold_folder(Folder.open(folder), "landing"):
            answer.send("locked")
    except LakeUnavailableError as error:
        answer.send(str(error))


def test_another_user_learns_which_right_is_missing(tmp_path: Path) -> None:
    """The lake of somebody else."""
    folder = tmp_path / "landing"
    folder.mkdir()
    with hold_folder(Folder.open(str(folder)), "landing"):
        pass
    (folder / LOCK_FILE).chmod(0o444)
    there, here = FORKED.Pipe()
    process = FORKED.Process(target=lock_as_nobody, args=(str(folder), here))
    process.start()
    message = there.recv()
    process.join()
    assert "Permission denied" in message
    assert f"landing/{LOCK_FILE}" in message
    assert "Give the user of this process the right to read and write there" in message
