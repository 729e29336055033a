"""Cuts landed transactions into slices; one task decodes a slice without any look-up.
Not here: which transactions belong to an interval (`pipeline/`), decoding (`decode.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from msgspec import Struct, field

from strata_cdc.binlog.events.model import XaStep
from strata_cdc.changes.commit_times import CommitTimes, time_to_keep
from strata_cdc.errors import SchemaGapError
from strata_cdc.landing.prepared import CommittedRecord
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.definition import ROWS_ELSEWHERE, TableName, definition_from_json
from strata_cdc.unforeseen import as_strata_error, may_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from strata_cdc.binlog.events.model import SplitPoint, TableRows, TransactionRecord
    from strata_cdc.errors import StrataError
    from strata_cdc.schema.history.versions import SchemaVersion
    from strata_cdc.schema.model.definition import TableDefinition

    FindVersion = Callable[[TableName, int], SchemaVersion]
    """From a table and the ordinal of a transaction to the version for its rows; raises SchemaGapError."""
    Lasts = Callable[[TableName, int], int]
    """From the same to the last transaction with the same version."""

TARGET_BYTES = 64 << 20
MOST_RANGES = 4096
"""Ranges of one slice. If applications commit in two phases, each prepared transaction is a range."""


class PlannedVersion(Struct, frozen=True):
    """The definition of one table in one schema version, which decodes rows of slices; a version may concern several
    tables."""

    database: str
    table: str
    version_id: int
    definition: str
    """The definition as JSON."""

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.database, self.table)

    def read_definition(self) -> TableDefinition:
        """The definition as a value."""
        return definition_from_json(self.definition)


class Range(Struct, frozen=True, omit_defaults=True):
    """Bytes of a segment that are decoded together: consecutive transactions, a part of one, or a prepared one."""

    begin: int
    """Offset in the segment (bytes) of the first event."""
    end: int
    """Offset after the last event."""
    binlog_pos: int
    """Offset of `begin` in the server's file."""
    first_seq: int
    """Ordinal of the transaction that the range begins with."""
    clock: int
    """The commit clock before the range, microseconds UTC; inside a transaction, the time of that transaction."""
    inside: str | None = None
    """GTID of the transaction whose rows the range has, '' if it is anonymous: the range begins in the middle of it, or
    it is an XA COMMIT and its rows were prepared here. None for whole transactions: they have their own GTID events."""
    first_row: int = 0
    """Ordinal of the range's first row in that transaction."""
    table_maps: tuple[int, ...] = ()
    """Offsets of the TABLE_MAP events that are in force at `begin`."""
    prepared_seq: int | None = None
    """Ordinal of the prepared transaction, whose schemas apply; None if the range has no prepared transaction."""
    times: CommitTimes = ()
    """Of the transactions whose first event is in the range and does not have them."""

    @classmethod
    def of_prepared(cls, prepared: TransactionRecord, commit: TransactionRecord) -> Self:
        """The rows of a prepared XA transaction, which take effect with its XA COMMIT."""
        return cls(
            begin=prepared.begin,
            end=prepared.end,
            binlog_pos=prepared.binlog_pos,
            first_seq=commit.seq,
            clock=commit.committed_at,
            inside=str(commit.gtid) if commit.gtid else "",
            prepared_seq=prepared.seq,
        )


class Slice(Struct, frozen=True):
    """Ranges of a segment in which no table with rows changes its schema. The fields describe the first range."""

    source: str
    segment: str
    """Path or URL of the segment, or of a binlog file."""
    binlog_file: str
    """The server's name for the file."""
    begin: int
    """Offset in the segment (bytes) of the first event."""
    end: int
    """Offset after the last event."""
    binlog_pos: int
    """Offset of `begin` in the server's file."""
    first_seq: int
    """Ordinal of the transaction that the slice begins with."""
    first_row: int
    """Ordinal of the slice's first row in that transaction."""
    clock: int
    """The commit clock before the slice, microseconds UTC; inside a transaction, that transaction's time."""
    inside: str | None = None
    """GTID of the transaction in the middle of which the slice begins, '' if it is anonymous; None if there is none."""
    table_maps: tuple[int, ...] = ()
    """Offsets of the TABLE_MAP events that are in force at `begin`."""
    tables: tuple[PlannedVersion, ...] = ()
    """Rows of other tables are counted and skipped."""
    more: tuple[Range, ...] = ()
    """The ranges that are decoded after the first one, in this order. The bytes between them have no rows of the
    slice's tables, or only prepared rows that take effect elsewhere."""
    times: CommitTimes = ()
    """As of `Range`."""

    @property
    def key(self) -> str:
        """Name of the slice, the same in every run."""
        return f"{self.source}/{self.first_seq}/{self.first_row}/{self.binlog_file}/{self.binlog_pos}"

    @property
    def size_bytes(self) -> int:
        """Bytes of binlog in all ranges."""
        return sum(part.end - part.begin for part in self.ranges())

    def ranges(self) -> Iterator[Range]:
        """All ranges, in the order of decoding."""
        place = self.begin, self.end, self.binlog_pos
        yield Range(*place, self.first_seq, self.clock, self.inside, self.first_row, self.table_maps, times=self.times)
        yield from self.more


class Refusal(Struct, frozen=True):
    """A table whose rows cannot be decoded from some transaction on, and the number of these rows."""

    table: TableName
    error: StrataError
    rows: int


class Plan(Struct, frozen=True):
    """Slices in stream order, and what they exclude."""

    slices: tuple[Slice, ...]
    refused: tuple[Refusal, ...]


def cut_slices(
    records: Iterable[TransactionRecord],
    lookup: FindVersion,
    *,
    source: str,
    segment: str,
    clock: int = 0,
    wanted: Callable[[TableName], bool] = lambda _: True,
    target_bytes: int = TARGET_BYTES,
    lasts: Lasts = lambda _, seq: seq,
) -> Plan:
    """Cuts consecutive transactions of one segment.

    A slice ends before a transaction whose rows need another version of a table than the slice has, and after the
    transaction with which it reaches `target_bytes`. A transaction that is itself larger is cut at its split points.

    Args:
        records: The transactions, in order.
        lookup: Returns the version of a table.
        source: Name of the source.
        segment: Path or URL of the segment.
        clock: The commit clock before the first transaction, microseconds UTC.
        wanted: Which tables to decode; system databases never are.
        target_bytes: Size of a slice.
        lasts: Returns how long the result of `lookup` stays valid. `lookup` takes a third of the time for small
            transactions.
    """
    planner = _Planner(lookup, source, segment, wanted, target_bytes, lasts, clock)
    for record in records:
        planner.add(record)
    planner.close()
    refused = tuple(Refusal(table, error, planner.refused_rows[table]) for table, error in planner.errors.items())
    return Plan(tuple(planner.slices), refused)


class _KnownVersion(Struct, frozen=True):
    """The version of a table for some transactions."""

    table: PlannedVersion | None
    """None if it is refused."""
    first: int
    """Ordinals of the first and the last of these transactions."""
    last: int


def _is_other(table: PlannedVersion | None, other: PlannedVersion | None) -> bool:
    return table is not other and table != other


def _require_own_rows(definition: TableDefinition) -> None:
    if not definition.has_own_rows:
        raise SchemaGapError(
            ROWS_ELSEWHERE,
            remedy="Write to the tables of the UNION, and name this one in `exclude` of the settings. Mirrors of these "
            "tables lack what was written through it: `strata dump` reads them.",
        )


class _Planner(Struct):
    lookup: FindVersion
    source: str
    segment: str
    wanted: Callable[[TableName], bool]
    target_bytes: int
    lasts: Lasts
    clock: int
    known: dict[TableName, _KnownVersion] = field(default_factory=dict)
    named: dict[TableRows, TableName | None] = field(default_factory=dict)
    """From what a transaction did to a table to the table's name; None if its rows are not wanted, or it has none."""
    slices: list[Slice] = field(default_factory=list)
    errors: dict[TableName, StrataError] = field(default_factory=dict)
    refused_rows: dict[TableName, int] = field(default_factory=dict)
    segment_url: str = ""
    """Path or URL of the open slice's segment."""
    binlog_file: str = ""
    ranges: list[Range] = field(default_factory=list)
    """Ranges of the open slice, without the open range."""
    size: int = 0
    """Bytes of `ranges`."""
    tables: dict[TableName, PlannedVersion | None] = field(default_factory=dict)
    """Tables of the open slice; None for a table that is refused."""
    first: TransactionRecord | None = None
    """The transaction that the open range begins with."""
    end: int = 0
    clock_before: int = 0
    has_rows: bool = False
    """Whether the open range has wanted rows."""
    times: list[tuple[int, int]] = field(default_factory=list)
    """Of the open range."""

    def add(self, record: TransactionRecord) -> None:
        if record.mark is not None and record.mark.step is XaStep.PREPARE:
            # Its rows take effect with its XA COMMIT, if there is one.
            self.clock = record.committed_at
            return
        segment_url = record.segment if isinstance(record, CommittedRecord) else self.segment
        needed = {name: self._find(name, record) for name in self._names(record)}
        if self._must_cut(segment_url, needed):
            self.close()
        elif self._is_apart(record):
            self._end_range()
        if self.first is None:
            self.first, self.clock_before = record, self.clock
            self.segment_url, self.binlog_file = segment_url, record.binlog_file
        self.tables.update(needed)
        self.has_rows = self.has_rows or any(needed.values())
        self._keep_time(record)
        self.end = record.end
        self.clock = record.committed_at
        if record.end - record.begin > self.target_bytes and record.splits:
            self._split(record)

    def close(self) -> None:
        """Ends the open slice, if there is one with rows."""
        self._end_range()
        if self.ranges:
            self._emit()
        self.tables = {}

    def _keep_time(self, record: TransactionRecord) -> None:
        time = time_to_keep(record)
        if time != (self.times[-1][1] if self.times else 0):
            self.times.append((record.seq, time))

    def _end_range(self) -> None:
        if self.first is not None and self.has_rows:
            self._add_range(self.first, self.first.begin, self.end)
        self.first, self.has_rows, self.times = None, False, []

    def _names(self, record: TransactionRecord) -> list[TableName]:
        return [name for name in map(self._name, record.tables) if name is not None]

    def _name(self, rows: TableRows) -> TableName | None:
        if rows not in self.named:
            name = TableName(rows.database, rows.table)
            is_wanted = rows.rows and name.database not in SYSTEM_DATABASES and self.wanted(name)
            self.named[rows] = name if is_wanted else None
        return self.named[rows]

    def _must_cut(self, segment_url: str, needed: dict[TableName, PlannedVersion | None]) -> bool:
        if self.first is None and not self.ranges:
            return False
        size = self.size + (self.end - self.first.begin if self.first is not None else 0)
        moved = any(_is_other(self.tables.get(name, table), table) for name, table in needed.items())
        return size >= self.target_bytes or moved or segment_url != self.segment_url or len(self.ranges) >= MOST_RANGES

    def _is_apart(self, record: TransactionRecord) -> bool:
        """Whether a transaction is not directly after the open range, or has the rows of a prepared one."""
        return (
            isinstance(record, CommittedRecord) or isinstance(self.first, CommittedRecord) or record.begin != self.end
        )

    def _find(self, name: TableName, record: TransactionRecord) -> PlannedVersion | None:
        seq = record.prepared_seq if isinstance(record, CommittedRecord) else record.seq
        known = self.known.get(name)
        if known is None or not known.first <= seq <= known.last:
            known = self.known[name] = self._look_up(name, seq, record)
        if known.table is None:
            rows = sum(rows.rows for rows in record.tables if TableName(rows.database, rows.table) == name)
            self.refused_rows[name] = self.refused_rows.get(name, 0) + rows
        return known.table

    def _look_up(self, name: TableName, seq: int, record: TransactionRecord) -> _KnownVersion:
        table, last = None, seq
        try:
            last = self.lasts(name, seq)
            version = self.lookup(name, seq)
            _require_own_rows(version.definition)
            table = PlannedVersion(name.database, name.table, version.version_id, version.definition.to_json())
        except Exception as error:
            if may_pass(error):
                raise
            gtid = str(record.gtid) if record.gtid else None
            why = as_strata_error(error, str(name))
            self.errors.setdefault(
                name, why.located(table=str(name), gtid=gtid, file=record.binlog_file, offset=record.binlog_pos)
            )
        return _KnownVersion(table, seq, last)

    def _split(self, record: TransactionRecord) -> None:
        """Cuts the open slice, which ends with a transaction larger than a slice, at its split points."""
        if self.first is None or not self.has_rows:
            self.first, self.times = None, []
            return
        # The first part includes what the slice had before.
        of, begin, point = self.first, self.first.begin, None
        for following in record.splits:
            if following.offset - begin >= self.target_bytes:
                self._add_range(of, begin, following.offset, point)
                self._emit()
                of, begin, point = record, following.offset, following
        self._add_range(of, begin, record.end, point)
        self._emit()
        self.first, self.has_rows, self.times, self.tables = None, False, [], {}

    def _add_range(self, record: TransactionRecord, begin: int, end: int, point: SplitPoint | None = None) -> None:
        """A range of the open slice that begins with a transaction, or inside of one."""
        is_inside = point is not None or isinstance(record, CommittedRecord)
        self.ranges.append(
            Range(
                begin=begin,
                end=end,
                binlog_pos=record.binlog_pos + begin - record.begin,
                first_seq=record.seq,
                clock=record.committed_at if is_inside else self.clock_before,
                inside=(str(record.gtid) if record.gtid else "") if is_inside else None,
                first_row=point.row if point else 0,
                table_maps=point.table_maps if point else (),
                times=() if is_inside else tuple(self.times),
            )
        )
        self.size += end - begin

    def _emit(self) -> None:
        first, *more = self.ranges
        self.slices.append(
            Slice(
                source=self.source,
                segment=self.segment_url,
                binlog_file=self.binlog_file,
                begin=first.begin,
                end=first.end,
                binlog_pos=first.binlog_pos,
                first_seq=first.first_seq,
                first_row=first.first_row,
                clock=first.clock,
                inside=first.inside,
                table_maps=first.table_maps,
                tables=tuple(table for _, table in sorted(self.tables.items()) if table is not None),
                more=tuple(more),
                times=first.times,
            )
        )
        self.ranges, self.size = [], 0
