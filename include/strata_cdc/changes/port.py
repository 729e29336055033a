"""Row-level changes: what every source of changes gives, whatever its log is. Checks, change tables, mirrors, streams
and groups use only this.
Not here: the binlog's way to give them (`binlog_changes.py`, `decode.py`), positions (`position/port.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.schema.model.definition import TableDefinition, TableName

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.limits import DecodeLimits
    from strata_cdc.changes.plan import Slice
    from strata_cdc.errors import StrataError
    from strata_cdc.position.port import Position
    from strata_cdc.position.sets import Gtid, Writer
    from strata_cdc.schema.history.neighbours import Neighbour

# Rows ---------------------------------------------------------------------------------------------


class TableVersion(Struct, frozen=True):
    """A version that may decode rows of a table."""

    version_id: int
    definition: TableDefinition
    near: Callable[[], tuple[Neighbour, ...]] | None = None
    """Gives the versions before and after it, if they are known; called only if rows contradict this one."""


Lookup = Callable[[TableName, int], TableVersion | None]
"""From a table and the ordinal of a transaction to the version for its rows; None if the rows are not wanted. Raises
SchemaGapError if the version is not known."""


Near = Callable[[TableName, int], "tuple[Neighbour, ...]"]
"""From a table and the id of a version of it to the versions before and after that one."""


class ChangeBatch(Struct, frozen=True):
    """Decoded changes of one table, in stream order."""

    table: TableName
    version_id: int | None
    """The version under which the rows were written; None if they are decoded by their log alone."""
    definition: TableDefinition
    batch: pa.RecordBatch
    """Columns as in `arrow.change_schema`."""

    @property
    def kind(self) -> tuple[TableName, int | None, int]:
        """The same for all batches with the same kind of rows; valid as long as their definition is referenced, as
        `TableLines` does."""
        return self.table, self.version_id, id(self.definition)


class QuarantinedRows(Struct, frozen=True):
    """Changes that must not be published as they are; they are in no `ChangeBatch`."""

    table: TableName
    version_id: int | None
    """Id of the version that should have decoded them."""
    definition: TableDefinition
    """The definition of the columns of `rows`."""
    error: StrataError
    """The reason, with the position of the first row."""
    rows: pa.RecordBatch
    """What could be read. If the log contradicts the version: columns `@1`, `@2`, ... by the log alone; else NULL
    instead of the values that cannot be read, with their bytes in `_invalid` (base64)."""
    faults: pa.Array | None = None
    """For each row the values that cannot be read, as `VALUE_FAULTS`; None if the log contradicts the version."""


VALUE_FAULTS: Final = pa.list_(pa.struct({"column": pa.string(), "error": pa.string(), "reason": pa.string()}))
"""The name of a column (`_before.NAME` in the before image), the name of the error's class, and the reason."""


class Hole(Struct, frozen=True):
    """Rows that were changed, but are not in the log."""

    error: StrataError
    """What is missing, with its position; a table only if it is known."""
    seq: int = 0
    """Ordinal of the transaction that the walk was in; 0 if it was in none."""


class Watermark(Struct, frozen=True):
    """All rows before this position of the stream have been yielded."""

    unended_seq: int
    """Ordinal of the first transaction that has not ended before it."""
    is_last: bool = False
    """Whether nothing more is read, or can be read."""
    missing_from: tuple[int, int] | None = None
    """Transaction and row before which all rows have been yielded, if that row cannot be read. Later rows of
    other tables may have been yielded."""


DecodedItem = ChangeBatch | QuarantinedRows | Hole | Watermark
"""What a source yields of rows. No row after a watermark is earlier in the stream than rows before it."""


def placed(error: StrataError, rows: pa.RecordBatch) -> StrataError:
    """A copy of an error with the position of the first row."""
    placed = type(error)(error.message, remedy=error.remedy, table=error.table, commit_ts=error.commit_ts)
    columns = ChangeColumns(rows)
    gtid, file, offset = (columns.fact(name)[0].as_py() for name in ("_gtid", "_binlog_file", "_binlog_pos"))
    placed = placed.located(gtid=gtid, file=file, offset=offset)
    return placed.across(error.crossing)


# Rows that a plan has cut into slices -------------------------------------------------------------


class ReadSlice(Protocol):
    """Reads the rows of a planned slice; tasks that share nothing do this."""

    def __call__(self, planned_slice: Slice, /) -> Iterator[ChangeBatch | QuarantinedRows | Hole]:
        """The rows of the slice's tables, in batches of at most 8,192 rows; the same slice gives the same batches.

        Raises:
            StrataError: The slice cannot be read; with file, offset and table as far as they are known.
        """


# Transactions of a stream -------------------------------------------------------------------------


class TransactionFacts(Protocol):
    """What is known of one transaction."""

    @property
    def seq(self) -> int:
        """Its ordinal in the stream, from 1."""

    @property
    def gtid(self) -> Gtid | None:
        """Its GTID; None if its source has none."""

    @property
    def committed_at(self) -> int:
        """By the commit clock of the stream, microseconds UTC."""


class TransactionColumns(Protocol):
    """Complete consecutive transactions of a stream, as columns of the same length."""

    @property
    def first_seq(self) -> int:
        """Ordinal of the first transaction; the others follow without gaps."""

    @property
    def sids(self) -> tuple[Writer, ...]:
        """Who numbered them; `sid_numbers` are indexes into it."""

    @property
    def sid_numbers(self) -> Ints:
        """-1 for a transaction without a GTID."""

    @property
    def numbers(self) -> Ints:
        """The number in the GTID."""

    @property
    def committed_at(self) -> Ints:
        """As in `TransactionFacts`."""

    @property
    def commit_timestamps(self) -> Ints:
        """Commit times by the clock of the server, microseconds UTC; 0: not known."""

    @property
    def statements_end(self) -> Ints:
        """How many statements the transactions up to this one may have."""

    def __len__(self) -> int:
        """How many there are."""

    def record(self, row: int) -> TransactionFacts:
        """One of them, from 0."""


class TransactionPositions(Protocol):
    """The positions of the transactions of some columns, by their row."""

    def before(self, row: int) -> Position:
        """What has been executed before a transaction; the row after the last one is allowed, too."""

    def after(self, row: int) -> Position:
        """What has been executed after it."""

    def transaction(self, row: int) -> Any:
        """The transaction, identified as its position counts it."""


class SchemaChange(Struct, frozen=True):
    """A change of schemas: as text, as the tables that it changed, or both."""

    seq: int
    """Ordinal of its transaction."""
    number: int
    """Its number in the transaction, from 1; it comes before the transaction's rows."""
    statement: str
    """Without passwords; empty if the source only says what has changed."""
    databases: frozenset[str]
    """Databases that it names."""
    tables: frozenset[TableName]
    """Tables that it names or has changed."""
    version: int | None = None
    """Id of the version that it made; None if it made no version (TRUNCATE)."""


class TransactionChanges(Protocol):
    """What some transactions of a stream have done. Each is read once, in the order of the stream, `open` first."""

    def schema_changes(self) -> Iterator[SchemaChange]:
        """Their DDL, in order.

        Raises:
            CorruptEventError: A statement cannot be read.
        """

    def open(self) -> None:
        """Fetches what `rows` needs from the lake; also called if none of the transactions is wanted.

        Raises:
            StrataError: The lake does not answer.
        """

    def rows(self) -> Iterator[DecodedItem]:
        """Their rows, several transactions in one batch.

        Raises:
            StrataError: It is not known where rows are; everything before them has been yielded.
        """


class WantedRows(Struct, frozen=True):
    """Which rows of a stream are decoded, and with which versions."""

    lookup: Lookup
    tables: Callable[[TableName], bool]
    columns: frozenset[str] | None
    """Names (lower case) of the wanted columns of every table; None for all."""
    limits: DecodeLimits
