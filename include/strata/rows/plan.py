"""Cuts landed transactions into slices, each of which one task decodes without looking anything up.
Not here: which transactions belong to an interval (`jobs/`), decoding (`decode.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from strata.errors import StrataError
from strata.schema.model import TableName, definition_from_json
from strata.schema.versions import SYSTEM_DATABASES
from strata.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strata.events.model import SplitPoint, TransactionRecord
    from strata.schema.model import TableDefinition
    from strata.schema.versions import SchemaVersion

    Lookup = Callable[[TableName, int], SchemaVersion]
    """The version of a table for the rows of a transaction, by its ordinal; raises SchemaGapError."""

TARGET_BYTES = 64 << 20


class SliceTable(Struct, frozen=True):
    """A table whose rows a slice decodes, and the version that decodes them."""

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


class Slice(Struct, frozen=True):
    """A range of a segment in which no table with rows changes its schema."""

    source: str
    segment: str
    """Path or URL of the segment, or of a binlog file."""
    binlog_file: str
    """The server's name for the file."""
    begin: int
    """Offset in the segment (bytes) of the first event."""
    end: int
    """Offset behind the last event."""
    binlog_pos: int
    """Offset of `begin` in the server's file."""
    first_seq: int
    """Ordinal of the transaction that the slice begins with."""
    first_row: int
    """Ordinal of the slice's first row in that transaction."""
    clock: int
    """The commit clock before the slice, microseconds UTC; inside a transaction, that transaction's time."""
    inside: str | None = None
    """GTID of the transaction that the slice begins in the middle of, '' if it is anonymous; None if in none."""
    table_maps: tuple[int, ...] = ()
    """Offsets of the TABLE_MAP events that are in force at `begin`."""
    tables: tuple[SliceTable, ...] = ()
    """Rows of other tables are counted and passed over."""

    @property
    def key(self) -> str:
        """Names the slice, whatever run decodes it."""
        return f"{self.source}/{self.first_seq}/{self.first_row}/{self.binlog_file}/{self.binlog_pos}"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return to_plain(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Slice:
        """Reads what `to_json` gave; keys that are no fields are left alone."""
        names = cls.__struct_fields__
        given = {name: value for name, value in found.items() if name in names}
        given["table_maps"] = tuple(given.get("table_maps", ()))
        given["tables"] = tuple(SliceTable(**table) for table in given.get("tables", ()))
        return cls(**given)


class Refusal(Struct, frozen=True):
    """A table whose rows cannot be decoded from some transaction on, and how many there are."""

    table: TableName
    error: StrataError
    rows: int


class Plan(Struct, frozen=True):
    """Slices in stream order, and what they leave out."""

    slices: tuple[Slice, ...]
    refused: tuple[Refusal, ...]


def plan_slices(
    records: Iterable[TransactionRecord],
    lookup: Lookup,
    *,
    source: str,
    segment: str,
    clock: int = 0,
    wanted: Callable[[TableName], bool] = lambda _: True,
    target_bytes: int = TARGET_BYTES,
) -> Plan:
    """Cuts consecutive transactions of one segment.

    A slice ends before a transaction whose rows need another version of a table than the slice has, and behind the one
    with which it has `target_bytes`. A transaction that is larger by itself is cut at its split points.

    Args:
        records: The transactions, in order.
        lookup: Gives the version of a table.
        source: Name of the source.
        segment: Path or URL of the segment.
        clock: The commit clock before the first transaction, microseconds UTC.
        wanted: Which tables to decode; system databases never are.
        target_bytes: Size of a slice.
    """
    planner = _Planner(lookup, source, segment, wanted, target_bytes, clock)
    for record in records:
        planner.add(record)
    planner.close()
    refused = tuple(Refusal(table, error, planner.refused_rows[table]) for table, error in planner.errors.items())
    return Plan(tuple(planner.slices), refused)


class _Planner(Struct):
    lookup: Lookup
    source: str
    segment: str
    wanted: Callable[[TableName], bool]
    target_bytes: int
    clock: int
    slices: list[Slice] = field(default_factory=list)
    errors: dict[TableName, StrataError] = field(default_factory=dict)
    refused_rows: dict[TableName, int] = field(default_factory=dict)
    first: TransactionRecord | None = None
    """The transaction that the open slice begins with."""
    end: int = 0
    tables: dict[TableName, SliceTable | None] = field(default_factory=dict)
    """Of the open slice; None for a table that is refused."""
    clock_before: int = 0

    def add(self, record: TransactionRecord) -> None:
        needed = {name: self._find(name, record) for name in self._names(record)}
        if self.first is not None and self._must_cut(record, needed):
            self.close()
        if self.first is None:
            self.first, self.clock_before, self.tables = record, self.clock, {}
        self.tables.update(needed)
        self.end = record.end
        self.clock = record.committed_at
        if record.end - record.begin > self.target_bytes and record.splits:
            self._split(record)

    def close(self) -> None:
        """Ends the open slice, if there is one with rows."""
        if self.first is not None and any(self.tables.values()):
            record = self.first
            self._emit(record, record.begin, self.end, record.binlog_pos, clock=self.clock_before)
        self.first = None

    def _names(self, record: TransactionRecord) -> list[TableName]:
        names = (TableName(rows.database, rows.table) for rows in record.tables if rows.rows)
        return [name for name in names if name.database not in SYSTEM_DATABASES and self.wanted(name)]

    def _must_cut(self, record: TransactionRecord, needed: dict[TableName, SliceTable | None]) -> bool:
        if self.first is None:
            return False
        grown = self.end - self.first.begin >= self.target_bytes
        moved = any(self.tables.get(name, table) != table for name, table in needed.items())
        return grown or moved or record.begin != self.end

    def _find(self, name: TableName, record: TransactionRecord) -> SliceTable | None:
        try:
            version = self.lookup(name, record.seq)
        except StrataError as error:
            rows = sum(
                rows.rows for rows in record.tables if (rows.database, rows.table) == (name.database, name.table)
            )
            gtid = str(record.gtid) if record.gtid else None
            self.errors.setdefault(
                name, error.located(table=str(name), gtid=gtid, file=record.binlog_file, offset=record.binlog_pos)
            )
            self.refused_rows[name] = self.refused_rows.get(name, 0) + rows
            return None
        return SliceTable(name.database, name.table, version.version_id, version.definition.to_json())

    def _split(self, record: TransactionRecord) -> None:
        """Cuts the open slice, which ends with a transaction larger than a slice, at its split points."""
        if self.first is None or not any(self.tables.values()):
            self.first = None
            return
        begin, point = self.first.begin, None
        for following in record.splits:
            if following.offset - begin >= self.target_bytes:
                self._part(record, begin, following.offset, point)
                begin, point = following.offset, following
        self._part(record, begin, record.end, point)
        self.first = None

    def _part(self, record: TransactionRecord, begin: int, end: int, point: SplitPoint | None) -> None:
        if point is None:
            first = self.first or record
            self._emit(first, begin, end, first.binlog_pos, clock=self.clock_before)
        else:
            position = record.binlog_pos + begin - record.begin
            self._emit(record, begin, end, position, clock=record.committed_at, point=point)

    def _emit(
        self,
        record: TransactionRecord,
        begin: int,
        end: int,
        binlog_pos: int,
        *,
        clock: int,
        point: SplitPoint | None = None,
    ) -> None:
        inside = None if point is None else (str(record.gtid) if record.gtid else "")
        self.slices.append(
            Slice(
                source=self.source,
                segment=self.segment,
                binlog_file=record.binlog_file,
                begin=begin,
                end=end,
                binlog_pos=binlog_pos,
                first_seq=record.seq,
                first_row=point.row if point else 0,
                clock=clock,
                inside=inside,
                table_maps=point.table_maps if point else (),
                tables=tuple(table for _, table in sorted(self.tables.items()) if table is not None),
            )
        )
