"""Cuts the old end of a mirror's log: commits and checkpoints before the versions that vacuum keeps readable.
Not here: which files of rows go (`compact.py`), writing checkpoints (`checkpoint.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.files.storage import delete_file
from strata_cdc.mirrors.histories.beginning import beginning_of
from strata_cdc.mirrors.histories.kept_beginning import forget_beginning, keep_beginning
from strata_cdc.mirrors.log import cut_at

if TYPE_CHECKING:
    from strata_cdc.mirrors.table import Mirror


def cut_log(mirror: Mirror, oldest: int) -> int:
    """Deletes the part of the log that no version from this one on needs, and stores where the mirror's history begins.

    The log then begins with the last checkpoint before that version. The caller holds the mirror's lock. The function
    may be killed at any point, and repeated: the log is deleted from its old end on, and readers always find a complete
    log.

    Args:
        mirror: The mirror as it is now.
        oldest: The version.

    Returns:
        How many files were deleted.

    Raises:
        DamagedFileError: The log is not complete.
        LakeUnavailableError: The storage refuses.
    """
    start, doomed = cut_at(mirror.url, oldest)
    if not doomed:
        return 0
    beginning = beginning_of(mirror)
    if beginning is None or beginning.mirror.snapshot.version >= start:
        forget_beginning(mirror.url)
    else:
        keep_beginning(beginning.mirror.snapshot, beginning.emptied_at)
    for url in doomed:
        delete_file(url)
    return len(doomed)
