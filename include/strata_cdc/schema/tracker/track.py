"""The version tracker: a stream of transactions in, versions in stream order out. Only the tracker writes versions.
Not here: reading binlogs (`tracking/track_schema.py`), what a transaction does (`transactions.py`), the state of the
schema (`source_schema.py`), the position in the stream (`stream_state.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.binlog.sources.file_start import file_number
from strata_cdc.position.executed import NOTHING, ExecutedBuilder, parse_executed
from strata_cdc.position.sets import Gtid
from strata_cdc.schema.history.snapshot import APPLIED, USELESS
from strata_cdc.schema.history.versions import (
    SYSTEM_DATABASES,
    Confirmation,
    SnapshotOutcome,
    TrackedPosition,
    Version,
    VersionBatch,
    VersionOrigin,
)
from strata_cdc.schema.tracker.notices import NoticeKind
from strata_cdc.schema.tracker.reconcile import outcome_text, reconcile
from strata_cdc.schema.tracker.reporter import Reporter
from strata_cdc.schema.tracker.source_schema import SourceSchema
from strata_cdc.schema.tracker.stream import is_at_or_after
from strata_cdc.schema.tracker.stream_state import OpenFile, StreamState, tracked_to
from strata_cdc.schema.tracker.transactions import TrackedChange, changes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.binlog.sources.file_start import FileStart
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import (
        Drift,
        PartitionChange,
        RowRemoval,
        StatementChange,
        StoredEntry,
        TemporarySessions,
        TrackedFile,
    )
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.replay.baseline import Baseline
    from strata_cdc.schema.tracker.stream import QuietRun, TrackedTransaction, TrackReport


# Which parts of a stream have been read before, and what is missing between its files.
def has_come(transaction: TrackedTransaction, start: FileStart, at: TrackedPosition, executed: ExecutedBuilder) -> bool:
    """Whether a transaction of the file that begins with `start` has been read before: by its ordinal, its GTID, or its
    position in the server's files."""
    if transaction.seq is not None:
        return transaction.seq <= at.seq
    if transaction.gtid is not None:
        return executed.contains(transaction.gtid)
    if at.binlog_file is None or at.binlog_pos is None:
        return False
    number, reached = file_number(start.binlog_file), file_number(at.binlog_file)
    return number < reached or (number == reached and transaction.binlog_pos < at.binlog_pos)


def has_not_come(run: QuietRun, at: TrackedPosition, executed: ExecutedBuilder) -> bool:
    """Whether no transaction of a run has been read before: by their ordinals, or by their GTIDs. By GTIDs it is only
    true if each transaction has a GTID of its own."""
    if run.last_seq is not None:
        return run.last_seq - run.count >= at.seq
    if sum(last - first + 1 for _, (first, last) in run.spans) != run.count:
        return False
    return not any(executed.overlaps(sid, span) for sid, span in run.spans)


def newest_file(at: TrackedPosition, before: FileStart | None) -> str | None:
    """The newest file that has been read: that of the last transaction, or a later file without transactions.

    Args:
        at: The position of the stream.
        before: The file that was read last.
    """
    files = [at.binlog_file] if at.binlog_file else []
    if files and before is not None:
        files.append(before.binlog_file)
    return max(files, key=file_number, default=None)


def hole_before(start: FileStart, missing: Executed, executed: Executed, binlog_file: str | None) -> str | None:
    """Why the stream has a hole before a file; None if it has none.

    Args:
        missing: The transactions that the server had executed before the file, and that the stream does not have.
        executed: All transactions of the stream.
        binlog_file: The newest file that has been read.
    """
    if missing:
        return f"transactions {missing} are missing from the stream"
    is_anonymous = not start.previous and not executed and not start.is_landed
    if is_anonymous and not start.follows(binlog_file):
        return f"the binlog files between {binlog_file} and {start.binlog_file} are missing"
    return None


def names_changed_by(lost: Executed, entries: Iterable[StoredEntry]) -> set[TableName]:
    """The names that DDL of transactions has changed which a server never executed, and that are not known to lack it.

    Args:
        lost: The transactions.
        entries: All entries of the source, in stream order.
    """
    names: set[TableName] = set()
    for entry in entries:
        if entry.gtid and lost.contains(Gtid.parse(entry.gtid)):
            names.add(entry.name)
        elif entry.origin is VersionOrigin.GAP and not entry.is_statement:
            # It became unknown when the server's first file began. What its files do to it since then is known.
            names.discard(entry.name)
    return names


def has_passed(snapshot: SchemaSnapshot, start: FileStart | None, executed: Executed, binlog_pos: int) -> bool:
    """Whether the stream has passed the moment of a snapshot: by its GTID set, or its position in the server's files.

    Args:
        snapshot: A reading of the live server.
        start: Of the file that is being read, up to `binlog_pos`; None if there is no such file.
        executed: All transactions of the stream.
        binlog_pos: Offset in the server's file.
    """
    if snapshot.position is None:
        return parse_executed(snapshot.gtid_executed) <= executed
    if start is None or (start.is_landed and start.identity not in ("", snapshot.server_uuid)):
        return False
    return is_at_or_after(start.binlog_file, binlog_pos, snapshot.position)


FLUSH_VERSIONS: Final = 1000
"""Number of versions that are stored at once: after a crash, at most these have to be read again."""
_FLUSH_FILES: Final = 100


class UnstoredTracking(Struct):
    """What has been tracked, and is not stored yet."""

    temporary: TemporarySessions
    """The temporary tables that the store has."""
    versions: list[Version] = field(default_factory=list)
    files: list[TrackedFile] = field(default_factory=list)
    statements: list[StatementChange] = field(default_factory=list)
    removals: list[RowRemoval] = field(default_factory=list)
    partitions: list[PartitionChange] = field(default_factory=list)
    has_moved: bool = False
    """Whether all of this has to be stored, because the position has moved or a snapshot has a result."""

    def add(self, change: TrackedChange) -> None:
        """Adds a change of the schema; a version without changes is not stored."""
        if change.version is not None and change.version.has_changes:
            self.versions.append(change.version)
        if change.row_change is not None:
            self.statements.append(change.row_change)
        self.removals += change.removals
        self.partitions += change.partitions

    def batch(self, state: StreamState, temporary: TemporarySessions) -> VersionBatch:
        """All of it up to a position; `temporary` has the temporary tables there."""
        return VersionBatch(
            position=state.position,
            versions=tuple(self.versions),
            files=(*self.files, *state.part_so_far()),
            statements=tuple(self.statements),
            removals=tuple(self.removals),
            partitions=tuple(self.partitions),
            temporary_tables=temporary if temporary != self.temporary else None,
        )


class Tracker:
    """Follows one source's stream. Calls are made in stream order: `begin_file`, `track`..., `end_file`, ...,
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
            baseline: The schema before the stream; used only if the stream begins now.
            exclude: Databases that do not belong to users, besides the server's own: that of the store.
            lower_case_table_names: Of the server; by default the value of the previous run, or 0.
            sensitive: Patterns of sensitive columns; if there are any, no value of a statement is stored: the current
                name of its table may differ from the name in the patterns.
        """
        known = store.position(source)
        position = known or TrackedPosition(source)
        self._snapshots: list[SchemaSnapshot] = store.pending_snapshots(source)
        if lower_case_table_names is None and known is None and self._snapshots:
            lower_case_table_names = self._snapshots[0].lower_case_table_names
        if lower_case_table_names is not None:
            position = replace(position, lower_case_table_names=lower_case_table_names)
        self._store = store
        self._keeps_values = not sensitive
        self._state = StreamState.at(position, is_new=known is None)
        exclude = SYSTEM_DATABASES | set(exclude)
        self._schema = SourceSchema.at_the_end(store, position, exclude, baseline, is_new=known is None)
        self._unstored = UnstoredTracking(store.temporary_tables(source))
        self._reporter = Reporter(source)

    @property
    def position(self) -> TrackedPosition:
        """The position up to which the stream has been read."""
        return self._state.position

    @property
    def report(self) -> TrackReport:
        """What has been done so far."""
        return self._reporter.report

    # The stream ---------------------------------------------------------------------------------

    def begin_file(self, start: FileStart) -> None:
        """A file or segment begins; finds transactions that are missing between it and what came before."""
        state, before = self._state, self._state.file
        state.file = OpenFile(start, seen=ExecutedBuilder(start.previous or NOTHING))
        if state.is_new:
            return
        executed = state.executed.build()
        missing = (start.previous or NOTHING) - executed
        reason = hole_before(
            start, missing, executed, newest_file(state.position, None if before is None else before.start)
        )
        if reason is not None:
            state.executed = ExecutedBuilder(executed | missing)
            position = state.position_after(start.binlog_file, start.begin_pos)
            version = Version(position, VersionOrigin.GAP, missing=str(missing) or None)
            self._keep(TrackedChange(self._schema.forget_everything(version, reason)))
            self._unstored.has_moved = True

    def track(self, transaction: TrackedTransaction) -> None:
        """Processes the next transaction of the file; skips a transaction that has been tracked before."""
        state, file = self._state, self._state.open_file
        if state.is_new:
            self._begin_stream(file.start, is_anonymous=transaction.gtid is None)
        if has_come(transaction, file.start, state.position, state.executed):
            self._reporter.note_skipped(transaction, file.start.binlog_file, is_between=file.begin_pos is not None)
            file.pass_over(transaction)
            return
        if file.begin_pos is None:
            self._begin_part(transaction, file)
        if self._snapshots:
            self._drop_misplaced(transaction)
            self._look_for_snapshots(transaction.binlog_pos)
        state.advance(transaction, file)
        self._unstored.has_moved = True
        self._reporter.report.transactions += 1
        for change in changes_of(transaction, state, self._schema, keeps_values=self._keeps_values):
            self._keep(change)
        if len(self._unstored.versions) >= FLUSH_VERSIONS:
            self.flush()

    def track_quiet(self, run: QuietRun) -> bool:
        """Processes the next transactions of the file at once; False if they must be processed one by one."""
        state, file = self._state, self._state.open_file
        if state.is_new or self._snapshots or file.begin_pos is None:
            return False
        if self._schema.lacks_any(run.tables) or not has_not_come(run, state.position, state.executed):
            return False
        state.advance_over(run, file)
        self._unstored.has_moved = True
        self._reporter.report.transactions += run.count
        return True

    def end_file(self, end_pos: int) -> None:
        """The file ends at this offset of the server's file."""
        state, file = self._state, self._state.open_file
        if state.is_new:
            self._begin_stream(file.start, is_anonymous=False)
        known = self._tracked_to(file.start) if file.begin_pos is None else None
        part = state.end_file(file, end_pos, known)
        if part is not None:
            self._unstored.files.append(part)
            self._unstored.has_moved = True
        if len(self._unstored.files) >= _FLUSH_FILES:
            self.flush()

    def finish(self) -> TrackReport:
        """Stores what is pending and returns the report. May be called after an error, to store what came before it."""
        # After an error inside a file, the part that was read becomes a part of its own.
        self.flush()
        state = self._state
        if state.file is not None:
            state.file.has_ended = True
        if not state.is_new:
            self._look_for_snapshots(state.file.reached if state.file is not None else 0)
            self.flush()
        return self._reporter.end(state.position, state.executed.build().gaps() - state.gtid_gaps)

    # Beginning ----------------------------------------------------------------------------------

    def _begin_stream(self, start: FileStart, *, is_anonymous: bool) -> None:
        """Keeps, at ordinal 0, the schema before the first transaction."""
        self._state.begin(start.previous or NOTHING)
        self._keep(TrackedChange(self._schema.first_version(start, is_anonymous=is_anonymous)))
        self._unstored.has_moved = True

    def _begin_part(self, transaction: TrackedTransaction, file: OpenFile) -> None:
        """Called before the first transaction of a file that has not been tracked."""
        if transaction.gtid is not None:
            self._look_for_lost(file)
        if file.skipped_to is None and file.start.restarted:
            self._schema.replay.catalog.temporary.server_restarted()
        self._state.begin_part(file, transaction.binlog_pos, self._tracked_to(file.start))

    def _tracked_to(self, start: FileStart) -> int | None:
        return tracked_to(start, self._store.files(self._state.position.source, start.binlog_file))

    def _look_for_lost(self, file: OpenFile) -> None:
        """Handles a server that replaced another server and may lack its last transactions. If a DDL is among these,
        its tables are not on the new server as the stream has them."""
        lost = self._state.executed.build() - file.seen.build()
        if not lost:
            return
        self.flush()
        names = names_changed_by(lost, self._store.all_entries(self._state.position.source))
        if names:
            reason = f"the server that continues the stream never executed {lost}, which changed it"
            version = Version(
                self._state.position_after(file.start.binlog_file, file.start.begin_pos), VersionOrigin.GAP
            )
            # It is not stored before snapshots are compared: one from before the replacement would end the gap.
            self._keep(TrackedChange(self._schema.forget(version, names, reason)))

    def _keep(self, change: TrackedChange) -> None:
        """Keeps a change until it is stored, and reports it."""
        self._unstored.add(change)
        self._reporter.note(change)
        version = change.version
        if version is not None and version.ddl is not None:
            self._state.position = replace(self._state.position, server_version=version.server_version or 0)

    # Snapshots ----------------------------------------------------------------------------------

    def _look_for_snapshots(self, binlog_pos: int) -> None:
        """Reconciles each snapshot whose moment the stream has passed. This runs before the next statement, so that
        nothing comes in between that the snapshot cannot have.

        Args:
            binlog_pos: Offset in the server's file before which no further transaction comes.
        """
        file, executed = self._state.file, self._state.executed.build()
        start = None if file is None else file.start
        for snapshot in [s for s in self._snapshots if has_passed(s, start, executed, binlog_pos)]:
            self._snapshots.remove(snapshot)
            self._reconcile(snapshot)

    def _reconcile(self, snapshot: SchemaSnapshot) -> None:
        state = self._state
        state.position = replace(state.position, lower_case_table_names=snapshot.lower_case_table_names)
        self.flush()
        end = state.position_after(state.position.binlog_file, state.position.binlog_pos or 0)
        reconciliation = reconcile(self._store, snapshot, end)
        self._unstored.versions += self._schema.reconciled(reconciliation)
        self._reporter.note_reconciled(reconciliation)
        outcome = SnapshotOutcome(snapshot.id, USELESS, outcome_text(snapshot, reconciliation))
        if not reconciliation.useless:
            cascades = tuple(name for name in snapshot.cascades if name not in reconciliation.postponed)
            confirmed = Confirmation(
                end, snapshot.seen_databases, frozenset(reconciliation.postponed) | snapshot.doubtful.keys()
            )
            outcome = SnapshotOutcome(snapshot.id, APPLIED, outcome.outcome, end.seq, cascades, confirmed)
        self._settle(outcome, reconciliation.drifts)

    def _drop_misplaced(self, transaction: TrackedTransaction) -> None:
        """Drops snapshots before a transaction without a GTID: then no GTID set gives their position in the stream."""
        if transaction.gtid is not None or transaction.lost is not None:
            return
        for snapshot in [waiting for waiting in self._snapshots if waiting.position is None]:
            self._snapshots.remove(snapshot)
            text = f"snapshot {snapshot.id} was taken by GTID set, and the stream goes on with transactions without one"
            self._settle(SnapshotOutcome(snapshot.id, USELESS, text))

    def _settle(self, outcome: SnapshotOutcome, drifts: tuple[Drift, ...] = ()) -> None:
        """Stores the result of a snapshot."""
        self._unstored.has_moved = True
        self._reporter.report.note(NoticeKind.SNAPSHOT, "", outcome.outcome)
        self._store_all(drifts, (outcome,))

    # Storing ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Stores everything that was read so far; the stream continues."""
        if self._unstored.has_moved:
            self._store_all()

    def _store_all(self, drifts: tuple[Drift, ...] = (), snapshots: tuple[SnapshotOutcome, ...] = ()) -> None:
        state, schema = self._state, self._schema
        state.position = replace(
            state.position, gtid_executed=str(state.executed.build()), last_column_id=schema.identified.last_id
        )
        temporary = schema.replay.catalog.temporary.kept()
        batch = self._unstored.batch(state, temporary)
        state.position = self._store.append(replace(batch, drifts=drifts, snapshots=snapshots))
        self._unstored = UnstoredTracking(temporary)
