"""The Data Docs of a run: made when something failed, otherwise when somebody opens them, from what the check has kept.
Not here: making pages (`quality/checks/suite.py`), the verdict (`runs/run_folder.py`). Great Expectations takes
seconds to be imported, and no row has to wait for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from strata_cdc.extras import is_installed
from strata_cdc.files.stored import decode_stored
from strata_cdc.quality.checks.judged import FORMAT, JudgedRun
from strata_cdc.quality.checks.suite import SuiteJudge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.files.storage import Folder
    from strata_cdc.quality.checks.judged import JudgedSuite

DOCS = "docs"
"""Folder of the Data Docs in a run folder."""
JUDGED = "judged.json"
"""What each rule found."""
INDEX = "index.html"
"""Their first page."""


def docs_url(folder: Folder) -> str:
    """The first page of a run's Data Docs, which may not be made yet."""
    return folder.folder(DOCS).join(INDEX)


def write_judged(folder: Folder, suites: Iterable[JudgedSuite]) -> None:
    """Keeps what each rule found.

    Raises:
        LakeUnavailableError: The storage does not take it.
    """
    folder.write(JUDGED, msgspec.json.encode(JudgedRun(tuple(suites))))


def read_judged(folder: Folder) -> JudgedRun:
    """What `write_judged` has kept; no suites if there is nothing.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: The file is not whole.
        StoreFormatError: A newer version of Strata wrote it.
    """
    if not folder.exists(JUDGED):
        return JudgedRun(())
    remedy = "Check the run again (`strata check`, task `check`)."
    return decode_stored(folder.read_file(JUDGED), JudgedRun, newest=FORMAT, file=folder.join(JUDGED), remedy=remedy)


def forget_docs(folder: Folder) -> None:
    """Of an earlier check: its pages are no longer true.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    folder.folder(DOCS).delete(INDEX)


def can_write_docs() -> bool:
    """Whether Great Expectations is installed, which makes them."""
    return is_installed("great_expectations")


def write_docs(folder: Folder, judge: SuiteJudge | None = None) -> str:
    """Makes the Data Docs of a run that has been checked, and returns their first page.

    Args:
        folder: Of the run.
        judge: That has run suites of the check itself.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: What was kept of the check is not whole.
        StoreFormatError: A newer version of Strata kept it.
    """
    judge = judge or SuiteJudge(folder.url.rstrip("/").rpartition("/")[2])
    for suite in read_judged(folder).suites:
        judge.record(suite)
    return judge.write_docs(folder.join(DOCS))


def complete_docs(folder: Folder) -> str | None:
    """Makes the Data Docs if the check has left that; returns their first page, None if there is nothing to show.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: What was kept of the check is not whole.
        StoreFormatError: A newer version of Strata kept it.
    """
    if not folder.exists(JUDGED):
        return None
    return docs_url(folder) if folder.folder(DOCS).exists(INDEX) else write_docs(folder)
