"""Turns a block of rows into a record batch: the decoder's second pass.
Not here: where the blocks come from (`blocks.py`), how one column is converted (`gather.py` and similar modules)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.arrow_columns import repeated_text
from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.kernels.layout import Fact, Has, Op
from strata_cdc.binlog.kernels.nulls import op_validity
from strata_cdc.binlog.kernels.strings import gtid_texts
from strata_cdc.changes.arrow import BEFORE, INVALID, MISSING, TIMESTAMP_UTC
from strata_cdc.changes.extras import invalid_values, missing_columns
from strata_cdc.changes.faults import CellFault, CorruptCell, Faults
from strata_cdc.changes.gather_text import Labels
from strata_cdc.changes.partial_json import GatherPartialJson
from strata_cdc.changes.row_buffers import BATCH_ROWS
from strata_cdc.errors import CorruptEventError
from strata_cdc.position.sets import Gtid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.binlog.kernels.arrays import Cells, Ints
    from strata_cdc.changes.blocks import RowBlock
    from strata_cdc.changes.row_buffers import BufferedRows
    from strata_cdc.position.sets import Writer

_OPERATIONS = Labels.from_labels(("insert", "update", "delete"))
_LONGEST_NUMBER = 19
_NO_MISSING = pa.nulls(BATCH_ROWS, MISSING)
_NO_INVALID = pa.nulls(BATCH_ROWS, INVALID)


class Built(Struct, frozen=True):
    """A batch, and the faults of its rows."""

    batch: pa.RecordBatch
    unreadable: tuple[tuple[str, CellFault], ...]
    """Column and fault of each value that cannot be read; in the before image the column is `_before.NAME`."""


class CorruptRow(Exception):
    """A row with a value that does not fit into its batch."""

    def __init__(self, seq: int, row: int, error: CorruptEventError) -> None:
        super().__init__(error.message)
        self.seq = seq
        self.row = row
        """Its number in its transaction."""
        self.error = error


def build_batch(block: RowBlock, binlog_file: str) -> Built:
    """The batch of a block of rows, with the columns of `arrow.change_schema`.

    Args:
        block: The rows.
        binlog_file: The server's name for the file that they are in.

    Raises:
        CorruptRow: The values of a column are larger than a batch allows; with the position of the first row event.
    """
    rows, plan = block.rows, block.plan
    faults: list[tuple[str, CellFault]] = []
    try:
        after = _image(block, rows.after, Has.AFTER, "", faults)
        before = _before(block, faults)
    except CorruptCell as error:
        raise _corrupt_row(block, error, binlog_file) from None
    missing = missing_columns(rows, [column.name for column in plan.columns if column.index >= 0])
    facts = [
        *_facts(block, binlog_file),
        plan.versions.slice(0, rows.count),
        missing if missing is not None else _NO_MISSING.slice(0, rows.count),
        invalid_values(faults, rows.count) if faults else _NO_INVALID.slice(0, rows.count),
    ]
    batch = pa.RecordBatch.from_arrays([*after, before, *facts], schema=plan.schema)
    return Built(batch, tuple((name, fault) for name, fault in faults if fault.kind.quarantines))


def _image(
    block: RowBlock, cells: tuple[Cells, ...], flag: int, prefix: str, faults: list[tuple[str, CellFault]]
) -> list[pa.Array]:
    """The columns of one image; faults are added with the names of their columns."""
    rows, plan = block.rows, block.plan
    if not rows.flags & flag:
        return [each.slice(0, rows.count) for each in plan.no_image.flatten()]
    partial = rows.flags & Has.PARTIAL and flag == Has.AFTER
    image = []
    for at, column in enumerate(plan.columns):
        gather = column.gather
        if partial and column.code == FieldType.JSON:
            gather = GatherPartialJson(column.json_ordinal, rows.before[at], rows.facts[Fact.PARTIAL])
        collected = Faults()
        try:
            image.append(gather(block.region, cells[at] if column.index >= 0 else _there(rows, flag), collected))
        except CorruptCell as error:
            error.column = column.name
            raise
        faults += [(prefix + column.name, fault) for fault in collected.found]
    return image


def _before(block: RowBlock, faults: list[tuple[str, CellFault]]) -> pa.Array:
    rows, image = block.rows, block.plan.image
    if not rows.flags & Has.BEFORE:
        return block.plan.no_image.slice(0, rows.count)
    children = _image(block, rows.before, Has.BEFORE, f"{BEFORE}.", faults)
    bitmap = np.zeros((rows.count + 7) >> 3, np.uint8)
    nulls = int(op_validity(rows.facts[Fact.OP], Op.INSERT, bitmap))
    buffers = [pa.py_buffer(bitmap) if nulls else None]
    return pa.Array.from_buffers(image, rows.count, buffers, nulls, children=children)


def _facts(block: RowBlock, binlog_file: str) -> list[pa.Array]:
    """The first of `ROW_FIELDS`: where the rows come from."""
    facts = block.rows.facts
    return [
        _OPERATIONS.chosen(facts[Fact.OP] + 1),
        gtid_column(facts[Fact.SID], facts[Fact.GNO], block.servers),
        _numbers(pa.int64(), facts[Fact.SEQ]),
        _numbers(pa.int64(), facts[Fact.ROW]),
        _numbers(TIMESTAMP_UTC, facts[Fact.CLOCK]),
        _repeated_file(binlog_file).slice(0, block.rows.count),
        _numbers(pa.int64(), facts[Fact.POSITION]),
    ]


@lru_cache(maxsize=4)
def _repeated_file(binlog_file: str) -> pa.Array:
    return repeated_text(binlog_file, BATCH_ROWS)


def _corrupt_row(block: RowBlock, error: CorruptCell, binlog_file: str) -> CorruptRow:
    facts = [int(fact[error.row]) for fact in block.rows.facts]
    sid = facts[Fact.SID]
    fault = CorruptEventError(
        f"column {error.column}: {error.reason}",
        table=str(block.plan.table),
        gtid=str(Gtid(block.servers[sid], facts[Fact.GNO])) if sid >= 0 else None,
        file=binlog_file,
        offset=facts[Fact.POSITION],
    )
    return CorruptRow(facts[Fact.SEQ], facts[Fact.ROW], fault)


def _there(rows: BufferedRows, flag: int) -> Cells:
    """Cells for a column that the log lacks: NULL if a row lacks the image, else any cell."""
    lacking = Op.DELETE if flag == Has.AFTER else Op.INSERT
    return np.where(rows.facts[Fact.OP] == lacking, 0, 2).astype(np.uint32)


def _numbers(kind: pa.DataType, facts: Ints) -> pa.Array:
    return pa.Array.from_buffers(kind, len(facts), [None, pa.py_buffer(facts)], 0)


@lru_cache(maxsize=4)
def _prefixes(texts: tuple[str, ...]) -> Labels:
    return Labels.from_labels(texts)


def gtid_column(sids: Ints, gnos: Ints, servers: Sequence[Writer]) -> pa.Array:
    """GTIDs as text, from columns as in `TransactionBatch`; NULL where the server is -1."""
    count = len(sids)
    labels = _prefixes(tuple(sid.prefix for sid in servers))
    longest = int(np.diff(labels.starts).max(initial=0)) + _LONGEST_NUMBER
    offsets = np.empty(count + 1, np.int32)
    data = np.empty(longest * count, np.uint8)
    used = int(gtid_texts(sids, gnos, labels.starts, labels.text, offsets, data))
    bitmap = np.zeros((count + 7) >> 3, np.uint8)
    nulls = int(op_validity(sids, -1, bitmap))
    buffers = [pa.py_buffer(bitmap) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(data[:used])]
    return pa.Array.from_buffers(pa.string(), count, buffers, nulls)
