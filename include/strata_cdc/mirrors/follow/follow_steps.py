"""What is done at each step of a mirror's plan: a function for each action.
Not here: which steps there are (`follow_plan.py`), their order (`mirror_updater.py`), what a DDL does to rows
(`mirrors/apply_ddl.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.mirrors.apply_ddl import altered, converted_rows, emptied, rearranged, rows_held
from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.mirrors.ddl_plan import CannotFollowError, refuse_unknown
from strata_cdc.mirrors.follow.blocked import NEVER_DUMPED
from strata_cdc.mirrors.follow.follow_plan import FollowAction, FollowStep
from strata_cdc.mirrors.follow.followed import NotYetError
from strata_cdc.mirrors.layout import mirror_schema
from strata_cdc.mirrors.rows_from import RowsFrom
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.engines import discards_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from strata_cdc.mirrors.follow.followed import BlockReason, Follow, FollowedSource
    from strata_cdc.mirrors.follow.mirror_writer import MirrorWriter
    from strata_cdc.mirrors.follow.published_rows import PublishedRows
    from strata_cdc.mirrors.follow.schema_events import SchemaEvent
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import TableName


class MirrorUpdate(Struct):
    """How far the update of a table's mirror has come."""

    followed: FollowedSource
    follow: Follow
    table: TableName
    writer: MirrorWriter
    rows: PublishedRows
    current: TableChange | None = None
    """The last change of the table at the mirror's position."""
    lost: BlockReason | None = None
    """Why the rows are not known from here on; None if they are known. Then nothing more is applied, until a step makes
    the rows known again; if none does, the mirror is blocked in the end."""

    @property
    def mirror(self) -> Mirror | None:
        """The mirror as it is now; None if there is none."""
        return self.writer.mirror

    @property
    def mirror_in_use(self) -> Mirror | None:
        """The mirror, if its table exists."""
        mirror = self.writer.mirror
        return None if mirror is None or mirror.is_dropped else mirror

    def position(self, seq: int, version_id: int | None = None) -> MirrorPosition:
        """The position of an ordinal in the stream.

        Args:
            seq: The ordinal.
            version_id: The table's version there; by default that of its last change.

        Raises:
            StreamHoleError: Its segment was deleted because of its age, and nothing else has the position.
        """
        known = self.current.version_id if self.current is not None else 0
        mirror = self.writer.mirror
        if mirror is not None and seq == mirror.position.seq and version_id is None:
            # Its segment may have been deleted.
            return replace(mirror.position, schema_version=known)
        return self.followed.published.position(seq, known if version_id is None else version_id)

    def range_to(self, until: int) -> VersionRange | None:
        """The range between the mirror and a transaction; None if it has no rows for the mirror."""
        mirror, change = self.writer.mirror, self.current
        if mirror is None or change is None or change.definition is None or until <= mirror.position.seq:
            return None
        same = self.followed.schema_events.same_rows(self.table, change.version_id)
        return VersionRange(mirror.position.seq, until, change.version_id, change.definition, same)

    def commit(self, change: Callable[[Mirror], Mirror]) -> None:
        """Makes one commit. A mirror that is already blocked stays so, whichever program has written since.

        Raises:
            StrataError: As `MirrorWriter.commit`.
        """
        self.writer.commit(change, refuses_foreign=self.lost is None)

    def make(
        self,
        change: TableChange,
        rows: Iterable[pa.Table],
        position: MirrorPosition,
        rows_from: RowsFrom = RowsFrom.CREATE,
    ) -> None:
        """Makes the mirror anew: whatever its rows were, they are known from here on.

        Raises:
            StrataError: As `MirrorWriter.make`.
        """
        if change.definition is not None:
            self.writer.make(change.definition, rows, position, rows_from)
            self.lost = None


def do_step(update: MirrorUpdate, step: FollowStep) -> None:
    """Does what a step says; all changes before its event have been applied.

    Raises:
        CannotFollowError: The rows are not known after the event.
        NotYetError: It has to wait until more is published.
        OvertakenError: Another process has written in between.
        StrataError: The mirror cannot be read or written.
    """
    change = step.event.change
    if change is None:
        _WITHOUT_CHANGE[step.action](update, step.event)
    else:
        _WITH_CHANGE[step.action](update, step.event, change)


# Changes of the table ---------------------------------------------------------------------------


def _forget(_: MirrorUpdate, __: SchemaEvent, change: TableChange) -> None:
    raise CannotFollowError(change.gap or "")


def _drop(update: MirrorUpdate, event: SchemaEvent, change: TableChange) -> None:
    """The table is dropped or has another name."""
    if update.mirror_in_use is not None:
        after, lost = update.position(event.after, change.version_id), update.lost
        # Two commits: an update that moves the rows to another name finds the first one.
        update.commit(lambda at: at.stopped_for(None) if lost is None else lost.marked(at))
        update.commit(lambda at: at.dropped(after))
    update.lost = None


def _begin(update: MirrorUpdate, event: SchemaEvent, change: TableChange) -> None:
    """The mirror gets the rows that the statement adds, whatever rows it had before."""
    position = update.position(event.after, change.version_id)
    if update.mirror_in_use is None or change.effect.makes_table:
        update.make(change, update.rows.added_by(event, change), position)
    else:
        _remove_all(update, change, position)


def _take_over(update: MirrorUpdate, event: SchemaEvent, change: TableChange) -> None:
    """The mirror gets the rows of another table, which has this name now."""
    position = update.position(event.after, change.version_id)
    before = _mirror_before(update, change.renamed_from or change.name, event)
    update.make(change, converted_rows(before, change), position, RowsFrom.MIRROR)


def _alter(update: MirrorUpdate, event: SchemaEvent, change: TableChange) -> None:
    """The effect of the statement is applied to the existing rows."""
    if update.mirror_in_use is None:
        raise CannotFollowError(NEVER_DUMPED if update.lost is None else update.lost.reason)
    if update.lost is None:
        after = update.position(event.after, change.version_id)
        renames = update.followed.renames(update.table)
        update.commit(lambda at: altered(at, change, after, renames))


def _remove_all(update: MirrorUpdate, change: TableChange, position: MirrorPosition) -> None:
    """The mirror has no rows from here on, and they are known."""
    definition, renames = change.definition, update.followed.renames(update.table)
    if definition is not None:
        update.commit(lambda at: emptied(at, position, definition, renames))
        update.lost = None


# Rows without row events ------------------------------------------------------------------------


def _lose(update: MirrorUpdate, event: SchemaEvent) -> None:
    change = update.current
    # If the table no longer exists, its rows are not needed.
    if change is None or change.definition is not None or change.gap is not None:
        raise CannotFollowError(event.lost or "")


def _empty(update: MirrorUpdate, event: SchemaEvent) -> None:
    """All rows are removed: whatever they were, the rows are known from here on."""
    current, mirror = update.current, update.mirror
    if event.removal is not None:
        is_empty = mirror is not None and update.lost is None and mirror.snapshot.live_rows == 0
        refuse_unknown(event.removal, is_empty=is_empty)
    if current is None or current.definition is None:
        return
    position = update.position(event.after)
    if update.mirror_in_use is None:
        update.make(current, [], position)
    else:
        _remove_all(update, current, position)


def _rearrange(update: MirrorUpdate, event: SchemaEvent) -> None:
    """The rows of partitions are removed, or exchanged with those of another table."""
    effect, mirror = event.removal, update.mirror
    held = None if effect is None else effect.held
    if effect is None or held is None or update.lost is not None:
        return
    position = update.position(event.after)
    other = effect.exchanged_with
    if other is None:
        update.commit(lambda at: rearranged(at, position, held))
        return
    before = _mirror_before(update, other, event)
    if mirror is None or mirror_schema(before.definition) != mirror_schema(mirror.definition):
        raise CannotFollowError(f"{other}, whose rows it took, has other columns")
    if effect.takes_partition and update.current is not None:
        update.make(update.current, rows_held(before, held), position, RowsFrom.MIRROR)
    else:
        update.commit(lambda at: rearranged(at, position, held, before.exact_batches(), "EXCHANGE PARTITION"))


_WITH_CHANGE: Final[Mapping[FollowAction, Callable[[MirrorUpdate, SchemaEvent, TableChange], None]]] = {
    FollowAction.FORGET: _forget,
    FollowAction.DROP: _drop,
    FollowAction.BEGIN: _begin,
    FollowAction.TAKE_OVER: _take_over,
    FollowAction.ALTER: _alter,
}
_WITHOUT_CHANGE: Final[Mapping[FollowAction, Callable[[MirrorUpdate, SchemaEvent], None]]] = {
    FollowAction.LOSE: _lose,
    FollowAction.EMPTY: _empty,
    FollowAction.REARRANGE: _rearrange,
}


def _mirror_before(update: MirrorUpdate, name: TableName, event: SchemaEvent) -> Mirror:
    """The mirror of another table as it was before an event that affects both tables.

    Raises:
        NotYetError: The other mirror has not come so far.
        CannotFollowError: The other mirror did not have all rows there.
    """
    followed, to = update.followed, update.table
    progress = update.follow(name, event.order)
    before = Mirror.open_before(followed.lake, followed.source, name, event.seq) if progress.mirror else None
    if progress.reached is not None and progress.reached.seq < event.before and not progress.is_unwanted:
        raise NotYetError(f"{name}, whose rows came to {to}, is not published up to there")
    why = None if progress.blocked is None else progress.blocked.reason
    if why is None and (before is None or before.is_dropped):
        why = "it had no mirror"
    if why is None and before is not None:
        # A mirror that was made again after that point either was followed up to it or was lost before it: the log does
        # not show which.
        is_past = progress.mirror is not None and progress.mirror.position.seq >= event.seq
        why = before.stopped or (
            "its mirror did not come so far" if is_past and _lacks(followed, before, event) else None
        )
    if before is None or why is not None:
        raise CannotFollowError(f"rows of {name} came to {to}, and {why}")
    return before


def _lacks(followed: FollowedSource, mirror: Mirror, event: SchemaEvent) -> bool:
    """Whether anything happened to a table between its mirror's last state before an event and the event."""
    name, seq = mirror.table, mirror.position.seq
    change, coming = followed.schema_events.since(mirror)
    if change is None or change.definition is None or any(other.order < event.order for other in coming):
        return True
    if seq >= event.before or discards_rows(change.definition):
        return False
    if followed.published.reach(name, seq).seq < event.before:
        return True
    same = followed.schema_events.same_rows(name, change.version_id)
    span = VersionRange(seq, event.before, change.version_id, change.definition, same)
    if not followed.published.has_changes(name, seq, event.before):
        return False
    changes = PublishedChanges(followed.changes_lake, followed.source, name, followed.published.newest_commit(name))
    return any(batch.changes.num_rows for batch in changes.batches(span))
