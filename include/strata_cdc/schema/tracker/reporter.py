"""What a run of the tracker reports: numbers, and notices about what it made.
Not here: notices as values (`notices.py`), making versions (`track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.schema.apply.diff import facts_in_doubt
from strata_cdc.schema.history.versions import EVERY_TABLE
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.schema.tracker.notices import MISSING_NUMBERS, NoticeKind, name_for_people, worst_first
from strata_cdc.schema.tracker.stream import TrackReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.versions import RowRemoval, StatementChange, TableChange, TrackedPosition, Version
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.tracker.reconcile import Reconciliation
    from strata_cdc.schema.tracker.stream import TrackedTransaction
    from strata_cdc.schema.tracker.transactions import TrackedChange

_UNNAMED: Final = "a table that the statement does not name"


class Reporter:
    """Counts what a run makes, and adds notices about it."""

    def __init__(self, source: str) -> None:
        self.report = TrackReport(source)
        self._in_doubt: set[TableName] = set()
        """Tables for which a key of unknown length was already reported."""

    def note(self, change: TrackedChange) -> None:
        """Adds what a statement does, or a transaction without statements."""
        version = change.version
        if version is not None:
            self.report.statements += version.ddl is not None
            if version.has_changes:
                self._note_version(version)
        if change.row_change is not None:
            self._note_row_change(change.row_change)
        if change.removals:
            self._note_removals(change.removals)

    def note_reconciled(self, reconciled: Reconciliation) -> None:
        """Adds the versions and differences of a snapshot."""
        self.report.versions += len(reconciled.versions)
        self.report.drifts += len(reconciled.drifts)
        for drift in reconciled.drifts:
            text = f"drift: {drift.name} is not on the server as the stream has it"
            if drift.doubted_after is not None:
                text += (
                    f"; nothing that was logged shows since when, so rows after transaction {drift.doubted_after} are "
                    "not decoded, and those of them that were published before may be wrong"
                )
            self.report.note(NoticeKind.DRIFT, str(drift.name), text)

    def note_skipped(self, transaction: TrackedTransaction, binlog_file: str, *, is_between: bool) -> None:
        """Adds a transaction that has been tracked before.

        Args:
            is_between: Whether there are new transactions before it in this file.
        """
        self.report.skipped += 1
        if not is_between or transaction.gtid is None or transaction.seq is not None:
            return
        self.report.repeated += 1
        if self.report.repeated == 1:
            where = f"{binlog_file} @ {transaction.binlog_pos}"
            text = f"{where}: transaction {transaction.gtid} comes again; it counts once"
            self.report.note(NoticeKind.REPEAT, "", text)

    def end(self, position: TrackedPosition, missing: Executed) -> TrackReport:
        """The report at the end of a run.

        Args:
            position: How far the stream has been tracked.
            missing: Numbers of GTIDs below others that have not come in this run.
        """
        report = self.report
        report.seq, report.committed_at = position.seq, position.committed_at
        report.gtid_executed = position.gtid_executed
        if missing:
            report.note(NoticeKind.NUMBERS, "", MISSING_NUMBERS.format(missing))
        report.notices = worst_first(report.notices)
        return report

    def _note_version(self, version: Version) -> None:
        self.report.versions += 1
        for entry in version.tables:
            if entry.gap is not None:
                self._note_gap(version, entry)
            elif entry.definition is not None and entry.definition.in_doubt:
                self._note_doubts(entry)

    def _note_gap(self, version: Version, entry: TableChange) -> None:
        # A stream that starts without a baseline is not an error of a statement: it is reported, but not counted.
        self.report.gaps += version.position.seq > 0 or entry.name != EVERY_TABLE
        where = version.gtid or f"transaction {version.position.seq:,}"
        name = name_for_people(entry.name)
        self.report.note(NoticeKind.GAP, name, f"gap: {name}: {where}: {entry.gap}")

    def _note_doubts(self, entry: TableChange) -> None:
        if entry.definition is None or entry.name in self._in_doubt:
            return
        self._in_doubt.add(entry.name)
        for text in facts_in_doubt(entry.definition):
            self.report.note(NoticeKind.LENGTH, "", f"{entry.name}: {text}; `strata snapshot` tells it")

    def _note_row_change(self, change: StatementChange) -> None:
        self.report.statement_changes += 1
        statement = _statement(change)
        for table in map(str, change.tables or (_UNNAMED,)):
            text = f"rows of {table} were changed by a statement: {statement}"
            self.report.note(NoticeKind.STATEMENT, table, text)

    def _note_removals(self, removals: Sequence[RowRemoval]) -> None:
        """Adds a statement that removed rows of one or several tables."""
        self.report.removals += 1
        # Only rows that come with a tablespace make a whole table unknown.
        come = any(removal.effect.kind is EffectKind.READ_AGAIN for removal in removals)
        what = "came without insert rows" if come else "are gone without delete rows"
        for removal in removals:
            table = str(removal.name)
            text = f"rows of {table} {what}: {_statement(removal)}"
            self.report.note(NoticeKind.REMOVAL, table, text)


def _statement(change: StatementChange | RowRemoval) -> str:
    return f"{change.gtid or f'transaction {change.seq:,}'}: {change.statement}"
