"""The state of a table's mirror after an update, and why it goes no further.
Not here: bringing it there (`follow.py`), the mirrors of a source (`update_mirrors.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import MirrorDivergedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.errors import ErrorFacts
    from strata_cdc.mirrors.follow.published import PublishedSource
    from strata_cdc.mirrors.follow.schema_events import EventOrder, SchemaEvents
    from strata_cdc.mirrors.limits import MirrorLimits
    from strata_cdc.mirrors.lock import MirrorLocks
    from strata_cdc.mirrors.modes import Mode
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.mirrors.renames import Renames
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import TableName

    Follow = Callable[[TableName, EventOrder | None], "MirrorProgress"]
    """Updates the mirror of a table, only up to an event if that is given."""


class BlockReason(Struct, frozen=True):
    """Why a mirror is blocked at its position."""

    reason: str
    error: ErrorFacts | None = None
    """What is wrong with it; None if it only waits, or if the only problem is that the log does not show the rows."""
    remedy: str | None = None
    """What ends that; None: the next update, once its reason is gone."""
    needs_dump: bool = False
    """Whether a dump of the table ends that."""

    @property
    def text(self) -> str:
        """The reason, and what ends it."""
        return self.reason if self.remedy is None else f"{self.reason}; {self.remedy}"

    @property
    def is_divergence(self) -> bool:
        """Whether the mirror's rows are not its table's."""
        return self.error is not None and self.error.error == MirrorDivergedError.__name__

    def marked(self, mirror: Mirror) -> Mirror:
        """The mirror with this mark in its log."""
        return mirror.diverged_for(self.reason) if self.is_divergence else mirror.stopped_for(self.reason)

    def ended_by(self, remedy: str, *, needs_dump: bool) -> BlockReason:
        """The same with what ends it (`blocked.py`, `remedy_of`)."""
        error = self.error
        if error is not None and needs_dump:
            error = replace(error, remedy=f"{remedy}.")
        return BlockReason(self.reason, error, remedy, needs_dump)


class MirrorProgress(Struct, frozen=True):
    """The state of a table's mirror after an update."""

    mirror: Mirror | None
    reached: MirrorPosition | None = None
    """The position up to which it equals the table; None if it is blocked before something."""
    commits: int = 0
    blocked: BlockReason | None = None
    """Why it goes no further, or why there is no mirror."""
    is_unwanted: bool = False
    """Whether the next changes will never be published."""


class NotYetError(Exception):
    """The next step has to wait until more is published; the message has the details."""


class OvertakenError(Exception):
    """Another process has updated the mirror past this one's state."""


class FollowedSource(Struct, frozen=True):
    """A source whose mirrors are followed."""

    lake: str
    """The lake of the mirrors."""
    changes_lake: str
    """The lake of the change tables, which is another one if a mirror is made only for a query."""
    source: str
    """Its name."""
    schema_events: SchemaEvents
    published: PublishedSource
    mode: Mode
    """How new mirrors take changes."""
    locks: MirrorLocks
    """The lock of a mirror is held from its first commit until the update is complete."""
    renames: Callable[[TableName], Renames]
    """What happens to the columns of a table that get another name."""
    limits: MirrorLimits
    """How large the files and commits of mirrors become."""
