"""Updates one table's mirror along the stream: changes, then a step, then changes, and so on.
Not here: which steps there are (`follow_plan.py`), doing them (`follow_steps.py`), writing (`mirror_writer.py`),
starting again (`follow.py`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata_cdc.errors import StreamHoleError
from strata_cdc.mirrors.ddl_plan import CannotFollowError
from strata_cdc.mirrors.exactness import EXACT
from strata_cdc.mirrors.follow.blocked import NEVER_DUMPED, blocked_by, diverged, is_proven, remedy_of
from strata_cdc.mirrors.follow.follow_plan import plan_follow
from strata_cdc.mirrors.follow.follow_steps import MirrorUpdate, do_step
from strata_cdc.mirrors.follow.followed import BlockReason, MirrorProgress, NotYetError, OvertakenError
from strata_cdc.mirrors.follow.mirror_writer import MirrorWriter
from strata_cdc.mirrors.follow.published_rows import PublishedRows
from strata_cdc.mirrors.rows_from import RowsFrom
from strata_cdc.schema.history.cascades import UNLOGGED
from strata_cdc.schema.model.definition import ROWS_ELSEWHERE
from strata_cdc.tables.current_rows import NO_SEQUENCE_ROW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import ExitStack

    from strata_cdc.mirrors.changes import VersionRange
    from strata_cdc.mirrors.follow.followed import Follow, FollowedSource
    from strata_cdc.mirrors.follow.schema_events import EventOrder, SchemaEvent
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.model.definition import TableName


class MirrorUpdater:
    """One update of one table's mirror; the follower starts again if another process wrote in between.

    An error (CannotFollowError, mostly) ends no update: `MirrorUpdate.lost` has it from then on.

    Args:
        followed: The source.
        follow: Updates the mirror of another table, from which rows are moved.
        table: The table.
        until: The event before which it stops; None: it does not stop.
        lock: Receives the mirror's lock before the first commit.
        at_once: How many updates share the memory of the process.
    """

    def __init__(
        self,
        followed: FollowedSource,
        follow: Follow,
        table: TableName,
        until: EventOrder | None,
        lock: ExitStack,
        at_once: int = 1,
    ) -> None:
        self._followed = followed
        self._table = table
        self._until = until
        writer = MirrorWriter(followed, table, lock, at_once)
        self._update = MirrorUpdate(followed, follow, table, writer, PublishedRows(followed, table, at_once))

    def go_by_changes(self) -> MirrorProgress | None:
        """As `go`, but only if all next events are changes of rows, and the table's keys fit into the memory."""
        mirror = self._update.mirror
        if mirror is None or sum(file.rows for file in mirror.snapshot.files.values()) > self._update.writer.most_rows:
            return None
        if self._cannot_go_on() is not None or not is_proven(mirror, self._followed.schema_events):
            return None
        if not mirror.is_exact:
            return None
        return None if self._pending() else self._end()

    def go(self) -> MirrorProgress:
        """Updates the mirror as far as possible."""
        update = self._update
        update.lost = self._cannot_go_on() or self._inexact()
        is_unlogged = self._followed.schema_events.unlogged(self._table) is not None
        steps = [] if is_unlogged else plan_follow(self._table, self._pending(), self._until)
        self._note_proof()
        for at, step in enumerate(steps):
            if not self._can_reach(step.event, [later.event for later in steps[at:]]):
                break
            try:
                with self._noting_loss():
                    do_step(update, step)
            except NotYetError as error:
                return MirrorProgress(update.mirror, None, update.writer.commits, BlockReason(str(error)))
            if step.event.change is not None:
                update.current = step.event.change
        return self._end()

    # Before the steps ---------------------------------------------------------------------------

    def _cannot_go_on(self) -> BlockReason | None:
        """Why no changes can be applied to the mirror as it is; None if they can."""
        mirror, events = self._update.mirror, self._followed.schema_events
        reason = events.unlogged(self._table)
        if reason is None and mirror is not None and mirror.stopped == UNLOGGED:
            # If the table no longer exists, its foreign keys are not known.
            reason = UNLOGGED
        if reason is not None or mirror is None:
            return None if reason is None else BlockReason(reason)
        if not mirror.definition.has_own_rows:
            return BlockReason(ROWS_ELSEWHERE)
        again = self._update.rows.differ_from(mirror)
        return diverged(mirror, events) or (None if again is None else BlockReason(again))

    def _note_proof(self) -> None:
        """Notes that the mirror is complete: later updates need not read the log of a mirror by an older version."""
        mirror = self._update.mirror
        if mirror is not None and self._update.lost is None and not is_proven(mirror, self._followed.schema_events):
            self._update.commit(lambda at: at.known_from(RowsFrom.UNKNOWN))

    def _inexact(self) -> BlockReason | None:
        """The reason if a mirror of an older version has lost values that its columns do not hold; if not, notes it."""
        mirror = self._update.mirror_in_use
        if mirror is None or mirror.is_exact:
            return None
        lost = mirror.lost_texts()
        if not lost:
            self._update.commit(lambda at: at.with_properties(EXACT, at.position))
            return None
        names = ", ".join(lost)
        return BlockReason(
            f"an older version of Strata has written {names} without dates, labels or bytes that no column holds"
        )

    def _pending(self) -> Sequence[SchemaEvent]:
        """The events that the mirror has not passed yet."""
        mirror, events = self._update.mirror, self._followed.schema_events
        if mirror is None:
            return events.of_table(self._table)
        self._update.current, coming = events.since(mirror)
        return coming

    # Changes and steps --------------------------------------------------------------------------

    def _can_reach(self, event: SchemaEvent, coming: Sequence[SchemaEvent]) -> bool:
        """Applies the changes before an event; False if some of them are not published yet."""
        update, mirror = self._update, self._update.mirror_in_use
        if mirror is None or update.lost is not None:
            return True
        reach = self._followed.published.reach(self._table, mirror.position.seq)
        self._apply(min(event.before, max(reach.seq, mirror.position.seq)))
        if reach.seq >= event.before or update.lost is not None:
            return True
        is_never_published = reach.is_discarded or (reach.is_unwanted and any(event.ends_rows for event in coming))
        if reach.withheld is None or not is_never_published:
            return False
        update.lost = BlockReason(reach.withheld)
        return True

    def _apply(self, until: int) -> None:
        """Applies the published changes up to a transaction, or up to one whose GTID set is no longer known."""
        with self._noting_loss():
            span = self._update.range_to(until)
            if span is not None:
                self._apply_changes(span)

    def _apply_changes(self, span: VersionRange) -> None:
        update = self._update
        for batch in update.rows.batches(span):
            mirror = update.mirror
            if mirror is None or not batch.changes.num_rows:
                continue
            applied = update.rows.applied(mirror, batch.until)
            update.writer.apply(batch, update.position(batch.until), applied)
            if update.mirror is not None and update.mirror.position.schema_version != span.version_id:
                raise OvertakenError

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        """If what is done fails, the rows are not known from here on."""
        try:
            yield
        except (CannotFollowError, StreamHoleError) as error:
            self._update.lost = BlockReason(error.message)
        except Exception as error:  # noqa: BLE001  one table's error must stop no other
            self._update.lost = blocked_by(error, self._table)

    # The end ------------------------------------------------------------------------------------

    def _end(self) -> MirrorProgress:
        update = self._update
        if update.mirror_in_use is not None and update.lost is None:
            reached = self._reach_end(update.mirror_in_use)
            if reached is not None:
                return reached
        current, mirror = update.current, update.mirror
        if update.lost is None and mirror is None and current is not None and current.definition is not None:
            update.lost = BlockReason(NEVER_DUMPED)
        if update.lost is not None:
            return self._blocked(update.lost)
        return MirrorProgress(mirror, None if mirror is None else mirror.position, update.writer.commits)

    def _blocked(self, lost: BlockReason) -> MirrorProgress:
        """The state of a mirror that goes no further, which its log then has; or of a table without a mirror."""
        update, mirror = self._update, self._update.mirror_in_use
        if mirror is not None and mirror.stopped != lost.reason:
            update.commit(lost.marked)
        # Changes by foreign keys without row events would be missing again at once; a table that is not defined, or no
        # longer exists, cannot be read.
        definition = None if update.current is None else update.current.definition
        needs_dump = definition is not None and definition.has_own_rows
        needs_dump = needs_dump and self._followed.schema_events.unlogged(self._table) is None
        remedy = remedy_of(self._followed.published, self._followed.source, self._table, lost)
        blocked = lost.ended_by(remedy, needs_dump=needs_dump)
        return MirrorProgress(update.mirror, None, update.writer.commits, blocked)

    def _reach_end(self, mirror: Mirror) -> MirrorProgress | None:
        """Applies what is published after the last step; None if the rows are lost on the way."""
        update, is_stopped = self._update, mirror.stopped
        reach = self._followed.published.reach(self._table, mirror.position.seq)
        limit = self._until[0] - 1 if self._until is not None else reach.seq
        coming = next(iter(plan_follow(self._table, self._pending(), self._until)), None)
        until = min(reach.seq, limit, reach.seq if coming is None else coming.event.before)
        self._apply(until)
        # What is not published after the requested point does not matter here.
        late_since = reach.withheld if until < limit or self._until is None else None
        if reach.is_discarded and late_since is not None:
            update.lost = BlockReason(late_since)
        mirror = update.mirror or mirror
        if late_since is None and mirror.definition.sequence and mirror.snapshot.live_rows == 0:
            update.lost = BlockReason(NO_SEQUENCE_ROW)
        if update.lost is not None:
            return None
        if is_stopped and late_since is None and self._until is None:
            update.commit(lambda at: at.stopped_for(None))
            mirror = update.mirror or mirror
        position = update.position(max(until, mirror.position.seq))
        blocked = None if late_since is None else BlockReason(late_since)
        return MirrorProgress(mirror, position, update.writer.commits, blocked, reach.is_unwanted)
