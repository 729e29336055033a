"""Changes of rows that are not in the binlog: statements in statement format, and DDL that removes rows.
Not here: the effect of DDL on a table (`schema/replay/stored_catalog.py`), storing it (`track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strata_cdc.schema.ddl.changes import AlterTable, RemoveRows, RowsGone
from strata_cdc.schema.ddl.dml import tables_changed_by, without_values
from strata_cdc.schema.ddl.ill_formed import as_one_looks_at
from strata_cdc.schema.history.effects import effect_of_removal
from strata_cdc.schema.history.versions import PartitionChange, RowRemoval, StatementChange
from strata_cdc.schema.tracker.notices import NoticeKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence, Set

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.history.partition_lifetimes import PartitionedTables
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import Partitioning
    from strata_cdc.schema.replay.temporary import TemporaryTables
    from strata_cdc.schema.tracker.stream import TrackReport


_PARTITION: Final = "PARTITION"


class LoggedStatement(NamedTuple):
    """A statement and its position."""

    seq: int
    gtid: str | None
    binlog_file: str
    binlog_pos: int
    text: str


class UnloggedRows:
    """Collects such changes until they are stored, and adds them to the report."""

    def __init__(
        self,
        exclude: Set[str],
        report: TrackReport,
        partitioned: PartitionedTables,
        sensitive: Collection[str] = (),
    ) -> None:
        """Begins with no changes.

        Args:
            exclude: Databases that do not belong to users.
            report: Counts the changes.
            partitioned: The partitions of all tables; changes of partitions are applied to it.
            sensitive: Patterns of sensitive columns. If there are any, no value of a statement is stored: the current
                name of its table may differ from the name in the patterns.
        """
        self._sensitive = sensitive
        self._exclude = exclude
        self._report = report
        self._partitioned = partitioned
        self._changes: list[StatementChange] = []
        self._removals: list[RowRemoval] = []
        self._partitions: list[PartitionChange] = []

    def take_row_change(self, statement: LoggedStatement, context: DdlContext) -> bool:
        """Notes a statement that changed rows: they cannot be decoded. False if it is no such statement."""
        changed = tables_changed_by(statement.text, context)
        if changed is None:
            return False
        users = tuple(name for name in changed if name.database not in self._exclude)
        if self._sensitive:
            statement = statement._replace(text=without_values(statement.text))
        if users or not changed:
            self._report.statement_changes += 1
            for table in map(str, users or ("a table that the statement does not name",)):
                self._report.note(
                    NoticeKind.STATEMENT, table, f"rows of {table} were changed by a statement: {_quoted(statement)}"
                )
            self._changes.append(
                StatementChange(
                    statement.seq,
                    statement.gtid,
                    statement.binlog_file,
                    statement.binlog_pos,
                    users,
                    as_one_looks_at(statement.text),
                )
            )
        return True

    def take_ddl(self, statement: LoggedStatement, changes: Sequence[Change], temporary: TemporaryTables) -> None:
        """Notes rows that DDL removed without row events, and its changes of partitions; temporary tables are
        ignored."""
        partitions = self._take_partitions(statement, changes)
        removals = [
            (change, name)
            for change in changes
            if isinstance(change, RemoveRows)
            for name in change.names
            if name.database not in self._exclude and temporary.get(change.context, name) is None
        ]
        if not removals:
            return
        text = as_one_looks_at(statement.text)
        self._removals += [
            RowRemoval(
                statement.seq,
                statement.gtid,
                statement.binlog_pos,
                name,
                text,
                effect_of_removal(change, name, partitions.get(change.names[0], "")),
            )
            for change, name in removals
        ]
        self._report.removals += 1
        come = any(change.gone is RowsGone.IMPORTED for change, _ in removals)
        what = "came without insert rows" if come else "are gone without delete rows"
        for table in (str(name) for _, name in removals):
            self._report.note(NoticeKind.REMOVAL, table, f"rows of {table} {what}: {_quoted(statement)}")

    def _take_partitions(
        self, statement: LoggedStatement, changes: Iterable[Change]
    ) -> dict[TableName, Partitioning | str]:
        """Notes an ALTER TABLE that names partitions: it decides which rows the next DROP PARTITION removes.
        Returns the partitions before it."""
        before: dict[TableName, Partitioning | str] = {}
        if _PARTITION not in statement.text.upper():
            return before
        for change in changes:
            if isinstance(change, AlterTable) and change.name.database not in self._exclude:
                context = change.context
                noted = PartitionChange(
                    statement.seq,
                    statement.binlog_pos,
                    change.name,
                    as_one_looks_at(statement.text),
                    context.sql_mode,
                    context.flavour.number,
                    context.time_zone,
                )
                before[change.name] = self._partitioned.change(noted)
                self._partitions.append(noted)
        return before

    def drain(self) -> tuple[tuple[StatementChange, ...], tuple[RowRemoval, ...], tuple[PartitionChange, ...]]:
        """The changes noted since the last call."""
        found = tuple(self._changes), tuple(self._removals), tuple(self._partitions)
        self._changes, self._removals, self._partitions = [], [], []
        return found


def _quoted(statement: LoggedStatement) -> str:
    return f"{statement.gtid or f'transaction {statement.seq:,}'}: {as_one_looks_at(statement.text)}"
