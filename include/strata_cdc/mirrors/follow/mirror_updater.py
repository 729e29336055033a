"""Updates one table's mirror along the stream: changes, then an event, then changes, and so on.
Not here: which steps there are (`follow_plan.py`), starting again (`follow.py`), what a DDL does to a mirror
(`mirrors/apply_ddl.py`)."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.errors import StreamHoleError
from strata_cdc.mirrors.applied_files import AppliedFiles
from strata_cdc.mirrors.apply import Applier, refuse_foreign
from strata_cdc.mirrors.apply_ddl import (
    CannotFollowError,
    altered,
    converted_rows,
    emptied,
    put_rows,
    rearranged,
    refuse_unknown,
    rows_held,
)
from strata_cdc.mirrors.changes import PublishedChanges, VersionRange
from strata_cdc.mirrors.exactness import EXACT
from strata_cdc.mirrors.follow.follow_plan import FollowAction, plan_follow
from strata_cdc.mirrors.follow.followed import MirrorProgress, NotYetError, OvertakenError
from strata_cdc.mirrors.follow.former_rows import mirror_before
from strata_cdc.mirrors.follow.loss import NEVER_DUMPED, Loss, diverged, is_proven, loss_by
from strata_cdc.mirrors.follow.schema_events import UNLOGGED
from strata_cdc.mirrors.key_index import BOUND_BYTES
from strata_cdc.mirrors.layout import mirror_schema
from strata_cdc.mirrors.rows_from import RowsFrom
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.engines import discards_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import ExitStack

    import pyarrow as pa

    from strata_cdc.mirrors.follow.follow_plan import FollowStep
    from strata_cdc.mirrors.follow.followed import Following
    from strata_cdc.mirrors.follow.schema_events import Order, SchemaEvent
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.schema.history.table_changes import TableChange
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import HeldRows
    from strata_cdc.schema.model.row_effects import RowEffect


class MirrorUpdater:
    """One update of one table's mirror; the follower starts again if another process wrote in between.

    Args:
        follower: The follower of the source.
        table: The table.
        until: The event before which it stops; None: it does not stop.
        lock: Receives the mirror's lock before the first commit.
        at_once: How many updates share the memory of the process.
    """

    def __init__(
        self, follower: Following, table: TableName, until: Order | None, lock: ExitStack, at_once: int = 1
    ) -> None:
        self._all = follower
        self._at_once = at_once
        self._lock = lock
        self._is_alone = False
        self._table = table
        self._renames = follower.renames(table)
        self._until = until
        self._mirror = Mirror.open(follower.lake, follower.source, table, limits=follower.limits)
        self._applier = None if self._mirror is None else self._applier_of(self._mirror)
        self._current: TableChange | None = None
        """The last change of the table at the mirror's position."""
        self._lost: Loss | None = None
        self._commits = 0
        self._changes: PublishedChanges | None = None
        self._taken = "" if self._mirror is None else self._mirror.position.taken

    def _applier_of(self, mirror: Mirror) -> Applier:
        return Applier(mirror, BOUND_BYTES // self._at_once)

    def go_by_changes(self) -> MirrorProgress | None:
        """As `go`, but only if all next events are changes of rows, and the table's keys fit into the memory."""
        mirror = self._mirror
        # The index holds the keys of all these rows, at 16 bytes each at most.
        most_rows = BOUND_BYTES // self._at_once // 16
        if mirror is None or sum(file.rows for file in mirror.snapshot.files.values()) > most_rows:
            return None
        if self._cannot_go_on() is not None or not is_proven(mirror, self._all.happenings):
            return None
        if not mirror.is_exact:
            return None
        return None if self._pending() else self._end()

    def go(self) -> MirrorProgress:
        """Updates the mirror as far as possible."""
        self._lost = self._cannot_go_on() or self._inexact()
        is_unlogged = self._all.happenings.unlogged(self._table) is not None
        steps = [] if is_unlogged else plan_follow(self._table, self._pending(), self._until)
        self._note_proof()
        for at, step in enumerate(steps):
            if not self._can_reach(step.event, [one.event for one in steps[at:]]):
                break
            try:
                self._happen(step)
            except NotYetError as error:
                return MirrorProgress(self._mirror, None, self._commits, str(error))
        return self._end()

    def _is_asked(self, one: SchemaEvent) -> bool:
        return self._until is None or one.order < self._until

    def _cannot_go_on(self) -> Loss | None:
        """Why no changes can be applied to the mirror as it is; None if they can."""
        mirror = self._mirror
        reason = self._all.happenings.unlogged(self._table)
        if reason is None and mirror is not None and mirror.stopped == UNLOGGED:
            # If the table no longer exists, its foreign keys are not known.
            reason = UNLOGGED
        if reason is not None or mirror is None:
            return None if reason is None else Loss(reason)
        again = self._published_again()
        return diverged(mirror, self._all.happenings) or (None if again is None else Loss(again))

    def _note_proof(self) -> None:
        """Notes that the mirror is complete: later updates need not read the log of a mirror by an older version."""
        mirror = self._mirror
        if mirror is not None and self._lost is None and not is_proven(mirror, self._all.happenings):
            self._commit(lambda at: at.known_from(RowsFrom.UNKNOWN))

    def _inexact(self) -> Loss | None:
        """The reason if a mirror of an older version has lost values that its columns do not hold; if not, notes it."""
        mirror = self._mirror
        if mirror is None or mirror.is_dropped or mirror.is_exact:
            return None
        lost = mirror.lost_texts()
        if not lost:
            self._commit(lambda at: at.with_properties(EXACT, at.position))
            return None
        names = ", ".join(lost)
        return Loss(
            f"an older version of Strata has written {names} without dates, labels or bytes that no column holds"
        )

    def _published_again(self) -> str | None:
        """The reason if an interval that the mirror has applied now has other rows; None if not."""
        taken = AppliedFiles.read(self._taken)
        if taken is None or self._mirror is None or self._mirror.is_dropped:
            return None
        discarded = self._all.published.discarded(self._table, taken.first, taken.last)
        if discarded is not None:
            return discarded
        known = self._all.published.newest_commit(self._table)
        if known is not None and known <= taken.version:
            return None
        changes = self._opened()
        if changes.version <= taken.version or changes.still_has(taken):
            return None
        return "an interval that the mirror has applied was published again, with other rows"

    def _opened(self) -> PublishedChanges:
        if self._changes is None:
            known = self._all.published.newest_commit(self._table)
            self._changes = PublishedChanges(self._all.lake, self._all.source, self._table, known, self._all.limits)
        return self._changes

    def _be_alone(self) -> None:
        """From here on no other process writes to the mirror: it is as it was opened, or this update starts again."""
        if self._is_alone:
            return
        self._lock.enter_context(self._all.locks.alone(self._table, purpose="updating this mirror"))
        self._is_alone = True
        now = Mirror.open(self._all.lake, self._all.source, self._table, limits=self._all.limits)
        if (now and now.snapshot.version) != (self._mirror and self._mirror.snapshot.version):
            raise OvertakenError

    def _pending(self) -> list[SchemaEvent]:
        """The events that the mirror has not passed yet."""
        if self._mirror is None:
            return list(self._all.happenings.of(self._table))
        self._current, coming = self._all.happenings.since(self._mirror)
        return coming

    def _can_reach(self, one: SchemaEvent, coming: Sequence[SchemaEvent]) -> bool:
        """Applies the changes before an event; False if some of them are not published yet."""
        if self._mirror is None or self._mirror.is_dropped or self._lost is not None:
            return True
        reach = self._all.published.reach(self._table, self._mirror.position.seq)
        self._apply(min(one.before, max(reach.seq, self._mirror.position.seq)))
        if reach.seq >= one.before or self._lost is not None:
            return True
        if reach.withheld and (reach.is_discarded or (reach.is_unwanted and any(one.ends_rows for one in coming))):
            self._lost = Loss(reach.withheld)
        return self._lost is not None

    def _apply(self, until: int) -> None:
        """Applies the published changes up to a transaction, or up to one whose GTID set is no longer known."""
        try:
            self._apply_published(until)
        except StreamHoleError as error:
            self._lost = Loss(error.message)
        except Exception as error:  # noqa: BLE001  one table's error must stop no other
            self._lost = loss_by(error, self._table)

    def _apply_published(self, until: int) -> None:
        applier, span = self._applier, self._span(until)
        if applier is None or span is None or discards_rows(span.definition):
            return
        intervals = self._all.published.intervals(self._table, span.after, until)
        if not intervals:
            return
        changes = self._opened()
        for batch in changes.batches(span, intervals.__contains__, self._at_once):
            if batch.changes.num_rows:
                self._take_note(changes, batch.until)
                self._be_alone()
                self._take(applier.apply(batch.changes, self._position(batch.until), batch.rest))
                if applier.mirror.position.schema_version != span.version_id:
                    raise OvertakenError

    def _take_note(self, changes: PublishedChanges, until: int) -> None:
        """Notes the files of the rows after the changes up to a transaction are applied."""
        mirror, before = self._mirror, AppliedFiles.read(self._taken)
        if mirror is None:
            return
        last = self._all.published.start_behind(until - 1)
        first = before.first if before is not None else self._all.published.start_behind(mirror.position.seq)
        if first is not None and last is not None:
            self._taken = changes.taken(first, last).text

    def _span(self, until: int) -> VersionRange | None:
        """The range between the mirror and a transaction."""
        mirror, change = self._mirror, self._current
        if mirror is None or change is None or change.definition is None or until <= mirror.position.seq:
            return None
        return VersionRange(mirror.position.seq, until, change.version_id, change.definition)

    def _position(self, seq: int, version_id: int | None = None) -> MirrorPosition:
        known = self._current.version_id if self._current is not None else 0
        mirror = self._mirror
        if mirror is not None and seq == mirror.position.seq and version_id is None:
            # Its segment may have been deleted.
            return replace(mirror.position, schema_version=known, taken=self._taken)
        found = self._all.published.position(seq, known if version_id is None else version_id)
        return replace(found, taken=self._taken)

    def _take(self, mirror: Mirror) -> None:
        before = self._mirror
        if before is None or mirror.snapshot.version != before.snapshot.version:
            self._commits += 1
        self._mirror = mirror

    def _happen(self, step: FollowStep) -> None:
        try:
            self._do(step)
        except (CannotFollowError, StreamHoleError) as error:
            self._lost = Loss(error.message)
        except Exception as error:  # noqa: BLE001  as in `_apply`
            self._lost = loss_by(error, self._table)
        if step.event.change is not None:
            self._current = step.event.change

    def _do(self, step: FollowStep) -> None:
        one = step.event
        if one.change is not None:
            self._change_table(step, one.change)
        elif one.removal is not None:
            self._remove(step, one.removal)
        else:
            self._lose(one.lost or "")

    def _remove(self, step: FollowStep, effect: RowEffect) -> None:
        """Rows are removed or exchanged without row events."""
        refuse_unknown(effect, is_empty=self._is_empty())
        if step.action is FollowAction.EMPTY:
            self._empty(step.event)
        elif self._lost is None and effect.held is not None:
            self._rearrange(step.event, effect, effect.held)

    def _lose(self, reason: str) -> None:
        change = self._current
        # If the table no longer exists, its rows are not needed.
        if change is None or change.definition is not None or change.gap is not None:
            raise CannotFollowError(reason)

    def _rearrange(self, one: SchemaEvent, effect: RowEffect, held: HeldRows) -> None:
        """The rows of partitions are removed, or exchanged with those of another table."""
        position = self._position(one.behind)
        other = effect.exchanged_with
        if other is None:
            self._commit(lambda at: rearranged(at, position, held))
            return
        before = mirror_before(self._all, other, one, self._table)
        if self._mirror is None or mirror_schema(before.definition) != mirror_schema(self._mirror.definition):
            raise CannotFollowError(f"{other}, whose rows it took, has other columns")
        if effect.takes_partition and self._current is not None:
            self._make(self._current, rows_held(before, held), position, RowsFrom.MIRROR)
        else:
            self._commit(lambda at: rearranged(at, position, held, before.exact_batches(), "EXCHANGE PARTITION"))

    def _is_empty(self) -> bool:
        return self._mirror is not None and self._lost is None and self._mirror.snapshot.live_rows == 0

    def _empty(self, one: SchemaEvent) -> None:
        """All rows are removed: whatever they were, the rows are known from here on."""
        if self._current is None or self._current.definition is None:
            return
        # The files that were applied before do not count any more.
        self._taken = ""
        position = self._position(one.behind)
        definition = self._current.definition
        mirror = self._mirror
        if mirror is None or mirror.is_dropped:
            self._make(self._current, [], position)
        elif self._applier is not None:
            self._commit(lambda at: emptied(at, position, definition, self._renames))
        self._lost = None

    def _commit(self, step: Callable[[Mirror], Mirror]) -> None:
        """Makes one commit on the newest state of the mirror; the applier continues from it."""
        applier = self._applier
        if applier is None:
            return
        self._be_alone()
        before = applier.mirror.position
        now = applier.mirror.refreshed()
        if now.position != before:
            raise OvertakenError
        if self._lost is None:
            # A mirror that is already blocked stays so, whichever program has written since.
            refuse_foreign(now)
        applier.mirror = step(now)
        self._take(applier.mirror)

    def _change_table(self, step: FollowStep, change: TableChange) -> None:
        # The position of what was before the stream is not known, and not needed.
        position = partial(self._position, step.event.behind, change.version_id)
        match step.action:
            case FollowAction.FORGET:
                raise CannotFollowError(change.gap or "")
            case FollowAction.DROP:
                self._drop(position)
            case FollowAction.BEGIN:
                self._begin(step.event, change, position())
            case FollowAction.TAKE_OVER:
                self._take_over(step.event, change, position())
            case _:
                self._alter(change, position)

    def _alter(self, change: TableChange, position: Callable[[], MirrorPosition]) -> None:
        """Applies the effect of the statement to the existing rows."""
        if self._mirror is None or self._mirror.is_dropped:
            raise CannotFollowError(NEVER_DUMPED if self._lost is None else self._lost.reason)
        if self._lost is None:
            behind = position()
            self._commit(lambda at: altered(at, change, behind, self._renames))

    def _begin(self, one: SchemaEvent, change: TableChange, position: MirrorPosition) -> None:
        """The mirror gets the rows that the statement adds, whatever rows it had before."""
        if self._mirror is None or self._mirror.is_dropped or change.effect.makes_table:
            self._make(change, self._rows_with(one, change), position)
        elif change.definition is not None:
            definition, self._taken = change.definition, ""
            self._commit(lambda at: emptied(at, replace(position, taken=""), definition, self._renames))
            self._lost = None

    def _drop(self, position: Callable[[], MirrorPosition]) -> None:
        """The table is dropped or has another name."""
        if self._mirror is not None and not self._mirror.is_dropped:
            behind, lost = position(), self._lost
            # Two commits: an update that moves the rows to another name finds the first one.
            self._commit(lambda at: at.stopped_for(None) if lost is None else lost.marked(at))
            self._commit(lambda at: at.dropped(behind))
        self._lost = None

    def _take_over(self, one: SchemaEvent, change: TableChange, position: MirrorPosition) -> None:
        """The mirror gets the rows of another table, which has this name now."""
        before = mirror_before(self._all, change.renamed_from or change.name, one, self._table)
        self._make(change, converted_rows(before, change), position, RowsFrom.MIRROR)

    def _rows_with(self, one: SchemaEvent, change: TableChange) -> Iterable[pa.Table]:
        """The rows that CREATE TABLE ... SELECT has added in the transaction that made the table."""
        if change.definition is None or not one.is_statement or discards_rows(change.definition):
            return
        reach = self._all.published.reach(self._table, one.before)
        if reach.is_discarded and reach.seq < one.seq:
            raise CannotFollowError(reach.withheld or "")
        if reach.seq < one.seq:
            raise NotYetError(reach.withheld or "it is not published yet")
        changes = self._opened()
        span = VersionRange(one.before, one.seq, change.version_id, change.definition)
        intervals = self._all.published.intervals(self._table, one.before, one.seq)
        for batch in changes.batches(span, intervals.__contains__):
            for piece in chain([batch.changes], batch.rest()):
                yield put_rows(piece, change.definition)

    def _make(
        self,
        change: TableChange,
        rows: Iterable[pa.Table],
        position: MirrorPosition,
        rows_from: RowsFrom = RowsFrom.CREATE,
    ) -> None:
        if change.definition is None:
            return
        self._taken = ""
        self._be_alone()
        made = Mirror.create(
            self._all.lake,
            self._all.source,
            self._table,
            change.definition,
            rows,
            replace(position, taken=""),
            mode=self._all.mode if self._mirror is None else self._mirror.mode,
            renames=self._renames,
            replacing=self._mirror,
            rows_from=rows_from,
            limits=self._all.limits,
        )
        self._take(made)
        self._applier = self._applier_of(made)
        self._lost = None

    def _end(self) -> MirrorProgress:
        mirror = self._mirror
        if mirror is None or (self._lost is not None and mirror.is_dropped):
            return self._stands(mirror)
        if mirror.is_dropped:
            return MirrorProgress(mirror, mirror.position, self._commits)
        return self._reach_end(mirror) if self._lost is None else self._stop(mirror, self._lost)

    def _stop(self, mirror: Mirror, lost: Loss) -> MirrorProgress:
        if mirror.stopped != lost.reason:
            self._commit(lost.marked)
        return self._stands(self._mirror)

    def _stands(self, mirror: Mirror | None) -> MirrorProgress:
        is_there = self._current is not None and self._current.definition is not None
        if self._lost is None and mirror is None and is_there:
            self._lost = Loss(NEVER_DUMPED)
        if self._lost is None:
            return MirrorProgress(mirror)
        # Changes by foreign keys without row events would be missing again at once; a table that is not defined, or no
        # longer exists, cannot be read.
        needs_dump = is_there and self._all.happenings.unlogged(self._table) is None
        return self._lost.followed(self._all.source, self._table, mirror, self._commits, needs_dump=needs_dump)

    def _reach_end(self, mirror: Mirror) -> MirrorProgress:
        reach = self._all.published.reach(self._table, mirror.position.seq)
        limit = self._until[0] - 1 if self._until is not None else reach.seq
        coming = next((one for one in self._pending() if self._is_asked(one)), None)
        until = min(reach.seq, limit, reach.seq if coming is None else coming.before)
        self._apply(until)
        # What is not published after the requested point does not matter here.
        behind = reach.withheld if until < limit or self._until is None else None
        if reach.is_discarded and behind is not None:
            self._lost = Loss(behind)
        if self._lost is not None:
            return self._stop(self._mirror or mirror, self._lost)
        if mirror.stopped and behind is None and self._until is None:
            self._commit(lambda at: at.stopped_for(None))
        position = self._position(max(until, mirror.position.seq))
        return MirrorProgress(self._mirror, position, self._commits, behind, is_unwanted=reach.is_unwanted)
