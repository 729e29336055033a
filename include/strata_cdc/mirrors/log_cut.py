"""The old end of a mirror's log cut off: commits and checkpoints in front of what vacuum keeps readable.
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
    """Deletes what of the log no state needs from a version on, and keeps aside where the mirror's history begins.

    The log then begins with the last checkpoint in front of that version. Whoever asks holds the mirror's lock. May be
    killed anywhere, and repeated: the log is deleted from its old end on, and readers find a whole one.

    Args:
        mirror: The mirror as it is now.
        oldest: The version.

    Returns:
        How many files were deleted.

    Raises:
        DamagedFileError: The log is not whole.
        LakeUnavailableError: The storage refuses.
    """
    start, doomed = cut_at(mirror.url, oldest)
    if not doomed:
        return 0
    found = beginning_of(mirror)
    if found is None or found.mirror.snapshot.version >= start:
        forget_beginning(mirror.url)
    else:
        keep_beginning(found.mirror.snapshot, found.emptied_at)
    for url in doomed:
        delete_file(url)
    return len(doomed)
