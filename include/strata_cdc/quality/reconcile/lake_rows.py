"""The rows of a table at a position by the lake, and the keys of which the lake does not know enough.
Not here: up to where that is known (`published.py`), holding it against the server's rows (`compare.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.errors import Usage
from strata_cdc.position.sets import Gtid
from strata_cdc.quality.proof.replay import TableState, replay
from strata_cdc.tables.convert import exact_schema, state_schema
from strata_cdc.tables.layout import METADATA, column_name
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.united import as_schema
from strata_cdc.tables.verbatim import INVALID_COLUMN, coalesced, exact_changes, exact_names, image_texts, with_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.position.port import Executed
    from strata_cdc.quality.reconcile.past import TablePast
    from strata_cdc.quality.reconcile.published import PublishedReach
    from strata_cdc.schema.model.definition import TableDefinition, TableName

    Read = Callable[[TableName], Sequence[pa.Table]]


class LakeRows(Struct, frozen=True):
    """A table by its changes."""

    state: TableState
    touched: pa.Table
    """Keys (columns of the primary key; whole rows without one) of changes that one side may have and the other not."""
    known: pa.Table | None
    """Keys of all changes: of others nothing is known. None if all rows of the table are in the stream."""
    partial: pa.Table | None
    """Keys of rows of which some columns have never been in the stream."""
    doubled: pa.Table
    """Changes that are there twice."""


class LakeTable:
    """The changes of one table, under all of its names, as they are published."""

    def __init__(self, read: Read, past: TablePast, reach: PublishedReach, mirrored: pa.Table | None = None) -> None:
        """Nothing is read yet.

        Args:
            read: Gives the change tables of a name.
            past: The history of the table.
            reach: How far its changes are published.
            mirrored: The rows of its mirror, if it has one, at the end of that reach.
        """
        self._past, self._reach, self._mirrored = past, reach, mirrored
        self._until = past.until(reach.upto)
        self._read = read
        self._read_before: dict[TableName, list[pa.Table]] = {}
        self._twice: dict[TableName, list[pa.Table]] = {}

    def rows(self, seen: Executed, settled: int) -> LakeRows:
        """The rows at the end of what is published without a hole.

        Args:
            seen: What the server had certainly executed when its rows were read.
            settled: Ordinal up to which all transactions are in that set.

        Raises:
            StrataError: The rows do not follow from the log.
        """
        definition = self._until.definition
        if definition is None:
            raise Usage("the history has no definition of it")
        if self._mirrored is not None:
            state = TableState(definition, self._mirrored.select(exact_schema(definition).names))
            touched = self._touched(definition, seen, settled)
            return LakeRows(state, touched, None, None, _keys_of(definition, []))
        state = self._replayed(self.changes)
        complete = self._until.complete_since()
        since = self._reach.since if complete is None else complete
        is_complete = self.is_complete
        key = list(exact_names(definition, [column_name(name) for name in definition.primary_key]))
        return LakeRows(
            state=state,
            touched=self._touched(definition, seen, settled),
            known=None if is_complete else self._replayed(self._as_inserts).rows.select(key),
            partial=None if is_complete or not key else self._partial(definition, key, since),
            doubled=self.doubled(definition),
        )

    @property
    def is_complete(self) -> bool:
        """Whether all of its rows are in the stream, and in what is published."""
        complete = self._until.complete_since()
        return complete is not None and complete >= self._reach.since

    def _all(self, name: TableName) -> list[pa.Table]:
        if name not in self._read_before:
            parts = [_parted(part) for part in self._read(name)]
            self._read_before[name] = [once for once, _ in parts]
            self._twice[name] = [again for _, again in parts]
        return self._read_before[name]

    def changes(self, name: TableName) -> list[pa.Table]:
        """The published changes of a name that count, each once."""
        within = (self._reach.since, self._reach.upto)
        return [
            part.filter(pc.and_(pc.greater(part["_seq"], within[0]), pc.less_equal(part["_seq"], within[1])))
            for part in self._all(name)
        ]

    def _replayed(self, read: Read) -> TableState:
        wanted = self._past.name.__eq__
        states = replay(self._until.table_changes, read, self._until.removals, wanted)
        return states[self._past.name]

    def _as_inserts(self, name: TableName) -> list[pa.Table]:
        """Both images of each change as rows that were put: what is left of them are the keys that occur."""
        return [made for part in self.changes(name) for made in (_put_after(part), _put_before(part))]

    def _touched(self, definition: TableDefinition, seen: Executed, settled: int) -> pa.Table:
        """Keys of what is after the state, or not certainly in what the server showed."""
        parts = [_keys_of(definition, [])]
        for part in self._all(self._past.name):
            late = part.filter(pc.greater(part["_seq"], min(settled, self._reach.upto)))
            unseen = _unseen(late["_gtid"], seen)
            chosen = late.filter(pc.or_(pc.greater(late["_seq"], self._reach.upto), unseen))
            if chosen.num_rows:
                parts.append(_keys_of(definition, [_exact(chosen, definition)]))
        return pa.concat_tables(parts)

    def _partial(self, definition: TableDefinition, key: Sequence[str], since: int) -> pa.Table | None:
        """Keys whose first change is an update without all columns: the others are older than the stream."""
        last = self._until.last
        parts = []
        for part in self.changes(self._past.name):
            changes = part.filter(pc.greater(part["_seq"], since))
            lacks = pc.and_(pc.is_valid(changes["_missing"]), pc.equal(changes["_op"], "update"))
            if not pc.any(lacks).as_py():
                continue
            version = None if last is None else last.version_id
            if pc.any(pc.and_(lacks, pc.not_equal(changes["_schema_version"], version))).as_py():
                raise Usage("updates without all columns lie before a DDL, and the rows are older than the stream")
            changes = changes.filter(pc.equal(changes["_schema_version"], version))
            parts.append(_exact(changes, definition))
        return _first_is_partial(pa.concat_tables(parts), key) if parts else None

    def doubled(self, definition: TableDefinition) -> pa.Table:
        """Keys of changes of the last version that were there more than once."""
        parts = [_keys_of(definition, [])]
        last = self._until.last
        for twice in self._twice.get(self._past.name, ()):
            mine = twice.filter(pc.equal(twice["_schema_version"], None if last is None else last.version_id))
            if mine.num_rows:
                parts.append(_keys_of(definition, [_exact(mine, definition)]))
        return pa.concat_tables(parts)


def _parted(part: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Changes, and those whose position in the stream another one has."""
    order = np.lexsort([part["_row"].to_numpy(), part["_seq"].to_numpy()])
    seqs, rows = (part[name].to_numpy()[order] for name in ("_seq", "_row"))
    again = np.zeros(part.num_rows, bool)
    again[order[1:][(seqs[1:] == seqs[:-1]) & (rows[1:] == rows[:-1])]] = True
    return (part.filter(pa.array(~again)), part.filter(pa.array(again))) if again.any() else (part, part.slice(0, 0))


def _put_after(part: pa.Table) -> pa.Table:
    return _inserts(part.filter(pc.not_equal(part["_op"], "delete")), "")


def _put_before(part: pa.Table) -> pa.Table:
    removed = part.filter(pc.not_equal(part["_op"], "insert"))
    images = pa.chunked_array(removed[BEFORE].chunks, removed[BEFORE].type)
    inside = {field.name for field in images.type}
    for at, field in enumerate(removed.schema):
        if field.name in METADATA:
            continue
        has = field.name in inside
        values = pc.struct_field(images, [field.name]) if has else pa.nulls(removed.num_rows, field.type)
        removed = removed.set_column(at, field, values)
    return _inserts(removed, BEFORE)


def _exact(changes: pa.Table, definition: TableDefinition) -> pa.Table:
    return exact_changes(as_schema(changes, state_schema(definition)), definition)


def _inserts(part: pa.Table, image: str) -> pa.Table:
    """Rows as if each was an insert of a whole image."""
    nothing = ("_missing", BEFORE)
    columns = [
        pa.nulls(part.num_rows, field.type) if field.name in nothing else part[field.name] for field in part.schema
    ]
    columns[part.schema.get_field_index(INVALID_COLUMN)] = image_texts(part[INVALID_COLUMN], image)
    columns[part.schema.get_field_index("_op")] = pa.array(["insert"] * part.num_rows, part.schema.field("_op").type)
    return pa.Table.from_arrays(columns, schema=part.schema)


def _unseen(gtids: pa.ChunkedArray, seen: Executed) -> pa.Array:
    """Whether a transaction is not certainly one of those that the server had executed; one without a GTID is not."""
    distinct = gtids.unique()
    inside = [text is not None and seen.contains(Gtid.parse(text)) for text in distinct.to_pylist()]
    return pc.invert(pc.is_in(gtids, distinct.filter(pa.array(inside, pa.bool_()))))


def _keys_of(definition: TableDefinition, shaped: Sequence[pa.Table]) -> pa.Table:
    """The keys of both images of changes; the whole images where there is no key."""
    schema = exact_schema(definition)
    wanted = list(exact_names(definition, [column_name(name) for name in definition.primary_key])) or schema.names
    parts = [schema.empty_table().select(wanted)]
    for changes in shaped:
        parts.append(changes.filter(pc.not_equal(changes["_op"], "delete")).select(wanted))
        images = changes[BEFORE].filter(pc.not_equal(changes["_op"], "insert"))
        parts.append(pa.Table.from_arrays([pc.struct_field(images, [name]) for name in wanted], names=wanted))
    keys = pa.concat_tables(part.cast(parts[0].schema) for part in parts)
    # A partial image may lack its key, which it has kept.
    return with_all(keys, wanted) if definition.primary_key else keys


def _first_is_partial(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    ordered = changes.sort_by([("_seq", "ascending"), ("_row", "ascending")])
    before = ordered[BEFORE]
    first_rows = coalesced(
        {name: pc.struct_field(before, [name]) for name in key}, {name: ordered[name] for name in key}, key
    )
    keys = pa.Table.from_arrays(list(first_rows.values()), names=list(first_rows))
    _, first = np.unique(row_codes(keys), return_index=True)
    lacks = pc.and_(pc.is_valid(ordered["_missing"]), pc.equal(ordered["_op"], "update")).take(pa.array(first))
    return keys.take(pa.array(first)).filter(lacks)
