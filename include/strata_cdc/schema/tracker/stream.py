"""Input and output of the tracker: transactions and statements of a stream, and its report.
Not here: tracking (`track.py`), reading them (`binlog/sources/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from strata_cdc.binlog.sources.file_start import file_number
from strata_cdc.schema.tracker.notices import Notice, NoticeKind, add, worst_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import Query, TableMap
    from strata_cdc.flavour import Flavour
    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.sets import Gtid, Span, Writer
    from strata_cdc.schema.model.definition import TableName


class TrackedStatement(Struct, frozen=True):
    """A statement of a transaction, except BEGIN, COMMIT and the like."""

    query: Query
    format: FormatDescription
    """Of the file with the statement."""
    binlog_pos: int
    """Offset of its event in the server's file."""


class TrackedTransaction(Struct, frozen=True):
    """The parts of a transaction that the tracker needs; the statements are only read if there are some."""

    gtid: Gtid | None
    binlog_pos: int
    end_pos: int
    committed_at: int
    seq: int | None = None
    """Its ordinal in the landed stream; None in plain files, for which the tracker counts."""
    ran_first_on: Flavour | None = None
    """The server that ran it first; None if it is not known."""
    statements: Iterable[TrackedStatement] = ()
    lost: str | None = None
    """Why statements may be missing here, in words; None if none are."""
    tables: tuple[TableName, ...] = ()
    """Tables whose rows it changes."""
    table_maps: Iterable[TableMap] = ()
    """The first ones; they are only read if one of its tables is not known."""


class QuietRun(Struct, frozen=True):
    """Consecutive transactions of one file without a statement. Most transactions are in such runs; the tracker handles
    a whole run at once."""

    count: int
    spans: tuple[tuple[Writer, Span], ...]
    """Their GTIDs."""
    binlog_pos: int
    """Offset of the first one."""
    end_pos: int
    committed_at: int
    """Time of the last one, by the commit clock."""
    tables: tuple[TableName, ...]
    """Tables whose rows they change."""
    last_seq: int | None = None
    """Like `TrackedTransaction.seq`, for the last one."""


class TrackReport(Struct):
    """The result of a run of the tracker; its size does not depend on the length of the run."""

    source: str
    transactions: int = 0
    """New transactions."""
    skipped: int = 0
    """Transactions that had been tracked before."""
    repeated: int = 0
    """Transactions that came again after other new transactions; they count once."""
    statements: int = 0
    """DDL statements in the new transactions."""
    versions: int = 0
    gaps: int = 0
    """Tables that became unknown; each time is counted."""
    statement_changes: int = 0
    """Statements that changed rows which are not in the binlog."""
    removals: int = 0
    """Statements that removed rows without row events: TRUNCATE, DROP PARTITION and similar statements."""
    drifts: int = 0
    """Tables for which a snapshot differs from the replay."""
    notices: list[Notice] = field(default_factory=list)
    """Observations that people should check, by kind and table."""
    seq: int = 0
    """Ordinal of the last transaction that has been tracked."""
    gtid_executed: str = ""
    committed_at: int = 0
    """Time of that transaction, microseconds UTC."""

    def note(self, kind: NoticeKind, table: str, text: str) -> None:
        """Adds or counts a notice, if there is space for it."""
        add(self.notices, kind, table, text)

    @property
    def examples(self) -> list[str]:
        """The notices as text, the worst first."""
        return [str(notice) for notice in worst_first(self.notices)]


def is_at_or_after(binlog_file: str, binlog_pos: int, position: BinlogPosition) -> bool:
    """Whether a position is equal to or after another position in the same server's files; False for a file without a
    number."""
    return (file_number(binlog_file), binlog_pos) >= (position.file_number, position.offset)
