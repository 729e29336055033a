"""Ends multi-part uploads to a source's folders that were begun and left, a week after they were begun.
Not here: the requests (`files/uploads.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from strata_cdc.counted import counted
from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.objects import is_s3
from strata_cdc.files.uploads import abort_upload, unfinished_uploads
from strata_cdc.landing.landed import landing_folder
from strata_cdc.mirrors.layout import mirrors_url
from strata_cdc.pipeline.housekeep.merge_intervals import MergeStep
from strata_cdc.runs.run_folder import runs_url
from strata_cdc.tables.layout import changes_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.config.settings import Source

WEEK: Final = 7 * 86_400_000_000
"""Nobody uploads one file for so long."""


def upload_steps(source: Source, *, now: int) -> Iterator[MergeStep]:
    """Ends them; a store that does not list uploads is passed over (`strata doctor` has a line for it).

    Args:
        source: The source.
        now: Microseconds UTC.
    """
    if not is_s3(source.lake):
        return
    with suppress(LakeUnavailableError):
        count = 0
        for url in _folders(source):
            for upload in unfinished_uploads(url):
                if upload.begun_at < now - WEEK:
                    abort_upload(url, upload)
                    count += 1
        if count:
            yield MergeStep(f"ended {counted(count, 'upload')} that were begun and left")


def _folders(source: Source) -> tuple[str, ...]:
    lake, name = source.lake, source.name
    return (landing_folder(lake, name).url, changes_url(lake, name), mirrors_url(lake, name), runs_url(lake, name))
