"""Keeps the log of a Delta table short to which many small commits are made.
Not here: when (`pipeline/housekeep/merge_intervals.py`), the logs of mirrors (`mirrors/compact.py`)."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import delete_file, file_times
from strata_cdc.tables.delta.log import CHECKPOINTS

if TYPE_CHECKING:
    from deltalake import DeltaTable

_NAME: Final = re.compile(r"(?P<version>\d{20})\.(?P<kind>json|checkpoint\.parquet)")
_COMMITS: Final = 100
"""A multiple of the commits between two checkpoints."""
_LOG_HOURS: Final = 7 * 24
"""Readers that follow commits, mirrors among them, and are later have to read the table anew."""
_HOUR_MICROS: Final = 3_600_000_000
_FORGET_REMOVED: Final = "delta.deletedFileRetentionDuration"


def trim_if_due(table: DeltaTable, url: str) -> None:
    """Once in a hundred commits, after deltalake's checkpoint, deletes the commits that came before an older one: each
    commit lists the log, and would take longer with every commit before it.

    What fails is tried again a hundred commits later. Upkeep that has merged files of the table cuts its log itself, as
    far as its mirror has followed: then this does nothing.
    """
    if table.version() % _COMMITS == 0 and _FORGET_REMOVED not in table.metadata().configuration:
        with suppress(LakeUnavailableError):
            trim_log(table, url, hours=_LOG_HOURS, needed=None)


def trim_log(table: DeltaTable, url: str, *, hours: int, needed: int | None) -> int:
    """Deletes the commits before a checkpoint that is so old; that checkpoint and what follows stay.

    The oldest files go first: a process that dies leaves a log that can be read.

    Args:
        url: Its folder.
        hours: The age.
        needed: Commits after this version stay; None: all before the checkpoint may go.

    Returns:
        The number of deleted files.
    """
    log = f"{url}/_delta_log"
    before = time.time_ns() // 1000 - hours * _HOUR_MICROS
    times = file_times(log)
    kinds = {(int(name["version"]), file): name["kind"] for file in times if (name := _named(file))}
    old = [version for (version, file), kind in kinds.items() if kind != "json" and times[file] < before]
    if not old:
        return 0
    last = min(max(old) - 1, table.version() if needed is None else needed)
    gone = sorted(key for key in kinds if key[0] <= last)
    for _, file in gone:
        delete_file(file)
    return len(gone)


def keep_short(table: DeltaTable, hours: int) -> bool:
    """Sets after how many hours checkpoints no longer name removed files, and in a table of an older version of Strata
    how often there is one; a commit, unless it is set already.

    Raises:
        DeltaError: Another process committed meanwhile, or it cannot be done.
    """
    known = table.metadata().configuration
    wanted = {**CHECKPOINTS, **known, _FORGET_REMOVED: f"interval {hours} hours"}
    if wanted == known:
        return False
    table.alter.set_table_properties({name: value for name, value in wanted.items() if known.get(name) != value})
    return True


def _named(file: str) -> re.Match[str] | None:
    return _NAME.fullmatch(file.rpartition("/")[2])
