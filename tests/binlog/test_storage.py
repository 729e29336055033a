"""A folder of the lake that is made, or goes, while somebody lists it is there or is not: neither is a fault."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from strata_cdc.files.storage import Folder, file_times, list_folders, listed
from strata_cdc.mirrors.log import _listed
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyarrow import fs

COMES_AND_GOES = """
import os, sys
while True:
    os.mkdir(sys.argv[1])
    os.rmdir(sys.argv[1])
"""
TIMES = 2000


@contextmanager
def coming_and_going(folder: Path) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", COMES_AND_GOES, folder])
    try:
        wait_until(folder.exists)
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "look",
    [
        lambda url: Folder.open(url).names(),
        lambda url: Folder.open(url).stamps(),
        lambda url: list(file_times(url)),
        list_folders,
        lambda url: sorted(_listed(url.removesuffix("/_delta_log"))[0]),
    ],
)
def test_a_folder_that_is_being_made(tmp_path: Path, look: Callable[[str], object]) -> None:
    folder = tmp_path / "_delta_log"
    with coming_and_going(folder):
        assert not any(look(str(folder)) for _ in range(TIMES))


def test_a_folder_that_comes_and_goes_for_ever_is_a_fault() -> None:
    class Restless:
        """Its folder is gone whenever it is listed, and there when somebody looks."""

        listings = 0

        def get_file_info(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
            self.listings += 1
            raise FileNotFoundError(selector.base_dir)

    files = Restless()
    with pytest.raises(FileNotFoundError):
        listed(files, "folder")
    assert 1 < files.listings < 1000
