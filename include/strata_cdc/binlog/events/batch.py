"""Some consecutive transactions as a struct of arrays; `TransactionRecord` is their view row by row.
Not here: making them from events (`scanner.py`), their form on disk (`index.py`)."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.events.model import SplitPoint, TableRows, TransactionRecord, XaStep
from strata_cdc.errors import CorruptEventError, UnsupportedEventError
from strata_cdc.flavour import Vendor
from strata_cdc.position.executed import executed_of
from strata_cdc.position.sets import DomainWriter, Gtid, Span, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.events.model import XaMark
    from strata_cdc.binlog.events.xa import UndecidedTransactions
    from strata_cdc.position.executed import ExecutedBuilder
    from strata_cdc.position.port import Executed

    Numbers = npt.NDArray[np.int64]

Known = TypeVar("Known")


class TransactionBatch(Struct, frozen=True):
    """Consecutive transactions of one file. Each field is a column; `*_end` say where the entries of each row end."""

    binlog_file: str
    first_seq: int
    begins: Numbers
    ends: Numbers
    positions: Numbers
    """Offsets in the server's file."""
    sids: tuple[Writer, ...]
    """Who numbered them; `sid_numbers` are indexes into it."""
    sid_numbers: Numbers
    """-1 for an anonymous transaction."""
    numbers: Numbers
    committed_at: Numbers
    commit_timestamps: Numbers
    incidents: tuple[tuple[int, str], ...]
    """Row and message of each transaction with which the server says that it lost events."""
    marks: tuple[tuple[int, XaMark], ...]
    """Row and step of each transaction that prepares, commits or rolls back an XA transaction."""
    tables: tuple[tuple[str, str], ...]
    """Databases and tables; `entry_tables` are indexes into it."""
    entries_end: Numbers
    entry_tables: Numbers
    entry_events: Numbers
    entry_rows: Numbers
    """Rows; the row events of `uncounted` tables instead."""
    statements_end: Numbers
    statements: Numbers
    splits_end: Numbers
    split_offsets: Numbers
    split_rows: Numbers
    split_maps_end: Numbers
    split_maps: Numbers
    uncounted: frozenset[tuple[str, str]] = frozenset()
    """Tables whose rows cannot be counted without a schema version (`hidden_fractions.py`), perhaps also of other
    batches of their scan."""

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def last_seq(self) -> int:
        """Ordinal of the last transaction; `first_seq - 1` if there is none."""
        return self.first_seq + len(self) - 1

    def server_end(self, row: int) -> int:
        """Offset in the server's file after the last event of a transaction."""
        return int(self.positions[row] + self.ends[row] - self.begins[row])

    def add_to(self, executed: ExecutedBuilder) -> None:
        """Adds the GTIDs to a set."""
        add_gtids(executed, self.sids, self.sid_numbers, self.numbers)

    def added_to(self, executed: Executed, first: int = 0, stop: int | None = None) -> Executed:
        """A set with the GTIDs of the rows from `first` to the row before `stop`, or to the last."""
        some = slice(first, stop)
        return executed | executed_of(gtid_spans(self.sids, self.sid_numbers[some], self.numbers[some]))

    def new_rows(self, executed: Executed) -> npt.NDArray[np.bool_]:
        """Which rows have a GTID that a position does not contain; a row each, True also without a GTID."""
        new = np.ones(len(self), np.bool_)
        for number, sid in enumerate(self.sids):
            of_sid = self.sid_numbers == number
            for first, last in executed.spans_of(sid):
                new &= ~(of_sid & (self.numbers >= first) & (self.numbers <= last))
        return new

    @property
    def counts_domains(self) -> bool:
        """Whether its GTIDs are MariaDB's."""
        return any(isinstance(sid, DomainWriter) for sid in self.sids)

    def first_step_back(self, executed: ExecutedBuilder) -> int | None:
        """The first row with a number of MariaDB that is not above those before it in its domain.

        Args:
            executed: What the stream has before these rows.
        """
        if not self.counts_domains:
            return None
        domains = [sid.domain if isinstance(sid, DomainWriter) else -1 for sid in self.sids]
        of_rows = np.array([*domains, -1], np.int64)[self.sid_numbers]
        steps: list[int] = []
        for domain in sorted({*domains} - {-1}):
            rows = (of_rows == domain).nonzero()[0]
            numbers = self.numbers[rows]
            back = (numbers[1:] <= numbers[:-1]).nonzero()[0] + 1
            if len(rows) and executed.overlaps(DomainWriter(domain, 0), (int(numbers[0]), int(numbers[0]))):
                back = np.concatenate(([0], back))
            steps += rows[back[:1]].tolist()
        return min(steps, default=None)

    def refuse_step_back(self, executed: ExecutedBuilder, file: str) -> None:
        """Checks that numbers of MariaDB grow in each domain: by a position, one that was set back has come before, and
        its rows would be skipped.

        Args:
            executed: What the stream has before these rows.
            file: For the error.

        Raises:
            UnsupportedEventError: One does not.
        """
        row = self.first_step_back(executed)
        if row is not None:
            raise UnsupportedEventError(
                "the sequence number of a transaction is not above those before it in its domain",
                gtid=str(self.record(row).gtid),
                file=file,
                offset=int(self.positions[row]),
                remedy="Set `gtid_strict_mode=ON` on the server, so that numbers only grow; begin with a file after "
                "this.",
            )

    def refuse_unnumbered(self, vendor: Vendor) -> None:
        """Checks that each transaction of a MariaDB server has a GTID; what is lost (INCIDENT) has none.

        Raises:
            CorruptEventError: One has none: the event that has it is missing.
        """
        if vendor is not Vendor.MARIADB:
            return
        lost = {row for row, _ in self.incidents}
        for row in (self.sid_numbers < 0).nonzero()[0].tolist():
            if row not in lost:
                raise CorruptEventError(
                    "a transaction of MariaDB has no GTID: an event is missing",
                    file=self.binlog_file,
                    offset=int(self.positions[row]),
                )

    def decide(self, undecided: UndecidedTransactions) -> None:
        """Adds its XA steps to the undecided transactions."""
        for row, mark in self.marks:
            is_empty = mark.step is XaStep.PREPARE and not self.record(row).has_changes
            undecided.apply(self.first_seq + row, mark, is_empty=is_empty)

    def is_quiet(self) -> bool:
        """Whether rows are all that there is: no statement, and the server lost nothing."""
        return not len(self.statements) and not self.incidents

    def gtid_spans(self, begin: int = 0) -> tuple[tuple[Writer, Span], ...]:
        """The GTIDs from a row on as spans of each server's numbers; an anonymous transaction is in none."""
        return tuple(gtid_spans(self.sids, self.sid_numbers[begin:], self.numbers[begin:]))

    def record(self, row: int) -> TransactionRecord:
        """One row, from 0."""
        sid = int(self.sid_numbers[row])
        ends = (self.entries_end, self.statements_end, self.splits_end)
        entries, statements, splits = (slice(int(end[row - 1]) if row else 0, int(end[row])) for end in ends)
        return TransactionRecord(
            self.first_seq + row,
            Gtid(self.sids[sid], int(self.numbers[row])) if sid >= 0 else None,
            int(self.begins[row]),
            int(self.ends[row]),
            self.binlog_file,
            int(self.positions[row]),
            int(self.committed_at[row]),
            int(self.commit_timestamps[row]),
            tuple(self._table_rows(entries)),
            tuple(self.statements[statements].tolist()),
            tuple(self._split_points()[splits]) if splits.start < splits.stop else (),
            _of_row(self.incidents, row),
            _of_row(self.marks, row),
        )

    def records(self) -> Iterator[TransactionRecord]:
        """The same, row by row."""
        incidents, marks = dict(self.incidents), dict(self.marks)
        sids, file = self.sids, self.binlog_file
        entries = statements = splits = 0
        table_rows = self._table_rows()
        statement_offsets = self.statements.tolist()
        split_points = self._split_points()
        columns = zip(
            self.begins.tolist(),
            self.ends.tolist(),
            self.positions.tolist(),
            self.sid_numbers.tolist(),
            self.numbers.tolist(),
            self.committed_at.tolist(),
            self.commit_timestamps.tolist(),
            self.entries_end.tolist(),
            self.statements_end.tolist(),
            self.splits_end.tolist(),
            strict=True,
        )
        for row, columns_of_row in enumerate(columns):
            begin, end, position, sid_number, number, committed_at, stamp, entries_end, statements_end, splits_end = (
                columns_of_row
            )
            yield TransactionRecord(
                self.first_seq + row,
                Gtid(sids[sid_number], number) if sid_number >= 0 else None,
                begin,
                end,
                file,
                position,
                committed_at,
                stamp,
                tuple(table_rows[entries:entries_end]),
                tuple(statement_offsets[statements:statements_end]),
                tuple(split_points[splits:splits_end]),
                incidents.get(row) if incidents else None,
                marks.get(row) if marks else None,
            )
            entries, statements, splits = entries_end, statements_end, splits_end

    def _table_rows(self, some: slice = slice(None)) -> list[TableRows]:
        # Most transactions do one row to one table: equal entries share one value.
        seen: dict[tuple[int, int, int], TableRows] = {}
        table_rows = []
        columns = (self.entry_tables, self.entry_events, self.entry_rows)
        entries = zip(*(column[some].tolist() for column in columns), strict=True)
        for entry in entries:
            value = seen.get(entry)
            if value is None:
                table, events, rows = entry
                database, name = self.tables[table]
                value = seen[entry] = TableRows(database, name, events, rows)
            table_rows.append(value)
        return table_rows

    def _split_points(self) -> list[SplitPoint]:
        maps = self.split_maps.tolist()
        points, before = [], 0
        for offset, row, end in zip(
            self.split_offsets.tolist(), self.split_rows.tolist(), self.split_maps_end.tolist(), strict=True
        ):
            points.append(SplitPoint(offset, row, tuple(maps[before:end])))
            before = end
        return points


def _of_row(known: tuple[tuple[int, Known], ...], row: int) -> Known | None:
    """What is known of a row, among what is known of few."""
    at = bisect_left(known, row, key=itemgetter(0))
    return known[at][1] if at < len(known) and known[at][0] == row else None


def add_gtids(executed: ExecutedBuilder, sids: tuple[Writer, ...], sid_numbers: Numbers, numbers: Numbers) -> None:
    """Adds GTIDs in columns to a set; sid_number -1 means an anonymous transaction."""
    for sid, span in gtid_spans(sids, sid_numbers, numbers):
        executed.add_span(sid, span)


def gtid_spans(sids: tuple[Writer, ...], sid_numbers: Numbers, numbers: Numbers) -> Iterator[tuple[Writer, Span]]:
    """GTIDs in columns, as spans of each server's numbers; a GTID that comes twice is in one span."""
    for sid_number, sid in enumerate(sids):
        mine = numbers[sid_numbers == sid_number]
        if not len(mine):
            continue
        # Servers alternate, and a replica commits out of order; sorted, each server has a few ranges of numbers.
        if (mine[1:] < mine[:-1]).any():
            mine.sort()
        starts = [0, *((mine[1:] > mine[:-1] + 1).nonzero()[0] + 1).tolist(), len(mine)]
        for begin, end in pairwise(starts):
            yield sid, (int(mine[begin]), int(mine[end - 1]))
