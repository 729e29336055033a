"""The beginning of a mirror's history: its oldest state from which on all changes are known, and whose rows every
reader of Parquet can read.
Not here: what has changed since (`history.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.files.storage import Folder, lake_errors
from strata_cdc.mirrors.histories.kept_beginning import read_beginning
from strata_cdc.mirrors.log import states_since
from strata_cdc.mirrors.table import Mirror

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.mirrors.actions import LogSnapshot
    from strata_cdc.mirrors.position import MirrorPosition

MADE = "CREATE TABLE AS SELECT"
"""The operation of the commit that makes a mirror."""
_EMPTIED = "DELETE"
_TAKES_ROWS = (_EMPTIED, "EXCHANGE PARTITION")


class Beginning(Struct, frozen=True):
    """A state of a mirror, and the later commits that emptied it."""

    mirror: Mirror
    emptied_at: Mapping[int, MirrorPosition]
    """Ordinal -> position of the later commits that removed all rows."""


def beginning_of(mirror: Mirror) -> Beginning | None:
    """The oldest state since the mirror was made from a dump, a CREATE TABLE or another table, all of whose files exist
    and have no dead rows; None if there is none, after a vacuum.

    Raises:
        DamagedFileError: The log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    there = _files(mirror.url)
    first: LogSnapshot | None = None
    emptied: dict[int, MirrorPosition] = {}
    kept = read_beginning(mirror.url)
    for operation, snapshot in states_since(mirror.url, MADE.__eq__, mirror.snapshot.version):
        if kept is not None and operation != MADE and _is_whole(kept.snapshot, there):
            first, emptied = kept.snapshot, dict(kept.emptied_at)
        # What was stored can only be older than the first of these states.
        kept = None
        if operation in _TAKES_ROWS and snapshot.files:
            # If partitions were removed or exchanged, no event shows which rows they had.
            first, emptied = None, {}
        elif first is not None and operation == _EMPTIED:
            emptied[snapshot.position.seq] = snapshot.position
        if first is None and _is_whole(snapshot, there):
            first = snapshot
    return None if first is None else Beginning(Mirror(mirror.source, mirror.table, first), emptied)


def _is_whole(state: LogSnapshot, there: frozenset[str]) -> bool:
    return all(path in there and not file.vector for path, file in state.files.items())


def _files(url: str) -> frozenset[str]:
    folder = Folder.open(f"{url}/data")
    with lake_errors(folder.url):
        return frozenset(f"data/{name}" for name in folder.names())
