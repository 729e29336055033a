"""The events of an update stream: rows, rows that cannot be read, ends of transactions, DDL, heartbeats. Each has the
token of its position.
Not here: finding them (`decoding.py`), their lines (`changes/jsonl.py`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.position.source_position import PartialTransaction, SourcePosition, kept_origins
from strata_cdc.position.token import Token
from strata_cdc.position.token_seal import StepTexts
from strata_cdc.position.token_text import to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.changes.port import TransactionColumns, TransactionFacts, TransactionPositions
    from strata_cdc.position.port import Position
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.streams.unreadable import UnreadableRow


class Along(Struct, frozen=True):
    """What transactions of one stream have in common."""

    source: str
    lineage: str
    positions: TransactionPositions
    """The positions of the transactions of their batch."""
    copied_from: Mapping[str, str]
    """As `copied_from` of the source."""


class StreamTransaction:
    """One transaction of a stream: the positions before it, in it, and after it.

    A step is a statement or a row; statements are counted first, as they take effect before the rows.
    """

    __slots__ = ("__dict__", "_along", "_batch", "_row", "statements")

    def __init__(self, along: Along, batch: TransactionColumns, row: int, statements: int) -> None:
        """Takes where the transaction's record is, and how many statements it has.

        Args:
            along: What the transaction has in common with the others of the batch.
            batch: The batch that it is in.
            row: Its row in the batch.
            statements: How many statements it has.
        """
        self.statements = statements
        self._along, self._batch, self._row = along, batch, row

    @property
    def batch(self) -> TransactionColumns:
        """The batch that it is in."""
        return self._batch

    @property
    def made_of(self) -> tuple[Along, TransactionColumns, int, int]:
        """The arguments that it was made with, to make the same transaction for another stream."""
        return self._along, self._batch, self._row, self.statements

    @property
    def source(self) -> str:
        """Name of its source."""
        return self._along.source

    @cached_property
    def record(self) -> TransactionFacts:
        """Its record."""
        return self._batch.record(self._row)

    @property
    def shown(self) -> dict[str, Any]:
        """More keys of its lines, with their values."""
        return {}

    @property
    def transaction(self) -> Any:
        """The transaction, identified as its positions count it."""
        return self._along.positions.transaction(self._row)

    @cached_property
    def before(self) -> SourcePosition:
        """The position before it."""
        return self._at(self._along.positions.before(self._row))

    @cached_property
    def after(self) -> SourcePosition:
        """The position after all of it."""
        return self._at(self._along.positions.after(self._row))

    def _at(self, position: Position) -> SourcePosition:
        along, committed_at = self._along, self.record.committed_at
        origins = kept_origins(along.copied_from, position)
        return SourcePosition(along.source, position, along.lineage, committed_at, origins=origins)

    @cached_property
    def after_text(self) -> str:
        """The token after all of it."""
        return to_text(Token((self.after,)))

    @cached_property
    def inside(self) -> SourcePosition:
        """The position after its first step."""
        return replace(self.before, parts=(PartialTransaction(self.transaction, 1),))

    @cached_property
    def steps(self) -> StepTexts:
        """The tokens in it."""
        return StepTexts(self.inside)

    @property
    def gtid(self) -> str | None:
        """Its GTID as text."""
        return str(self.record.gtid) if self.record.gtid else None


class _TransactionEvent(Struct, frozen=True):
    """What all events of a transaction have."""

    transaction: StreamTransaction

    @property
    def seq(self) -> int:
        """Ordinal of the transaction in the landed stream."""
        return self.transaction.record.seq

    @property
    def gtid(self) -> str | None:
        """GTID of the transaction."""
        return self.transaction.gtid

    @property
    def committed_at(self) -> int:
        """Commit time of the transaction, microseconds UTC."""
        return self.transaction.record.committed_at


class RowChange(_TransactionEvent, frozen=True):
    """A row that was inserted, updated or deleted."""

    database: str
    table: str
    op: str
    """`insert`, `update` or `delete`."""
    before: dict[str, Any] | None
    """By column, as Python values of the column's Arrow type; without the columns that a partial image lacks."""
    after: dict[str, Any] | None
    row: int
    """Ordinal of the row in its transaction, from 0."""
    schema_version: int
    """Id of the version with which the row was decoded; below 0 for a version that the store does not have yet."""
    json_diffs: dict[str, str] | None = None
    """Changes of JSON documents that are not whole in the binlog (PARTIAL_JSON), by column."""

    @property
    def token(self) -> str:
        """A reader that starts with this token gets what follows this row."""
        return self.transaction.steps.text(self.transaction.statements + self.row + 1)


class UnreadableChange(_TransactionEvent, frozen=True):
    """Stands for a row with values that cannot be read; a program must not mistake it for the row."""

    database: str
    table: str
    found: UnreadableRow
    """What could be read of the row, and what could not."""
    schema_version: int
    """As in a `RowChange`."""

    @property
    def row(self) -> int:
        """Ordinal of the row in its transaction, from 0."""
        return self.found.row

    @property
    def token(self) -> str:
        """A reader that starts with this token gets what follows this row."""
        return self.transaction.steps.text(self.transaction.statements + self.found.row + 1)


class Ddl(_TransactionEvent, frozen=True):
    """A statement that changes a schema; the rows that need the new schema follow it."""

    statement: str
    """Without passwords."""
    number: int
    """Its number in its transaction, from 1."""
    tables: tuple[str, ...]
    """`database.table` of the tables that it names or changed, in order."""
    version: int | None
    """Id of the version that it made in the store; below 0 if the store does not have the version yet; None if the
    statement made no version (TRUNCATE)."""
    named: frozenset[TableName] = frozenset()
    """These tables as names."""

    @property
    def token(self) -> str:
        """A reader that starts with this token gets what follows this statement."""
        return self.transaction.steps.text(self.number)


class Commit(_TransactionEvent, frozen=True):
    """The end of a transaction."""

    @property
    def token(self) -> str:
        """A reader that starts with this token gets the next transaction."""
        return self.transaction.after_text


class Heartbeat(Struct, frozen=True, dict=True):
    """Nothing has come for a while, or nothing that was requested."""

    position: SourcePosition
    """How far the stream has been read."""

    @cached_property
    def token(self) -> str:
        """The token of that position."""
        return to_text(Token((self.position,)))


Event = RowChange | UnreadableChange | Ddl | Commit | Heartbeat
