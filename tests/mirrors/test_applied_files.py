"""The note of the files that a mirror's rows come from, after merges and other commits."""

from __future__ import annotations

import pytest

from strata_cdc.mirrors.applied_files import AppliedFiles
from strata_cdc.tables.port import FileCommit

NOTE = AppliedFiles(7, 30, 80, "digest")


def merge(added: int, *removed: int) -> FileCommit:
    return FileCommit(changes_rows=False, added=(added,), removed=removed)


@pytest.mark.parametrize(
    ("commits", "first"),
    [
        ([], 30),
        ([merge(30, 30, 40, 50)], 30),
        # With files of intervals before, which count from then on.
        ([merge(10, 10, 20, 30)], 10),
        ([merge(10, 20, 30), merge(0, 0, 10)], 0),
        # Files that were not applied.
        ([merge(0, 0, 10, 20), merge(90, 90, 100)], 30),
        ([FileCommit(changes_rows=True, added=(90,), removed=())], 30),
        ([FileCommit(changes_rows=True, added=(20,), removed=(20,))], 30),
        # A commit without files: other columns, properties.
        ([FileCommit(changes_rows=False, added=(), removed=())], 30),
    ],
)
def test_commits_that_change_no_applied_row(commits: list[FileCommit], first: int) -> None:
    assert NOTE.after(commits) == AppliedFiles(7, first, 80, "digest")


@pytest.mark.parametrize(
    "commits",
    [
        [FileCommit(changes_rows=True, added=(40,), removed=(40,))],
        [FileCommit(changes_rows=True, added=(80,), removed=())],
        [FileCommit(changes_rows=True, added=(), removed=(30,))],
        # The interval whose files were merged is published again, with other rows.
        [merge(10, 20, 30), FileCommit(changes_rows=True, added=(10,), removed=(10,))],
    ],
)
def test_commits_that_change_applied_rows(commits: list[FileCommit]) -> None:
    assert NOTE.after(commits) is None
