"""A source of row-level changes that is no binlog: a folder of JSON lines, a transaction a line, whose positions are
numbers of commits. It is the second implementation of `changes/port.py`. Not here: tests."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.changes.arrow import ROW_FIELDS, change_schema
from strata_cdc.changes.port import ChangeBatch, SchemaChange, Watermark
from strata_cdc.errors import SchemaGapError
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.position.token_digits import digits, numbers_of
from strata_cdc.position.token_seal import SEAL_LETTERS, sealed
from strata_cdc.schema.model.definition import TableName, definition_from_json
from strata_cdc.streams.events import Along, StreamTransaction
from strata_cdc.streams.port import ChosenTransactions
from strata_cdc.streams.transactions import StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from strata_cdc.changes.plan import Slice
    from strata_cdc.changes.port import DecodedItem
    from strata_cdc.schema.model.definition import TableDefinition

CHANGES, SCHEMA = "changes.jsonl", "schema.json"
MOST_ROWS = 5
"""Of a batch: few, so that batches end in other places than those of the binlog."""


# Values -------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """A value of a row as JSON has it, with nothing lost."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: to_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def in_numbers(column: pa.Array) -> pa.Array:
    """Times as numbers, which Python's own types would round or refuse."""
    kind = column.type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column


def from_json(values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column of such values."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array(values, pa.string()).cast(kind)
    if pa.types.is_binary(kind):
        return pa.array([None if one is None else base64.b64decode(one) for one in values], kind)
    if pa.types.is_struct(kind):
        parts = [from_json([one and one[field.name] for one in values], field.type) for field in kind]
        missing = pa.array([one is None for one in values])
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=missing)
    return pa.array([list(map(tuple, one)) if one and pa.types.is_map(kind) else one for one in values], kind)


# Writing ------------------------------------------------------------------------------------------


class JsonRow(Struct, frozen=True):
    """A row as the writer takes it."""

    seq: int
    row: int
    table: TableName
    version: int
    values: list[Any]
    """Of the columns of the after image, then of the before image or None, then `_op`, `_missing`, `_invalid`."""


def rows_of(batch: ChangeBatch) -> Iterator[JsonRow]:
    """The rows of a batch."""
    own, facts = len(batch.definition.columns), [field.name for field in ROW_FIELDS]
    columns = [in_numbers(batch.batch.column(at)).to_pylist() for at in range(own)]
    before = batch.batch.column(own)
    parts = [in_numbers(part).to_pylist() for part in before.flatten()]
    known = {name: batch.batch.column(own + 1 + facts.index(name)).to_pylist() for name in facts}
    for at in range(batch.batch.num_rows):
        images = [[column[at] for column in columns], [part[at] for part in parts] if before[at].is_valid else None]
        values = to_json([*images, known["_op"][at], known["_missing"][at], known["_invalid"][at]])
        yield JsonRow(known["_seq"][at], known["_row"][at], batch.table, batch.version_id or 0, values)


def write_folder(
    folder: Path,
    times: dict[int, tuple[int, int]],
    rows: Iterable[JsonRow],
    ddl: Iterable[SchemaChange],
    definitions: dict[int, TableDefinition],
) -> None:
    """Writes a folder; `times` has the two times of each transaction, by ordinal, from 1 without gaps."""
    mine, statements = defaultdict(list), defaultdict(list)
    for row in sorted(rows, key=lambda one: (one.seq, one.row)):
        mine[row.seq].append([row.table.database, row.table.table, row.version, row.values])
    for one in ddl:
        tables = sorted([name.database, name.table] for name in one.tables)
        statements[one.seq].append([one.number, one.statement, sorted(one.databases), tables, one.version])
    folder.mkdir(parents=True)
    with (folder / CHANGES).open("w") as file:
        for seq, (committed_at, stamp) in sorted(times.items()):
            # The numbers of commits have gaps, as a clock's do.
            line = {"ts": 1000 + 7 * seq, "committed_at": committed_at, "stamp": stamp}
            print(json.dumps({**line, "ddl": statements[seq], "rows": mine[seq]}), file=file)
    known = {number: definition.to_json() for number, definition in definitions.items()}
    (folder / SCHEMA).write_text(json.dumps(known))


# Reading ------------------------------------------------------------------------------------------


class CommitNumber(Struct, frozen=True):
    """Everything that a feed has committed up to a number; a transaction is identified by its number."""

    feed: str
    ts: int

    @property
    def counted(self) -> str:
        return f"commits of {self.feed}"

    @property
    def is_shared(self) -> bool:
        return False

    def contains(self, transaction: int) -> bool:
        return transaction <= self.ts

    def __le__(self, other: CommitNumber) -> bool:
        return self.ts <= other.ts

    def __or__(self, other: CommitNumber) -> CommitNumber:
        return CommitNumber(self.feed, max(self.ts, other.ts))

    def describe(self) -> dict[str, str | int]:
        return {"commit_ts": self.ts}


class JsonTransaction(Struct, frozen=True):
    """One line."""

    seq: int
    committed_at: int
    gtid: None = None


class JsonColumns(Struct, frozen=True):
    """Some lines, as `TransactionColumns`; and where they are."""

    first_seq: int
    ts: list[int]
    lines: list[dict[str, Any]]
    sids: tuple[()] = ()

    @property
    def sid_numbers(self) -> Any:
        return np.full(len(self.ts), -1, np.int64)

    @property
    def numbers(self) -> Any:
        return np.zeros(len(self.ts), np.int64)

    @property
    def committed_at(self) -> Any:
        return np.array([line["committed_at"] for line in self.lines], np.int64)

    @property
    def commit_timestamps(self) -> Any:
        return np.array([line["stamp"] for line in self.lines], np.int64)

    @property
    def statements_end(self) -> Any:
        return np.cumsum([len(line["ddl"]) for line in self.lines])

    def __len__(self) -> int:
        return len(self.ts)

    def record(self, row: int) -> JsonTransaction:
        return JsonTransaction(self.first_seq + row, self.lines[row]["committed_at"])


class JsonItem(Struct, frozen=True):
    """Some lines that come together."""

    batch: JsonColumns

    def statements(self, record: JsonTransaction) -> Iterator[Any]:
        return iter(self.batch.lines[record.seq - self.batch.first_seq]["ddl"])


class TsAlong(Struct, frozen=True):
    """As `TransactionPositions`."""

    feed: str
    start: int
    """The number before the first line."""
    ts: list[int]

    def before(self, row: int) -> CommitNumber:
        return CommitNumber(self.feed, self.ts[row - 1] if row else self.start)

    def after(self, row: int) -> CommitNumber:
        return CommitNumber(self.feed, self.ts[row])

    def transaction(self, row: int) -> int:
        return self.ts[row]


class _Steps:
    """The tokens inside a transaction: the product has none of these positions."""

    crc, tail = 0, ""

    def __init__(self, ts: int) -> None:
        self.head = f"json.{ts}."

    def text(self, steps: int) -> str:
        return sealed(f"{self.head}{digits(steps)}")


class JsonPlace(StreamTransaction):
    """A transaction whose tokens are `json.TS` and, inside of it, `json.TS.STEP`."""

    @cached_property
    def after_text(self) -> str:
        return f"json.{self.transaction}"

    @cached_property
    def steps(self) -> Any:
        return _Steps(self.transaction)


class JsonPlaces(StreamTransactions):
    """The places of some lines."""

    def __getitem__(self, seq: int) -> StreamTransaction:
        return JsonPlace(*super().__getitem__(seq).made_of)


class JsonFolder:
    """A folder, opened."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / CHANGES
        self.lines: list[dict[str, Any]] = []
        self.begins = [0]
        """Offsets of the lines (bytes), and the end of the last one."""
        for line in self.file.read_bytes().splitlines(keepends=True):
            self.lines.append(json.loads(line))
            self.begins.append(self.begins[-1] + len(line))
        known = json.loads((folder / SCHEMA).read_text())
        self.definitions = {int(number): definition_from_json(text) for number, text in known.items()}

    def columns(self, first: int, count: int) -> JsonColumns:
        """Some lines from number `first`, from 0."""
        some = self.lines[first : first + count]
        return JsonColumns(first + 1, [line["ts"] for line in some], some)

    def batches(self, first: int, lines: list[dict[str, Any]], is_wanted: Any) -> Iterator[ChangeBatch]:
        """The rows of some lines, table by table in batches of a few rows; those of a line may be in two."""
        waiting: dict[tuple[TableName, int], list[tuple[int, int, list[Any]]]] = defaultdict(list)
        for at, line in enumerate(lines, start=first):
            for row, (database, table, version, values) in enumerate(line["rows"]):
                key = TableName(database, table), version
                if not is_wanted(key[0]):
                    continue
                waiting[key].append((at, row, values))
                if len(waiting[key]) >= MOST_ROWS:
                    yield self._batch(*key, waiting.pop(key))
        for key, rows in waiting.items():
            yield self._batch(*key, rows)

    def _batch(self, table: TableName, version: int, rows: list[tuple[int, int, list[Any]]]) -> ChangeBatch:
        definition = self.definitions[version]
        schema, count, own = change_schema(definition), len(rows), len(definition.columns)
        after, before, op, missing, invalid = zip(*(values for _, _, values in rows), strict=True)
        images = [from_json([one[at] for one in after], schema.field(at).type) for at in range(own)]
        kind = schema.field(own).type
        parts = [from_json([one and one[at] for one in before], kind.field(at).type) for at in range(own)]
        absent = pa.array([one is None for one in before])
        facts = {
            "_op": list(op),
            "_gtid": [None] * count,
            "_seq": [at + 1 for at, _, _ in rows],
            "_row": [row for _, row, _ in rows],
            "_committed_at": [self.lines[at]["committed_at"] for at, _, _ in rows],
            "_binlog_file": [self.file.name] * count,
            "_binlog_pos": [self.begins[at] for at, _, _ in rows],
            "_schema_version": [version] * count,
            "_missing": list(missing),
            "_invalid": list(invalid),
        }
        columns = [*images, pa.StructArray.from_arrays(parts, fields=list(kind), mask=absent)]
        columns += [from_json(facts[field.name], field.type) for field in ROW_FIELDS]
        return ChangeBatch(table, version, definition, pa.RecordBatch.from_arrays(columns, schema=schema))


def read_json_slice(piece: Slice) -> Iterator[ChangeBatch]:
    """The rows of a slice of a folder, as `ReadSlice`."""
    folder = JsonFolder(Path(piece.segment).parent)
    first, stop = (folder.begins.index(offset) for offset in (piece.begin, piece.end))
    wanted = {table.name for table in piece.tables}
    yield from folder.batches(first, folder.lines[first:stop], wanted.__contains__)


class JsonChanges(Struct, frozen=True):
    """As `TransactionChanges`."""

    folder: JsonFolder
    columns: JsonColumns
    is_wanted: Any

    def schema_changes(self) -> Iterator[SchemaChange]:
        for seq, line in enumerate(self.columns.lines, start=self.columns.first_seq):
            for number, statement, databases, tables, version in line["ddl"]:
                names = frozenset(TableName(*name) for name in tables)
                yield SchemaChange(seq, number, statement, frozenset(databases), names, version)

    def open(self) -> None:
        """There is nothing to fetch."""

    def rows(self) -> Iterator[DecodedItem]:
        first = self.columns.first_seq - 1
        yield from self.folder.batches(first, self.columns.lines, self.is_wanted)
        yield Watermark(self.columns.first_seq + len(self.columns), is_last=True)


class JsonSourceStream:
    """As `SourceStream`, from the position of a token on."""

    folds_names = False
    executed = tracked_from = None
    last_commit = 0

    def __init__(self, folder: JsonFolder, name: str, is_wanted: Any, token: str | None = None, most: int = 3) -> None:
        self._folder, self._name, self._is_wanted, self._most = folder, name, is_wanted, most
        _, ts, steps = (*(token or "json.0").split("."), None, None)[:3]
        self._given = {} if steps is None else {int(ts): numbers_of(steps[:-SEAL_LETTERS])[0]}
        self._ts = int(ts) if steps is None else int(ts) - 1

    @property
    def position(self) -> SourcePosition:
        return SourcePosition(self._name, CommitNumber(self._name, self._ts))

    def read_transactions(self) -> Generator[ChosenTransactions | None]:
        first = sum(line["ts"] <= self._ts for line in self._folder.lines)
        for begin in range(first, len(self._folder.lines), self._most):
            columns = self._folder.columns(begin, self._most)
            along = Along(self._name, "", TsAlong(self._name, self._ts, columns.ts), {})
            places = JsonPlaces(along, JsonItem(columns), np.arange(len(columns)))
            given = {columns.first_seq + at: self._given[ts] for at, ts in enumerate(columns.ts) if ts in self._given}
            yield ChosenTransactions(JsonChanges(self._folder, columns, self._is_wanted), places, given)
            self._ts = columns.ts[-1]
            yield None

    def close(self) -> None:
        """Nothing is open."""

    def definition(self, table: TableName, seq: int | None) -> TableDefinition:
        """By the newest rows of the table up to the transaction."""
        rows = [row for line in self._folder.lines[:seq] for row in line["rows"]]
        versions = [version for database, name, version, _ in rows if TableName(database, name) == table]
        if not versions:
            raise SchemaGapError("the folder has no rows of the table", table=str(table))
        return self._folder.definitions[versions[-1]]
