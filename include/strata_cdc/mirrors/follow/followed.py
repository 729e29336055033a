"""Where a table's mirror has come to, and what it waits for.
Not here: bringing it there (`follow.py`), the mirrors of a source (`update_mirrors.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.errors import ErrorFacts
    from strata_cdc.mirrors.follow.published import Published
    from strata_cdc.mirrors.follow.schema_events import Order, SchemaEvents
    from strata_cdc.mirrors.limits import MirrorLimits
    from strata_cdc.mirrors.lock import MirrorLocks
    from strata_cdc.mirrors.modes import Mode
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.mirrors.renames import Renames
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import TableName


class MirrorProgress(Struct, frozen=True):
    """Where a table's mirror has come to."""

    mirror: Mirror | None
    reached: MirrorPosition | None = None
    """Up to where it equals the table; None if it stands in front of something."""
    commits: int = 0
    behind: str | None = None
    """Why it goes no further, or why there is none, and what ends that."""
    needs_dump: bool = False
    """Whether a dump of the table ends that."""
    error: ErrorFacts | None = None
    """What is wrong with the mirror; None for one that only waits."""
    reason: str | None = None
    """`behind` without what ends it."""
    is_unwanted: bool = False
    """Whether nothing will ever publish what comes next."""


class NotYetError(Exception):
    """What comes next has to wait until more is published; the message says what."""


class OvertakenError(Exception):
    """Another applier has brought the mirror past where this one was."""


class Following(Protocol):
    """What one table's way asks of its source (`follow.py` has it)."""

    lake: str
    source: str
    happenings: SchemaEvents
    published: Published
    mode: Mode
    locks: MirrorLocks
    renames: Callable[[TableName], Renames]
    limits: MirrorLimits

    def follow(self, table: TableName, until: Order | None = None) -> MirrorProgress:
        """Another table, whose rows go along."""
