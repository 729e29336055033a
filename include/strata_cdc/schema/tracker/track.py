"""The version tracker: a stream of transactions in, versions in stream order out. Only the tracker writes versions.
Not here: reading binlogs (`tracking/track_schema.py`), the effect of a statement on a table
(`schema/replay/stored_catalog.py`, `schema/replay/catalog.py`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.position.sets import Gtid, GtidSet, GtidSetBuilder
from strata_cdc.schema.apply.diff import lengths_in_doubt
from strata_cdc.schema.ddl.context import context_of, statement_text
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.identified_tables import IdentifiedTables, stored_table
from strata_cdc.schema.history.partition_lifetimes import PartitionedTables
from strata_cdc.schema.history.snapshot import APPLIED, USELESS
from strata_cdc.schema.history.versions import (
    EVERY_TABLE,
    SYSTEM_DATABASES,
    SnapshotOutcome,
    TableEntry,
    TrackedPosition,
    Version,
    VersionBatch,
    VersionOrigin,
    VersionPlace,
)
from strata_cdc.schema.model.definition import Unknown
from strata_cdc.schema.replay.stored_catalog import Changed, Replay
from strata_cdc.schema.replay.temporary import TemporaryTables
from strata_cdc.schema.tracker.continuity import has_come, has_not_come, has_passed, hole_before, newest_file
from strata_cdc.schema.tracker.notices import MISSING_NUMBERS, NoticeKind, name_for_people, worst_first
from strata_cdc.schema.tracker.reconcile import outcome_text, reconcile
from strata_cdc.schema.tracker.statement_versions import version_of
from strata_cdc.schema.tracker.stream import TrackReport
from strata_cdc.schema.tracker.tracked_parts import OpenFile, TrackedParts
from strata_cdc.schema.tracker.unknown_tables import UnknownTables
from strata_cdc.schema.tracker.unlogged import LoggedStatement, UnloggedRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.binlog.sources.file_start import FileStart
    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.replay.baseline import Baseline
    from strata_cdc.schema.tracker.reconcile import Reconciliation
    from strata_cdc.schema.tracker.stream import QuietRun, TrackedStatement, TrackedTransaction

FLUSH_VERSIONS: Final = 1000
"""Number of versions that are stored at once: after a crash, at most these have to be read again."""
_UNSEEN: Final = Unknown("a temporary table that was made in what has been tracked before")


class Tracker:
    """Follows one source's stream. Calls are made in stream order: `begin_file`, `take`..., `end_file`, ...,
    `finish`."""

    def __init__(
        self,
        store: VersionStore,
        source: str,
        *,
        baseline: Baseline | None = None,
        exclude: Iterable[str] = (),
        lower_case_table_names: int | None = None,
        sensitive: Sequence[str] = (),
    ) -> None:
        """Continues from the store.

        Args:
            store: Stores the versions.
            source: Name of the source.
            baseline: The schema before the stream; used only if the stream begins now.
            exclude: Databases that do not belong to users, besides the server's own: that of the store.
            lower_case_table_names: Of the server; by default the value of the previous run, or 0.
            sensitive: Patterns of sensitive columns; if there are any, no value of a statement is stored.
        """
        self._store = store
        self._source = source
        self._baseline = baseline
        self._exclude = SYSTEM_DATABASES | set(exclude)
        known = store.position(source)
        self._is_new = known is None
        self._at = known or TrackedPosition(source)
        self._pending: list[SchemaSnapshot] = store.pending_snapshots(source)
        if lower_case_table_names is None and self._is_new and self._pending:
            lower_case_table_names = self._pending[0].lower_case_table_names
        if lower_case_table_names is not None:
            self._at = replace(self._at, lower_case_table_names=lower_case_table_names)
        self._executed = GtidSetBuilder(GtidSet.parse(self._at.gtid_executed))
        self._left_out = self._executed.build().left_out()
        """Numbers of GTIDs below others that had not come when this run began."""
        self._replay = Replay(
            None if self._is_new else store, source, lower_case_table_names=self._at.lower_case_table_names
        )
        stored = None if known is None else partial(stored_table, store, source)
        self._tables = IdentifiedTables(self._at.last_column_id, stored)
        self._partitioned = PartitionedTables(None if known is None else partial(store.partitions, source))
        self._temporary = store.temporary_tables(source)
        """The stored state."""
        self._replay.catalog.temporary = TemporaryTables.of(self._temporary, _UNSEEN)
        self._file: OpenFile | None = None
        self._start: FileStart | None = None
        """The start of the newest file."""
        self._reached = 0
        """Offset in the newest file up to which it has been read."""
        self._versions: list[Version] = []
        self._parts = TrackedParts(store, source)
        self._moved = False
        self._in_doubt: set[TableName] = set()
        """Tables for which a key of unknown length was already reported."""
        self._unknown = UnknownTables(store.names_in_doubt(source), self._exclude)
        self.report = TrackReport(source)
        self._unlogged = UnloggedRows(self._exclude, self.report, self._partitioned, sensitive)

    # The stream ---------------------------------------------------------------------------------

    def begin_file(self, start: FileStart) -> None:
        """A file or segment begins; finds transactions that are missing between it and what came before."""
        before, self._start, self._reached = self._start, start, 0
        self._file = OpenFile(start, seen=GtidSetBuilder(start.previous or GtidSet()))
        if not self._is_new:
            self._look_for_hole(start, before)

    def take(self, transaction: TrackedTransaction) -> None:
        """Processes the next transaction of the file; skips a transaction that has been tracked before."""
        file = self._open_file()
        if self._is_new:
            self._begin_stream(file.start, is_anonymous=transaction.gtid is None)
        if has_come(transaction, file.start, self._at, self._executed):
            self._pass_over(transaction, file)
            return
        if file.begin_pos is None:
            self._begin_new_part(transaction, file)
        self._parts.open(file, transaction.binlog_pos, self._at, self._executed)
        if self._pending:
            self._drop_misplaced(transaction)
            self._look_for_snapshots(transaction.binlog_pos)
        seq = transaction.seq if transaction.seq is not None else self._at.seq + 1
        if transaction.gtid is not None:
            self._executed.add(transaction.gtid)
        self._at = replace(
            self._at,
            seq=seq,
            binlog_file=file.start.binlog_file,
            binlog_pos=transaction.end_pos,
            committed_at=max(self._at.committed_at, transaction.committed_at),
        )
        self._moved = True
        self._reached = transaction.end_pos
        self.report.transactions += 1
        self._take_content(transaction)
        if len(self._versions) >= FLUSH_VERSIONS:
            self.flush()

    def take_quiet(self, run: QuietRun) -> bool:
        """Processes the next transactions of the file at once; False if they must be processed one by one."""
        file = self._open_file()
        if self._is_new or self._pending or file.begin_pos is None:
            return False
        if self._unknown.concern(run.tables, self._replay) or not has_not_come(run, self._at, self._executed):
            return False
        for sid, span in run.spans:
            self._executed.add_span(sid, span)
        self._at = replace(
            self._at,
            seq=run.last_seq if run.last_seq is not None else self._at.seq + run.count,
            binlog_file=file.start.binlog_file,
            binlog_pos=run.end_pos,
            committed_at=max(self._at.committed_at, run.committed_at),
        )
        self._moved = True
        self._reached = run.end_pos
        self.report.transactions += run.count
        return True

    def end_file(self, end_pos: int) -> None:
        """The file ends at this offset of the server's file."""
        file = self._open_file()
        if self._is_new:
            self._begin_stream(file.start, is_anonymous=False)
        self._moved |= self._parts.close(file, end_pos, self._at, self._executed)
        self._reached = max(self._reached, end_pos)
        self._file = None
        if len(self._parts.closed) >= 100:
            self.flush()

    def finish(self) -> TrackReport:
        """Stores what is pending and returns the report. May be called after an error, to store what came before it."""
        # After an error inside a file, the part that was read becomes a part of its own.
        self.flush()
        self._file = None
        if not self._is_new:
            self._look_for_snapshots(self._reached)
            self.flush()
        self.report.seq, self.report.committed_at = self._at.seq, self._at.committed_at
        self.report.gtid_executed = self._at.gtid_executed
        missing = GtidSet.parse(self._at.gtid_executed).left_out() - self._left_out
        if missing:
            self.report.note(NoticeKind.NUMBERS, "", MISSING_NUMBERS.format(missing))
        self.report.notices = worst_first(self.report.notices)
        return self.report

    @property
    def position(self) -> TrackedPosition:
        """The position up to which the stream has been read."""
        return self._at

    # Beginning ----------------------------------------------------------------------------------

    def _begin_stream(self, start: FileStart, *, is_anonymous: bool) -> None:
        """Stores, at ordinal 0, the schema before the first transaction."""
        self._is_new = False
        previous = start.previous or GtidSet()
        self._executed = GtidSetBuilder(previous)
        self._left_out = previous.left_out()
        self._at = replace(self._at, gtid_executed=str(previous))
        place = VersionPlace(0, 0, str(previous), start.created_at, start.binlog_file, start.begin_pos)
        if self._baseline is not None:
            self._append(Version(place, VersionOrigin.BASELINE), self._replay.take_baseline(self._baseline))
        elif start.starts_empty(is_anonymous=is_anonymous):
            self._append(Version(place, VersionOrigin.BASELINE), self._replay.start_empty())
        else:
            after = f"GTID set {previous}" if previous else f"{start.binlog_file}, which is not the server's first file"
            reason = f"the stream starts after {after}, and what there was then is not known"
            self._append(Version(place, VersionOrigin.GAP), self._replay.forget_everything(reason))
        self._moved = True

    def _look_for_hole(self, start: FileStart, before: FileStart | None) -> None:
        executed = self._executed.build()
        missing = (start.previous or GtidSet()) - executed
        reason = hole_before(start, missing, executed, newest_file(self._at, before))
        if reason is None:
            return
        self._executed = GtidSetBuilder(executed | missing)
        place = VersionPlace(
            self._at.seq + 1, 0, str(executed | missing), self._at.committed_at, start.binlog_file, start.begin_pos
        )
        changed = self._replay.forget_everything(reason)
        self._append(Version(place, VersionOrigin.GAP, missing=str(missing) or None), changed)
        self._moved = True

    def _look_for_lost(self, file: OpenFile) -> None:
        """Handles a server that replaced another server and may lack its last transactions. If a DDL is among these,
        its tables are not on the new server as the stream has them."""
        lost = self._executed.build() - file.seen.build()
        if not lost:
            return
        self.flush()
        entries = self._store.all_entries(self._source)
        names = {entry.name for entry in entries if entry.gtid and lost.contains(Gtid.parse(entry.gtid))}
        if not names:
            return
        reason = f"the server that continues the stream never executed {lost}, which changed it"
        unknown = tuple(TableEntry(name, gap=reason) for name in sorted(names))
        for entry in unknown:
            self._replay.put_table(entry)
        place = replace(self._place(0, file.start.begin_pos), seq=self._at.seq + 1, binlog_file=file.start.binlog_file)
        self._append(Version(place, VersionOrigin.GAP), Changed(unknown))

    def _note_repeat(self, transaction: TrackedTransaction, file: OpenFile) -> None:
        """Reports that a transaction comes again; those at the start of a file were tracked in another run."""
        if file.begin_pos is None or transaction.gtid is None or transaction.seq is not None:
            return
        self.report.repeated += 1
        if self.report.repeated == 1:
            place = f"{file.start.binlog_file} @ {transaction.binlog_pos}"
            text = f"{place}: transaction {transaction.gtid} comes again; it counts once"
            self.report.note(NoticeKind.REPEAT, "", text)

    # Statements ---------------------------------------------------------------------------------

    def _take_statement(self, transaction: TrackedTransaction, number: int, statement: TrackedStatement) -> None:
        context = context_of(
            statement.query,
            statement.format,
            lower_case_table_names=self._at.lower_case_table_names,
            ran_first_on=transaction.ran_first_on,
        )
        try:
            text = statement_text(statement.query)
        except DdlError as fault:
            text = fault.ddl
        gtid = str(transaction.gtid) if transaction.gtid else None
        logged = LoggedStatement(self._at.seq, gtid, self._open_file().start.binlog_file, statement.binlog_pos, text)
        if self._unlogged.take_row_change(logged, context):
            return
        changes = read_ddl_or_gap(text, context)
        if not changes:
            return
        self.report.statements += 1
        self._unlogged.take_ddl(logged, changes, self._replay.catalog.temporary)
        self._at = replace(self._at, server_version=context.flavour.number)
        version = version_of(statement.query, context, text, self._place(number, statement.binlog_pos), gtid)
        self._append(version, self._replay.apply(changes, text), changes)

    def _take_incident(self, transaction: TrackedTransaction, message: str) -> None:
        reason = f"the server lost events: {message}" if message else "the server lost events"
        place = self._place(1, transaction.binlog_pos)
        gtid = str(transaction.gtid) if transaction.gtid else None
        self._append(Version(place, VersionOrigin.GAP, gtid=gtid), self._replay.forget_everything(reason))

    def _begin_new_part(self, transaction: TrackedTransaction, file: OpenFile) -> None:
        """Called before the first transaction of a file that has not been tracked."""
        if transaction.gtid is not None:
            self._look_for_lost(file)
        if file.skipped_to is None and file.start.restarted:
            self._replay.catalog.temporary.server_restarted()

    def _pass_over(self, transaction: TrackedTransaction, file: OpenFile) -> None:
        self.report.skipped += 1
        file.skipped_to = transaction.end_pos
        self._note_repeat(transaction, file)
        if transaction.gtid is not None:
            file.seen.add(transaction.gtid)

    def _take_content(self, transaction: TrackedTransaction) -> None:
        if transaction.incident is not None:
            self._take_incident(transaction, transaction.incident)
        number = 0
        for number, statement in enumerate(transaction.statements, start=1):
            self._take_statement(transaction, number, statement)
        if number:
            return
        entries = self._unknown.made_known_by(transaction, self._replay, self._at.seq)
        if entries:
            gtid = str(transaction.gtid) if transaction.gtid else None
            version = Version(self._place(0, transaction.binlog_pos), VersionOrigin.METADATA, gtid=gtid)
            self._append(version, Changed(entries))

    def _place(self, statement_no: int, binlog_pos: int) -> VersionPlace:
        return VersionPlace(
            seq=self._at.seq,
            statement_no=statement_no,
            gtid_executed=str(self._executed.build()),
            committed_at=self._at.committed_at,
            binlog_file=self._at.binlog_file,
            binlog_pos=binlog_pos,
        )

    def _append(self, version: Version, changed: Changed, asked: Sequence[Change] = ()) -> None:
        tables = tuple(entry for entry in changed.tables if entry.name.database not in self._exclude)
        tables = self._decided(tables, asked, version.origin)
        databases = tuple(entry for entry in changed.databases if entry.name not in self._exclude)
        views = tuple(entry for entry in changed.views if entry.name.database not in self._exclude)
        if not (tables or databases or views):
            return
        unknown = [entry for entry in tables if entry.gap is not None]
        self._unknown.add(entry.name for entry in unknown)
        origin = VersionOrigin.GAP if unknown and len(unknown) == len(tables) else version.origin
        self._versions.append(replace(version, origin=origin, tables=tables, databases=databases, views=views))
        self.report.versions += 1
        # A stream that starts without a baseline is not an error of a statement: it is reported, but not counted.
        self.report.gaps += sum(version.place.seq > 0 or entry.name != EVERY_TABLE for entry in unknown)
        for entry in unknown:
            where = version.gtid or f"transaction {version.place.seq:,}"
            name = name_for_people(entry.name)
            self.report.note(NoticeKind.GAP, name, f"gap: {name}: {where}: {entry.gap}")
        for entry in tables:
            self._note_lengths_in_doubt(entry)

    def _decided(
        self, entries: tuple[TableEntry, ...], asked: Sequence[Change], origin: VersionOrigin
    ) -> tuple[TableEntry, ...]:
        """The tables of a version with the ids of their columns, and the effect on their rows."""
        self._partitioned.apply(entries, asked, origin)
        return self._tables.apply(entries, asked, origin)

    def _note_lengths_in_doubt(self, entry: TableEntry) -> None:
        if entry.definition is None or not entry.definition.in_doubt or entry.name in self._in_doubt:
            return
        self._in_doubt.add(entry.name)
        for text in lengths_in_doubt(entry.definition):
            self.report.note(NoticeKind.LENGTH, "", f"{entry.name}: {text}; `strata snapshot` tells it")

    # Snapshots ----------------------------------------------------------------------------------

    def _look_for_snapshots(self, binlog_pos: int) -> None:
        """Reconciles each snapshot whose moment the stream has passed. This runs before the next statement, so that
        nothing comes in between that the snapshot cannot have.

        Args:
            binlog_pos: Offset in the server's file before which no further transaction comes.
        """
        executed = self._executed.build()
        for snapshot in [s for s in self._pending if has_passed(s, self._start, executed, binlog_pos)]:
            self._pending.remove(snapshot)
            self._at = replace(self._at, lower_case_table_names=snapshot.lower_case_table_names)
            self.flush()
            end = replace(self._place(0, self._at.binlog_pos or 0), seq=self._at.seq + 1)
            reconciled = reconcile(self._store, snapshot, end)
            self._take_reconciled(reconciled)
            text = outcome_text(snapshot, reconciled)
            self.report.note(NoticeKind.SNAPSHOT, "", text)
            self._moved = True
            outcome = SnapshotOutcome(snapshot.id, USELESS, text)
            if not reconciled.useless:
                cascades = tuple(name for name in snapshot.cascades if name not in reconciled.postponed)
                outcome = SnapshotOutcome(snapshot.id, APPLIED, text, end.seq, cascades)
            self.flush(reconciled, outcome)

    def _drop_misplaced(self, transaction: TrackedTransaction) -> None:
        """Drops snapshots before a transaction without a GTID: then no GTID set gives their position in the stream."""
        if transaction.gtid is not None or transaction.incident is not None:
            return
        for snapshot in [one for one in self._pending if one.position is None]:
            self._pending.remove(snapshot)
            text = f"snapshot {snapshot.id} was taken by GTID set, and the stream goes on with transactions without one"
            self.report.note(NoticeKind.SNAPSHOT, "", text)
            self._moved = True
            self.flush(outcome=SnapshotOutcome(snapshot.id, USELESS, text))

    def _take_reconciled(self, reconciled: Reconciliation) -> None:
        self._versions += [
            replace(one, tables=self._decided(one.tables, (), one.origin)) for one in reconciled.versions
        ]
        self.report.versions += len(reconciled.versions)
        self.report.drifts += len(reconciled.drifts)
        for drift in reconciled.drifts:
            text = f"drift: {drift.name} is not on the server as the stream has it"
            self.report.note(NoticeKind.DRIFT, str(drift.name), text)
        self._replay.put_databases(reconciled.databases)
        for entry in reconciled.known:
            self._replay.put_table(entry)
        for view in reconciled.views:
            self._replay.catalog.put_view(view)
        for database in reconciled.covered:
            self._replay.cover(database)

    def flush(self, reconciled: Reconciliation | None = None, outcome: SnapshotOutcome | None = None) -> None:
        """Stores everything that was read so far; the stream continues."""
        if not self._moved:
            return
        self._at = replace(self._at, gtid_executed=str(self._executed.build()), last_column_id=self._tables.last_id)
        statements, removals, partitions = self._unlogged.drain()
        temporary = self._replay.catalog.temporary.kept()
        self._at = self._store.append(
            VersionBatch(
                position=self._at,
                versions=tuple(self._versions),
                files=(*self._parts.closed, *self._parts.so_far(self._file, self._at, self._executed)),
                statements=statements,
                removals=removals,
                partitions=partitions,
                drifts=reconciled.drifts if reconciled else (),
                snapshots=(outcome,) if outcome else (),
                temporary_tables=temporary if temporary != self._temporary else None,
            )
        )
        self._temporary = temporary
        self._versions, self._parts.closed, self._moved = [], [], False

    def _open_file(self) -> OpenFile:
        if self._file is None:
            raise RuntimeError("begin_file comes first")
        return self._file
