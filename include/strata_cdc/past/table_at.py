"""Tables of a source as they were at a moment: copies of their mirrors that follow the published changes to there.
Not here: moments (`moment.py`), copying (`scratch_mirrors.py`), queries (`query.py`).

Everything that happened to a table between its mirror's last state and the moment is done by the follower of mirrors: a
mirror made for a query and a mirror of the lake are the same code.
"""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager
from functools import cached_property
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING
from weakref import finalize

from strata_cdc.errors import PastUnknownError, Usage
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.current import position_now
from strata_cdc.mirrors.follow.follow import Follower
from strata_cdc.mirrors.follow.followed import FollowedSource
from strata_cdc.mirrors.follow.published import PublishedSource
from strata_cdc.mirrors.follow.schema_events import SchemaEvents
from strata_cdc.mirrors.histories.history import history_of
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import Renames
from strata_cdc.mirrors.table import Mirror
from strata_cdc.past.moment import PastMoment
from strata_cdc.past.scratch_mirrors import copy_mirror, wrong_since
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.history.view_history import ViewHistory
from strata_cdc.tables.lifetimes import lifetime_of
from strata_cdc.tables.lost import newest_commits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import sqlalchemy as sa

    from strata_cdc.mirrors.follow.followed import MirrorProgress
    from strata_cdc.mirrors.follow.schema_events import EventOrder
    from strata_cdc.mirrors.histories.former_names import FormerMirror
    from strata_cdc.mirrors.histories.history import MirrorHistory
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.schema.history.versions import TableChange, TrackedPosition
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.schema.model.view import ViewDefinition


class PastTables(AbstractContextManager["PastTables"]):
    """The tables of a source at moments; what is made for them goes with the `with` block."""

    def __init__(self, lake: str, source: str, engine: sa.Engine) -> None:
        self._lake, self._source, self._engine = lake, source, engine
        self._events = SchemaEvents(engine, source)
        self._folder = Path(tempfile.mkdtemp(prefix="strata-sql-"))
        # Who is refused before the `with` block begins, leaves nothing either.
        self._remove_folder = finalize(self, rmtree, self._folder, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self._remove_folder()

    @property
    def folds_names(self) -> bool:
        """Whether the server ignores the case of table names (`lower_case_table_names` is not 0)."""
        return self._tracked is not None and self._tracked.lower_case_table_names != 0

    @property
    def vendor(self) -> Vendor:
        """The vendor of the source's server."""
        return Vendor.MYSQL if self._tracked is None else Flavour.stored(self._tracked.server_version).vendor

    @cached_property
    def _tracked(self) -> TrackedPosition | None:
        return SchemaStore(self._engine).position(self._source)

    @cached_property
    def _views(self) -> ViewHistory:
        store = SchemaStore(self._engine)
        return ViewHistory(store.all_views(self._source), store.all_entries(self._source))

    @property
    def last(self) -> PastMoment:
        """The end of what is tracked."""
        tracked = self._tracked
        return PastMoment(0) if tracked is None else PastMoment(tracked.seq, tracked.gtid_executed)

    def newest(self, names: Iterable[TableName]) -> PastMoment:
        """The last moment that the mirrors of all these tables have reached.

        Raises:
            PastUnknownError: One of them has no mirror, or its mirror has other rows than the table.
            LakeUnavailableError: The storage does not answer.
        """
        positions = []
        for name in names:
            mirror = Mirror.open(self._lake, self._source, name)
            if mirror is None and not any(event.change for event in self._events.of_table(name)):
                raise Usage(
                    "there is no such table, and there was none",
                    source=self._source,
                    table=str(name),
                    remedy=f"`strata schema show --source {self._source}` lists them.",
                )
            if mirror is None:
                raise PastUnknownError(
                    "the table has no mirror, so no position is its newest",
                    source=self._source,
                    table=str(name),
                    remedy="Name it in `mirrors` of the settings and run `strata run`, or name a moment (`--at`). If "
                    f"it is named there, `strata mirror list --source {self._source}` says why it has no mirror.",
                )
            positions.append(position_now(self._lake, mirror))
        first = min(positions, key=lambda position: position.seq)
        return PastMoment(first.seq, first.gtid_executed)

    def definition(self, name: TableName, moment: PastMoment) -> TableDefinition:
        """The definition of a table at a moment.

        Raises:
            Usage: There was no such table.
            PastUnknownError: What the table was is not known.
        """
        changes = [event.change for event in self._events.of_table(name) if event.after <= moment.seq and event.change]
        if not changes or (changes[-1].definition is None and changes[-1].gap is None):
            gone = "did not exist" if not changes else "did not exist any more"
            raise Usage(
                f"the table {gone} at transaction {moment.seq}",
                source=self._source,
                table=str(name),
                gtid=moment.gtid_executed or None,
                remedy=f"`strata schema history --source {self._source}` shows when each table had which name.",
            )
        last = changes[-1]
        if last.definition is None:
            raise self._unknown(name, moment, last.gap or "its definition is not known")
        return last.definition

    def view(self, name: TableName, moment: PastMoment) -> ViewDefinition | None:
        """The definition of a view at a moment; None if the name was no view's.

        Raises:
            PastUnknownError: There may have been a view, and its text is not known.
        """
        changes = [event.change for event in self._events.of_table(name) if event.after <= moment.seq and event.change]
        view = self._views.find(name, moment.seq)
        if view is None or (changes and changes[-1].definition is not None):
            return None
        if view.definition is None:
            raise PastUnknownError(
                f"the text of the view at transaction {moment.seq} is not known: no statement of the stream and no "
                "snapshot before it has it",
                source=self._source,
                table=str(name),
                gtid=moment.gtid_executed or None,
                remedy=f"`strata snapshot --source {self._source}` reads the texts of views, from then on, if the user "
                "has SHOW VIEW; for earlier moments, name the tables of the view.",
            )
        return view.definition

    def later_name(self, name: TableName, seq: int, moment: PastMoment) -> TableName:
        """The name at a moment of the table that had a name after an earlier transaction; that name if no table had it.

        Args:
            name: What it was called.
            seq: Ordinal of that transaction.
            moment: Of the query.

        Raises:
            Usage: The table did not exist any more at the moment.
        """
        then = [change for change in self._table_changes if change.name == name and _last(change) <= seq]
        if not then or then[-1].definition is None:
            return name
        changes = [change for change in self._table_changes if _last(change) <= moment.seq]
        now = name
        for _, group in groupby((change for change in changes if _last(change) > seq), lambda change: change.order):
            moved = {change.renamed_from: change.name for change in group if change.renamed_from is not None}
            now = moved.get(now, now)
        lifetime = lifetime_of(changes, now)
        if lifetime is None or not lifetime.was_called(name, seq + 1):
            raise Usage(
                f"the table that had this name at transaction {seq} did not exist any more at transaction {moment.seq}",
                source=self._source,
                table=str(name),
                gtid=moment.gtid_executed or None,
                remedy="Name a moment of the query at which it did: `--at`, not after the end of the range.",
            )
        return now

    @cached_property
    def _table_changes(self) -> Sequence[TableChange]:
        return table_changes_of(self._engine, self._source)

    def rows(self, name: TableName, moment: PastMoment) -> Mirror:
        """A mirror with the rows of a table at a moment.

        Raises:
            PastUnknownError: The rows are not known there; the message has the reason, and what to run.
            DamagedFileError: The lake has lost files of the mirror, or of the change table.
            LakeUnavailableError: The storage does not answer.
        """
        return self._followed(name, moment)[0]

    def history(self, name: TableName, moment: PastMoment) -> MirrorHistory:
        """The versions of a table's rows up to a moment.

        Raises:
            PastUnknownError: The rows are not known at the moment; the message has the reason, and what to run.
            Usage: No state of the mirror is left with which a history could begin.
            DamagedFileError: The lake has lost files of the mirror, or of the change table.
            LakeUnavailableError: The storage does not answer.
        """
        mirror, reached, copies = self._followed(name, moment)
        engine, source = self._engine, self._source
        # DuckDB may run in another working directory.
        lake = self._lake if "://" in self._lake else str(Path(self._lake).absolute())
        commits = newest_commits(source, engine)
        changes, removals = self._table_changes, removals_of(engine, source)
        return history_of(lake, mirror, changes, removals, commits, reached, self._former(copies))

    def _former(self, copies: Path) -> FormerMirror:
        """Opens mirrors of former names of a table: those that were copied with it, or those of the lake."""

        def opened(name: TableName, seq: int) -> Mirror | None:
            if wrong_since(self._lake, self._source, name, seq - 1) is not None:
                return None
            mirrors = (Mirror.open_before(lake, self._source, name, seq) for lake in (str(copies), self._lake))
            # A mirror that was not followed up to the RENAME is not the one from which rows came.
            return next((mirror for mirror in mirrors if mirror is not None and mirror.stopped is None), None)

        return opened

    def _followed(self, name: TableName, moment: PastMoment) -> tuple[Mirror, MirrorPosition, Path]:
        """A copy of the table's mirror at a moment, its position there, and the folder of all copies made for it."""
        definition = self.definition(name, moment)
        wrong = wrong_since(self._lake, self._source, name, moment.seq)
        if wrong is not None:
            raise self._unknown(name, moment, f"its mirror was found to have other rows than the table: {wrong}")
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        follower = _PastFollower(
            self._lake, scratch, self._source, self._events.up_to(moment.seq), self._published, moment.seq
        )
        progress = follower.follow(name, (moment.seq + 1, AFTER_ALL, AFTER_ALL))
        why = None if progress.blocked is None else progress.blocked.reason
        mirror, reached = progress.mirror, progress.reached
        if why is None and (mirror is None or reached is None or reached.seq != moment.seq):
            why = "it has not been published up to there"
        if why is not None or mirror is None or reached is None:
            raise self._unknown(name, moment, why or "")
        if mirror.definition != definition:
            raise self._unknown(name, moment, "the schema history and the mirror disagree about its columns")
        return mirror, reached, scratch

    @cached_property
    def _published(self) -> PublishedSource:
        return PublishedSource(self._engine, self._source, LandedStream.open(self._lake, self._source))

    def _unknown(self, name: TableName, moment: PastMoment, why: str) -> PastUnknownError:
        return PastUnknownError(
            f"the rows of the table at transaction {moment.seq} are not known: {why}",
            source=self._source,
            table=str(name),
            gtid=moment.gtid_executed or None,
            remedy=f"`strata mirror list --source {self._source}` shows from where to where its rows are known, and "
            f"`strata intervals --source {self._source}` what is not published; `strata run` publishes it"
            + (", `strata dump` reads rows that no log has, from then on." if self._published.has_server else "."),
        )


def _last(change: TableChange) -> int:
    """Ordinal of the last transaction once a change has happened."""
    return change.order[0] if change.order[1] > 0 else change.order[0] - 1


class _PastFollower(Follower):
    """Follows copies of mirrors; a table from which rows are moved is copied once its rows are needed.

    Args:
        scratch: The folder of the copies.
        events: The events of its tables up to the moment.
        published: How far their changes are published.
        seq: Ordinal of the last transaction of the moment.
    """

    def __init__(
        self, lake: str, scratch: Path, source: str, events: SchemaEvents, published: PublishedSource, seq: int
    ) -> None:
        super().__init__(
            FollowedSource(
                lake=str(scratch),
                changes_lake=lake,
                source=source,
                schema_events=events,
                published=published,
                mode=Mode.DELETION_VECTORS,
                locks=MirrorLocks(str(scratch), source),
                renames=lambda _: Renames.COPY,
                limits=MirrorLimits(),
            )
        )
        self._scratch, self._seq = scratch, seq
        self._copied: set[TableName] = set()

    def follow(self, table: TableName, until: EventOrder | None = None) -> MirrorProgress:
        """As `Follower.follow`, for the copy of the table's mirror."""
        if table not in self._copied:
            self._copied.add(table)
            seq = self._seq if until is None else min(self._seq, until[0] - 1)
            copy_mirror(self.followed.changes_lake, self._scratch, self.followed.source, table, seq)
        return super().follow(table, until)
