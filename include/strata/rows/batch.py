"""Makes the record batch of a full slot: the decoder's second pass.
Not here: filling slots (`stream.py`), one column's way (`gather.py` and its like)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata.errors import CorruptEventError
from strata.events.columns import repeated_number, repeated_text
from strata.gtid.sets import Gtid
from strata.kernels import layout
from strata.kernels.nulls import op_validity
from strata.kernels.strings import gtid_texts
from strata.rows.arrow import BEFORE, INVALID, MISSING, ROW_FIELDS, TIMESTAMP_UTC
from strata.rows.extras import invalid_values, missing_columns
from strata.rows.faults import CorruptCell, Fault, Faults
from strata.rows.gather_text import Labels
from strata.rows.partial_json import GatherPartialJson
from strata.rows.slots import BATCH_ROWS
from strata.wire.codes import FieldType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.gtid.sets import Sid
    from strata.kernels.arrays import Cells, Ints
    from strata.rows.book import SlotPlan
    from strata.rows.columns import ColumnPlan
    from strata.rows.slots import SlotRows
    from strata.rows.stream import FullSlot

_OPERATIONS = Labels.of(("insert", "update", "delete"))
_LONGEST_NUMBER = 19


class Built(Struct, frozen=True):
    """A batch, and the faults of its rows."""

    batch: pa.RecordBatch
    unreadable: tuple[tuple[str, Fault], ...]
    """Column and fault of each value that is not to be had; the column is `_before.NAME` in the before image."""


class CorruptRow(Exception):
    """A row with a cell that contradicts its type."""

    def __init__(self, seq: int, row: int, error: CorruptEventError) -> None:
        super().__init__(error.message)
        self.seq = seq
        self.row = row
        """In its transaction."""
        self.error = error


class BatchBuilder:
    """Makes the batches of one slot."""

    def __init__(self, plan: SlotPlan, binlog_file: str) -> None:
        self._plan = plan
        self._binlog_file = binlog_file
        images = [pa.field(column.name, column.type) for column in plan.columns]
        self._image = pa.struct(images)
        self.schema = pa.schema([*images, pa.field(BEFORE, self._image), *ROW_FIELDS])
        self._file = repeated_text(binlog_file, BATCH_ROWS)
        self._version = repeated_number(plan.version_id, BATCH_ROWS, pa.int64())
        self._no_image: pa.StructArray | None = None
        self._no_missing = pa.nulls(BATCH_ROWS, MISSING)
        self._no_invalid = pa.nulls(BATCH_ROWS, INVALID)
        self._names = [column.name for column in plan.columns if column.index >= 0]

    def build(self, full: FullSlot, servers: Sequence[Sid]) -> Built:
        """The batch of the rows in a slot.

        Raises:
            CorruptRow: A cell contradicts its type; with the place of its row event in the server's file.
        """
        rows = full.rows
        faults: list[tuple[str, Fault]] = []
        after = self._images(full, servers, rows.after, layout.HAS_AFTER, "", faults)
        before = self._before(full, servers, faults)
        arrays = [*after, before, *self._facts(rows, servers, faults)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Built(batch, tuple((name, fault) for name, fault in faults if fault.kind.quarantines))

    def _images(
        self,
        full: FullSlot,
        servers: Sequence[Sid],
        cells: tuple[Cells, ...],
        flag: int,
        prefix: str,
        faults: list[tuple[str, Fault]],
    ) -> list[pa.Array]:
        rows = full.rows
        if not rows.flags & flag:
            return [each.slice(0, rows.count) for each in self._empty_image().flatten()]
        partial = rows.flags & layout.HAS_PARTIAL and flag == layout.HAS_AFTER
        found = []
        for at, column in enumerate(self._plan.columns):
            gather = column.gather
            if partial and column.code == FieldType.JSON:
                gather = GatherPartialJson(column.json_ordinal, rows.before[at], rows.facts[layout.FACT_PARTIAL])
            collected = Faults()
            try:
                found.append(gather(full.region, cells[at] if column.index >= 0 else _there(rows, flag), collected))
            except CorruptCell as error:
                raise self._corrupt(error, column, rows, servers) from None
            faults += [(prefix + column.name, fault) for fault in collected.found]
        return found

    def _before(self, full: FullSlot, servers: Sequence[Sid], faults: list[tuple[str, Fault]]) -> pa.Array:
        rows = full.rows
        if not rows.flags & layout.HAS_BEFORE:
            return self._empty_image().slice(0, rows.count)
        children = self._images(full, servers, rows.before, layout.HAS_BEFORE, f"{BEFORE}.", faults)
        bitmap = np.zeros((rows.count + 7) >> 3, np.uint8)
        nulls = int(op_validity(rows.facts[layout.FACT_OP], layout.INSERT, bitmap))
        buffers = [pa.py_buffer(bitmap) if nulls else None]
        return pa.Array.from_buffers(self._image, rows.count, buffers, nulls, children=children)

    def _empty_image(self) -> pa.StructArray:
        if self._no_image is None:
            self._no_image = pa.nulls(BATCH_ROWS, self._image)
        return self._no_image

    def _facts(self, rows: SlotRows, servers: Sequence[Sid], faults: list[tuple[str, Fault]]) -> list[pa.Array]:
        facts, count = rows.facts, rows.count
        missing = self._no_missing.slice(0, count)
        if rows.flags & layout.HAS_ABSENT:
            missing = missing_columns(rows, self._names)
        invalid = invalid_values(faults, count) if faults else self._no_invalid.slice(0, count)
        return [
            _OPERATIONS.chosen(facts[layout.FACT_OP] + 1),
            _gtids(facts[layout.FACT_SID], facts[layout.FACT_GNO], servers),
            _numbers(pa.int64(), facts[layout.FACT_SEQ]),
            _numbers(pa.int64(), facts[layout.FACT_ROW]),
            _numbers(TIMESTAMP_UTC, facts[layout.FACT_CLOCK]),
            self._file.slice(0, count),
            _numbers(pa.int64(), facts[layout.FACT_POSITION]),
            self._version.slice(0, count),
            missing,
            invalid,
        ]

    def _corrupt(self, error: CorruptCell, column: ColumnPlan, rows: SlotRows, servers: Sequence[Sid]) -> CorruptRow:
        facts = [int(fact[error.row]) for fact in rows.facts]
        sid = facts[layout.FACT_SID]
        found = CorruptEventError(
            f"column {column.name}: {error.reason}",
            table=str(self._plan.table),
            gtid=str(Gtid(servers[sid], facts[layout.FACT_GNO])) if sid >= 0 else None,
            file=self._binlog_file,
            offset=facts[layout.FACT_POSITION],
        )
        return CorruptRow(facts[layout.FACT_SEQ], facts[layout.FACT_ROW], found)


def _there(rows: SlotRows, flag: int) -> Cells:
    """For a column that the log lacks: NULL where a row lacks the image, else some cell."""
    lacking = layout.DELETE if flag == layout.HAS_AFTER else layout.INSERT
    return np.where(rows.facts[layout.FACT_OP] == lacking, 0, 2).astype(np.uint32)


def _numbers(kind: pa.DataType, facts: Ints) -> pa.Array:
    # The facts' own memory takes the next rows.
    return pa.Array.from_buffers(kind, len(facts), [None, pa.py_buffer(facts.copy())], 0)


def _gtids(sids: Ints, gnos: Ints, servers: Sequence[Sid]) -> pa.Array:
    count = len(sids)
    labels = Labels.of(tuple(f"{sid}:" for sid in servers))
    longest = int(np.diff(labels.starts).max(initial=0)) + _LONGEST_NUMBER
    offsets = np.empty(count + 1, np.int32)
    data = np.empty(longest * count, np.uint8)
    used = int(gtid_texts(sids, gnos, labels.starts, labels.text, offsets, data))
    bitmap = np.zeros((count + 7) >> 3, np.uint8)
    nulls = int(op_validity(sids, -1, bitmap))
    buffers = [pa.py_buffer(bitmap) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(data[:used])]
    return pa.Array.from_buffers(pa.string(), count, buffers, nulls)
