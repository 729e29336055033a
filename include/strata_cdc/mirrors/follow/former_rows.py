"""The rows that a table had under its former name, or got from another table: the other mirror as it was then.
Not here: what happens to the rows (`mirrors/apply_ddl.py`), bringing the other mirror there (`mirror_updater.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.mirrors.apply_ddl import CannotFollowError
from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.mirrors.follow.followed import NotYetError
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.engines import discards_rows

if TYPE_CHECKING:
    from strata_cdc.mirrors.follow.followed import Following
    from strata_cdc.mirrors.follow.schema_events import SchemaEvent
    from strata_cdc.schema.model.definition import TableName


def mirror_before(follower: Following, name: TableName, event: SchemaEvent, to: TableName) -> Mirror:
    """The mirror of another table as it was before an event that affects both tables.

    Args:
        follower: The follower of the source.
        name: The other table.
        event: The event of both tables.
        to: The table that gets its rows.

    Raises:
        NotYetError: The other mirror has not come so far.
        CannotFollowError: The other mirror did not have all rows there.
    """
    progress = follower.follow(name, event.order)
    before = Mirror.open_before(follower.lake, follower.source, name, event.seq) if progress.mirror else None
    if progress.reached is not None and progress.reached.seq < event.before and not progress.is_unwanted:
        raise NotYetError(f"{name}, whose rows came to {to}, is not published up to there")
    why = progress.reason or progress.behind
    if why is None and (before is None or before.is_dropped):
        why = "it had no mirror"
    if why is None and before is not None:
        # A mirror that was made again after that point either was followed up to it or was lost before it: the log does
        # not show which.
        is_past = progress.mirror is not None and progress.mirror.position.seq >= event.seq
        why = before.stopped or (
            "its mirror did not come so far" if is_past and _lacks(follower, before, event) else None
        )
    if before is None or why is not None:
        raise CannotFollowError(f"rows of {name} came to {to}, and {why}")
    return before


def _lacks(follower: Following, mirror: Mirror, event: SchemaEvent) -> bool:
    """Whether anything happened to a table between its mirror's last state before an event and the event."""
    name, seq = mirror.table, mirror.position.seq
    change, coming = follower.schema_events.since(mirror)
    if change is None or change.definition is None or any(other.order < event.order for other in coming):
        return True
    if seq >= event.before or discards_rows(change.definition):
        return False
    if follower.published.reach(name, seq).seq < event.before:
        return True
    same = follower.schema_events.same_rows(name, change.version_id)
    span = VersionRange(seq, event.before, change.version_id, change.definition, same)
    if not follower.published.has_changes(name, seq, event.before):
        return False
    changes = PublishedChanges(follower.changes_lake, follower.source, name, follower.published.newest_commit(name))
    return any(batch.changes.num_rows for batch in changes.batches(span))
