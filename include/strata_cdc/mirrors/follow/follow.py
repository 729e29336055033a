"""Follows mirrors, one table or several at once: each has its own update along the stream.
Not here: one update (`mirror_updater.py`), which tables there are (`update_mirrors.py`)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TypeVar

from strata_cdc.errors import AlreadyRunningError
from strata_cdc.mirrors.follow.followed import OvertakenError
from strata_cdc.mirrors.follow.mirror_updater import MirrorUpdater
from strata_cdc.tables.port import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.mirrors.follow.followed import FollowedSource, MirrorProgress
    from strata_cdc.mirrors.follow.schema_events import EventOrder
    from strata_cdc.schema.model.definition import TableName

_ATTEMPTS: Final = 5
_Found = TypeVar("_Found", "MirrorProgress", "MirrorProgress | None")


class Follower:
    """Follows the mirrors of a source."""

    def __init__(self, followed: FollowedSource) -> None:
        self.followed = followed

    def follow(self, table: TableName, until: EventOrder | None = None) -> MirrorProgress:
        """Updates the mirror of a table as far as possible, or only up to the event at `until`.

        Raises:
            MirrorDivergedError: The changes do not fit the rows.
            DamagedFileError: The mirror is not complete.
            AlreadyRunningError: Another process writes to it all the time.
            LakeUnavailableError: The storage does not answer.
        """
        return self._tried(table, lambda lock: MirrorUpdater(self.followed, self.follow, table, until, lock).go())

    def follow_changes(self, table: TableName, at_once: int) -> MirrorProgress | None:
        """As `follow`, if the next events are all changes of rows; otherwise nothing is done, and None is returned.

        No other table is read, so several threads may do this at once, each for its own table.

        Args:
            table: The table.
            at_once: The number of such threads: they share the memory that one update may use. If the table needs more
                memory than its share, None is returned too.

        Raises:
            StrataError: As `follow`.
        """
        return self._tried(
            table, lambda lock: MirrorUpdater(self.followed, self.follow, table, None, lock, at_once).go_by_changes()
        )

    def _tried(self, table: TableName, go: Callable[[ExitStack], _Found]) -> _Found:
        with ExitStack() as lock:
            for _ in range(_ATTEMPTS):
                try:
                    return go(lock)
                except (OvertakenError, CommitConflictError):
                    continue
        raise AlreadyRunningError(
            "others kept changing the mirror at the same time", source=self.followed.source, table=str(table)
        )
