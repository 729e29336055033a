"""The state of a table's mirror after an update, and what it waits for.
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
    """The state of a table's mirror after an update."""

    mirror: Mirror | None
    reached: MirrorPosition | None = None
    """The position up to which it equals the table; None if it is blocked before something."""
    commits: int = 0
    behind: str | None = None
    """Why it goes no further, or why there is no mirror, and what ends that."""
    needs_dump: bool = False
    """Whether a dump of the table ends that."""
    error: ErrorFacts | None = None
    """What is wrong with the mirror; None if it only waits."""
    reason: str | None = None
    """`behind` without the part about what ends it."""
    is_unwanted: bool = False
    """Whether the next changes will never be published."""


class NotYetError(Exception):
    """The next step has to wait until more is published; the message has the details."""


class OvertakenError(Exception):
    """Another process has updated the mirror past this one's state."""


class Following(Protocol):
    """What the updater of one table needs from its source (`follow.py` implements it)."""

    lake: str
    """The lake of the mirrors."""
    changes_lake: str
    """The lake of the change tables, which is another one if a mirror is made only for a query."""
    source: str
    schema_events: SchemaEvents
    published: Published
    mode: Mode
    locks: MirrorLocks
    renames: Callable[[TableName], Renames]
    limits: MirrorLimits

    def follow(self, table: TableName, until: Order | None = None) -> MirrorProgress:
        """Updates the mirror of another table, from which rows are moved."""
