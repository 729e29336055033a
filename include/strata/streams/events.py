"""What an update stream gives: rows, transaction boundaries, DDL, heartbeats, each with the token of its place.
Not here: finding them (`decoding.py`), their lines (`jsonl.py`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from strata.gtid.position import BinlogPosition
from strata.gtid.sets import GtidSet
from strata.gtid.token import FilePosition, Part, Place, Token
from strata.gtid.token_text import StepTexts, to_text

if TYPE_CHECKING:
    from strata.events.model import TransactionRecord


class TransactionPlace:
    """One transaction of a stream: the places in front of it, in it, and behind it.

    A step is a statement or a row; statements are counted first, as they take effect before the rows.
    """

    __slots__ = ("__dict__", "before", "record", "statements")

    def __init__(self, before: Place, record: TransactionRecord, statements: int) -> None:
        """Takes the place in front of it, its record, and how many statements it has."""
        self.before = before
        self.record = record
        self.statements = statements

    @cached_property
    def after(self) -> Place:
        """Behind all of it."""
        record, before = self.record, self.before
        if isinstance(before.position, FilePosition):
            end = record.binlog_pos + record.end - record.begin
            at = FilePosition(before.position.server_uuid, BinlogPosition.of(record.binlog_file, end))
            return Place(before.source, at, before.lineage, record.committed_at)
        executed = before.position if record.gtid is None else before.position.add(record.gtid)
        return Place(before.source, executed, before.lineage, record.committed_at)

    @cached_property
    def after_text(self) -> str:
        """The token behind all of it."""
        return to_text(Token((self.after,)))

    @cached_property
    def steps(self) -> StepTexts:
        """The tokens in it."""
        record, before = self.record, self.before
        if isinstance(before.position, FilePosition):
            at = BinlogPosition.of(record.binlog_file, record.binlog_pos)
            inside = replace(before.position, at=at, steps=1)
            return StepTexts(Place(before.source, inside, before.lineage, record.committed_at))
        if record.gtid is None or not isinstance(before.position, GtidSet):
            raise RuntimeError("a stream by GTID set has a transaction without one")
        part = Part(record.gtid, 1)
        return StepTexts(Place(before.source, before.position, before.lineage, record.committed_at, (part,)))

    @property
    def gtid(self) -> str | None:
        """Its GTID as text."""
        return str(self.record.gtid) if self.record.gtid else None


class RowChange(Struct, frozen=True):
    """A row that was inserted, updated or deleted."""

    place: TransactionPlace
    database: str
    table: str
    op: str
    """`insert`, `update` or `delete`."""
    before: dict[str, Any] | None
    """By column, as Python values of the column's Arrow type; columns that a partial image lacks are left out."""
    after: dict[str, Any] | None
    row: int
    """Ordinal of the row in its transaction, from 0."""
    schema_version: int
    """Id of the version that decoded it; below 0 for one that the store does not have yet."""
    json_diffs: dict[str, str] | None = None
    """Changes of JSON documents of which the binlog does not have the whole (PARTIAL_JSON), by column."""

    @property
    def seq(self) -> int:
        """Ordinal of the transaction in the landed stream."""
        return self.place.record.seq

    @property
    def gtid(self) -> str | None:
        """GTID of the transaction."""
        return self.place.gtid

    @property
    def committed_at(self) -> int:
        """Microseconds UTC."""
        return self.place.record.committed_at

    @property
    def token(self) -> str:
        """A reader that goes on from it gets what follows this row."""
        return self.place.steps.text(self.place.statements + self.row + 1)


class Ddl(Struct, frozen=True):
    """A statement that changes a schema; the rows that need what it made follow it."""

    place: TransactionPlace
    statement: str
    """Without passwords."""
    number: int
    """In its transaction, from 1."""
    tables: tuple[str, ...]
    """`database.table` of those that it names or changed, in order."""
    version: int | None
    """Id of the version that it made in the store; below 0 where the store does not have it yet; None if it made none,
    as TRUNCATE does."""

    @property
    def token(self) -> str:
        """A reader that goes on from it gets what follows this statement."""
        return self.place.steps.text(self.number)


class Commit(Struct, frozen=True):
    """The end of a transaction."""

    place: TransactionPlace

    @property
    def gtid(self) -> str | None:
        """Its GTID."""
        return self.place.gtid

    @property
    def committed_at(self) -> int:
        """Microseconds UTC."""
        return self.place.record.committed_at

    @property
    def token(self) -> str:
        """A reader that goes on from it gets the next transaction."""
        return self.place.after_text


class Heartbeat(Struct, frozen=True):
    """Nothing has happened for a while, or nothing that was asked for."""

    token: str
    """How far the stream has been read."""


Event = RowChange | Ddl | Commit | Heartbeat
