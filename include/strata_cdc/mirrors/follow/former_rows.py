"""The rows that a table had under its former name, or that another one gave it: the other mirror as it was then.
Not here: what they become (`mirrors/apply_ddl.py`), how far the other one is brought (`mirror_updater.py`)."""

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


def mirror_before(follower: Following, name: TableName, one: SchemaEvent, to: TableName) -> Mirror:
    """The mirror of another table as it was in front of something that both have part in.

    Args:
        follower: Of the source.
        name: The other table.
        one: What happens to both.
        to: The table that gets its rows.

    Raises:
        NotYetError: It has not come so far.
        CannotFollowError: It did not have all rows there.
    """
    found = follower.follow(name, one.order)
    before = Mirror.open_before(follower.lake, follower.source, name, one.seq) if found.mirror else None
    if found.reached is not None and found.reached.seq < one.before and not found.is_unwanted:
        raise NotYetError(f"{name}, whose rows came to {to}, is not published up to there")
    why = found.reason or found.behind
    if why is None and (before is None or before.is_dropped):
        why = "it had no mirror"
    if why is None and before is not None:
        # What was made anew behind that point was followed up to it, or was lost in front of it: the log does not tell.
        is_past = found.mirror is not None and found.mirror.position.seq >= one.seq
        why = before.stopped or (
            "its mirror did not come so far" if is_past and _lacks(follower, before, one) else None
        )
    if before is None or why is not None:
        raise CannotFollowError(f"rows of {name} came to {to}, and {why}")
    return before


def _lacks(follower: Following, mirror: Mirror, one: SchemaEvent) -> bool:
    """Whether anything became of a table between its mirror's last state in front of something and that."""
    name, seq = mirror.table, mirror.position.seq
    change, coming = follower.happenings.since(mirror)
    if change is None or change.definition is None or any(other.order < one.order for other in coming):
        return True
    if seq >= one.before or discards_rows(change.definition):
        return False
    if follower.published.reach(name, seq).seq < one.before:
        return True
    span = VersionRange(seq, one.before, change.version_id, change.definition)
    intervals = follower.published.intervals(name, seq, one.before)
    changes = PublishedChanges(follower.lake, follower.source, name, follower.published.newest_commit(name))
    return any(batch.changes.num_rows for batch in changes.batches(span, intervals.__contains__))
