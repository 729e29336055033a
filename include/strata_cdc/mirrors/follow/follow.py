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

    from strata_cdc.mirrors.follow.followed import MirrorProgress
    from strata_cdc.mirrors.follow.published import Published
    from strata_cdc.mirrors.follow.schema_events import Order, SchemaEvents
    from strata_cdc.mirrors.limits import MirrorLimits
    from strata_cdc.mirrors.lock import MirrorLocks
    from strata_cdc.mirrors.modes import Mode
    from strata_cdc.mirrors.renames import Renames
    from strata_cdc.schema.model.definition import TableName

_ATTEMPTS: Final = 5
_Found = TypeVar("_Found", "MirrorProgress", "MirrorProgress | None")


class Follower:
    """The mirrors of a source.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        `schema_events`: The events of its tables.
        published: How far their changes are published.
        mode: How new mirrors take changes.
        locks: The lock of a mirror is held from its first commit until the update is complete.
        renames: What happens to the columns of a table that get another name.
        limits: How large the files and commits of mirrors become.
        changes_lake: The lake of the change tables; by default that of the mirrors.
    """

    def __init__(  # noqa: PLR0913  what a follower is made of
        self,
        lake: str,
        source: str,
        schema_events: SchemaEvents,
        published: Published,
        mode: Mode,
        locks: MirrorLocks,
        renames: Callable[[TableName], Renames],
        limits: MirrorLimits,
        *,
        changes_lake: str | None = None,
    ) -> None:
        self.lake = lake
        self.changes_lake = lake if changes_lake is None else changes_lake
        self.source = source
        self.schema_events = schema_events
        self.published = published
        self.mode = mode
        self.locks = locks
        self.renames = renames
        self.limits = limits

    def follow(self, table: TableName, until: Order | None = None) -> MirrorProgress:
        """Updates the mirror of a table as far as possible, or only up to the event at `until`.

        Raises:
            MirrorDivergedError: The changes do not fit the rows.
            DamagedFileError: The mirror is not complete.
            AlreadyRunningError: Another process writes to it all the time.
            LakeUnavailableError: The storage does not answer.
        """
        return self._tried(table, lambda lock: MirrorUpdater(self, table, until, lock).go())

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
        return self._tried(table, lambda lock: MirrorUpdater(self, table, None, lock, at_once).go_by_changes())

    def _tried(self, table: TableName, go: Callable[[ExitStack], _Found]) -> _Found:
        with ExitStack() as lock:
            for _ in range(_ATTEMPTS):
                try:
                    return go(lock)
                except (OvertakenError, CommitConflictError):
                    continue
        raise AlreadyRunningError(
            "others kept changing the mirror at the same time", source=self.source, table=str(table)
        )
