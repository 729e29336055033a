"""The decoder, step by step: windows of events (`windows.py`), blocks of rows (`blocks.py`), record batches
(`batch.py`).
Not here: cutting slices (`plan.py`), files of the lake (`tables/`)."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from strata_cdc.changes.batch import CorruptRow, build_batch
from strata_cdc.changes.block_parts import parts_of
from strata_cdc.changes.blocks import RowBlock, RowReader
from strata_cdc.changes.decode_plans import DecodePlans
from strata_cdc.changes.faults import FaultKind
from strata_cdc.changes.port import VALUE_FAULTS, ChangeBatch, QuarantinedRows, TableVersion, Watermark, placed
from strata_cdc.changes.windows import read_windows
from strata_cdc.errors import StrataError, UndecodableTextError, UnreadableValueError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.changes.batch import Built
    from strata_cdc.changes.blocks import WalkItem
    from strata_cdc.changes.decode_plans import DecodePlan
    from strata_cdc.changes.plan import PlannedVersion, Slice
    from strata_cdc.changes.port import DecodedItem, Hole, Near


_ASIDE: Final = "The row is in quarantine, its bytes in `_invalid`. "
_ERRORS: Final[Mapping[FaultKind, tuple[type[StrataError], str]]] = {
    FaultKind.UNDECODABLE: (
        UndecodableTextError,
        f"{_ASIDE}Correct it on the server, or declare the column's charset as what it holds.",
    ),
    FaultKind.UNREADABLE: (
        UnreadableValueError,
        f"{_ASIDE}Compare it with the row on the server: the log, or how it is read, is wrong.",
    ),
}
"""The messages about quarantined rows."""


def decode_slice(
    slice_: Slice,
    binlog: BinlogFile,
    *,
    columns: frozenset[str] | None = None,
    near: Near | None = None,
) -> Iterator[ChangeBatch | QuarantinedRows | Hole]:
    """Decodes the rows of a slice's tables, in batches of at most 8,192 rows; the same slice gives the same batches.

    Memory is bounded by the batches and by the number of tables, not by the sizes of events, transactions or files.

    Args:
        slice_: What to decode.
        binlog: The slice's segment, open.
        columns: Names (lower case) of the wanted columns; None for all.
        near: Gives the versions next to that of a table, which only errors name.

    Raises:
        CorruptEventError: An event contradicts itself, so it is not known where its rows are. Raised after the rows
            before it, with file, offset, table and GTID as far as they are known.
        UnsupportedEventError: An event or a charset is not supported.
    """
    versions = {table.name: _version(table, near) for table in slice_.tables}
    plans = DecodePlans(
        lambda name, _: versions.get(name),
        wanted=versions.__contains__,
        columns=columns,
    )
    blocks = RowReader(binlog, plans).read_blocks(read_windows(binlog, slice_.ranges()))
    for step in decode_blocks(blocks, slice_.binlog_file):
        if not isinstance(step, Watermark):
            yield step


def _version(table: PlannedVersion, near: Near | None) -> TableVersion:
    own = None if near is None else partial(near, table.name, table.version_id)
    return TableVersion(table.version_id, table.read_definition(), own)


def decode_blocks(steps: Iterator[WalkItem], binlog_file: str) -> Iterator[DecodedItem]:
    """The steps of a walk, with rows as batches. No row after a watermark is earlier in the stream than rows before it.

    Args:
        steps: As `RowReader.read_blocks` yields them.
        binlog_file: The server's name for the file.

    Raises:
        StrataError: As in the walk, and CorruptEventError for values that do not fit into a batch.
    """
    for step in steps:
        if not isinstance(step, RowBlock):
            yield step
            continue
        for part in parts_of(step):
            try:
                built = build_batch(part, binlog_file)
            except CorruptRow as fault:
                yield from _rows_before(fault, part, steps, binlog_file)
            else:
                yield from _sorted_out(part.plan, built)


def _rows_before(
    fault: CorruptRow, block: RowBlock, steps: Iterator[WalkItem], binlog_file: str
) -> Iterator[DecodedItem]:
    """Yields all rows before a fault, then raises the fault. A block has rows of one table only: the next blocks, up to
    the watermark, may have rows before the fault, and also earlier faults."""
    blocks = [block, *_blocks_to_watermark(steps)]
    built_parts: list[tuple[DecodePlan, Built]] | None = None
    while built_parts is None:
        parts = [part for each in blocks if (part := each.part_before(fault.seq, fault.row)).rows.count]
        try:
            built_parts = [(part.plan, build_batch(part, binlog_file)) for part in parts]
        except CorruptRow as earlier:
            fault = earlier
    for plan, built in built_parts:
        yield from _sorted_out(plan, built)
    yield Watermark(fault.seq, is_last=True, missing_from=(fault.seq, fault.row))
    raise fault.error


def _blocks_to_watermark(steps: Iterator[WalkItem]) -> Iterator[RowBlock]:
    # Any other fault of the walk is later than this one.
    with suppress(StrataError):
        for step in steps:
            if isinstance(step, Watermark):
                return
            if isinstance(step, RowBlock):
                yield step


def _sorted_out(plan: DecodePlan, built: Built) -> Iterator[ChangeBatch | QuarantinedRows]:
    """The batch without the rows that must be quarantined, then these rows."""
    if plan.mismatch is not None:
        yield QuarantinedRows(
            plan.table, plan.version_id, plan.definition, placed(plan.mismatch, built.batch), built.batch
        )
        return
    if not built.unreadable:
        yield ChangeBatch(plan.table, plan.version_id, plan.definition, built.batch)
        return
    reasons: dict[tuple[str, FaultKind, str], list[int]] = {}
    faults: dict[int, list[tuple[str, str, str]]] = {}
    bad = np.zeros(built.batch.num_rows, np.bool_)
    for column, fault in sorted(built.unreadable, key=lambda each: each[1].row):
        # A row is quarantined only once, for its first bad column.
        if not bad[fault.row]:
            reasons.setdefault((column, fault.kind, fault.reason), []).append(fault.row)
            bad[fault.row] = True
        faults.setdefault(fault.row, []).append((column, _ERRORS[fault.kind][0].__name__, fault.reason))
    good = built.batch.filter(pa.array(~bad))
    if good.num_rows:
        yield ChangeBatch(plan.table, plan.version_id, plan.definition, good)
    for (column, kind, reason), numbers in reasons.items():
        rows = built.batch.take(pa.array(numbers, pa.int64()))
        error, remedy = _ERRORS[kind]
        unreadable = error(f"column {column}: {reason}", table=str(plan.table), remedy=remedy)
        each = pa.array([faults[number] for number in numbers], VALUE_FAULTS)
        yield QuarantinedRows(plan.table, plan.version_id, plan.definition, placed(unreadable, rows), rows, each)
