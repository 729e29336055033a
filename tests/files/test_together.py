"""Files that one process lists, reads or deletes while another deletes them: that is no error.
Not here: two writers of one file (`tests/lake`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from strata_cdc.files.storage import Folder, delete_folder, file_times, list_folders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIMES = 25
FILES = 100


@pytest.mark.parametrize(
    "look",
    [
        lambda url: Folder.open(url).stamps(),
        lambda url: Folder.open(url).stamps_of([f"{number}.json" for number in range(FILES)]),
        lambda url: Folder.open(url).names(),
        lambda url: Folder.open(url).leftovers(),
        list_folders,
        file_times,
        delete_folder,
    ],
    ids=["stamps", "stamps_of", "names", "leftovers", "list_folders", "file_times", "delete_folder"],
)
def test_a_folder_may_be_deleted_by_another_process_meanwhile(tmp_path: Path, look: Callable[[str], object]) -> None:
    folder = tmp_path / "run"
    start = Barrier(2)

    def delete() -> None:
        start.wait()
        delete_folder(str(folder))

    with ThreadPoolExecutor(1) as other:
        for _ in range(TIMES):
            for place in (folder, folder / "staged"):
                place.mkdir()
                for number in range(FILES // 2):
                    (place / f"{number}.json").touch()
            deleted = other.submit(delete)
            start.wait()
            look(str(folder))
            deleted.result()
