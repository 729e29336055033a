"""Keys that changes touch which are landed and not published: decoded from the landed segments, and nothing kept.
Not here: which those are (`published.py`), cutting and decoding (`changes/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.changes.binlog_changes import changes_of_table
from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.errors import UndecodableTextError, UnreadableValueError
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.verbatim import exact_names, opened, with_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_OF_VALUES = (UndecodableTextError, UnreadableValueError)
"""Why a row is put aside whose other values are known."""


def touched_keys(
    stream: LandedStream, history: History, name: TableName, key: Sequence[str], span: tuple[int, int]
) -> Iterator[pa.Table]:
    """The values of some columns in all images of the changes of a table.

    Args:
        history: Of the source.
        name: The table; it has one definition in this span.
        key: Its columns that are wanted; those of texts of what they do not hold follow (`exact_names`).
        span: Transactions first < seq <= last.

    Raises:
        StrataError: Rows cannot be decoded.
    """
    placement = PreparedPlacement(stream, *span)
    for lost in placement.lost():
        if not lost.tables or (name.database, name.table) in lost.tables:
            raise lost.error
    for step in changes_of_table(stream, history, name, placement, span):
        if isinstance(step, ChangeBatch):
            yield from _keys(step.batch, step.definition, key)
        elif isinstance(step, QuarantinedRows) and isinstance(step.error, _OF_VALUES):
            yield from _keys(step.rows, step.definition, key)
        else:
            raise step.error


def _keys(batch: pa.RecordBatch, definition: TableDefinition, key: Sequence[str]) -> Iterator[pa.Table]:
    """Of both images; columns are identified by index, since a table may have columns with our own names."""
    own = [fold_name(column.name) for column in definition.columns]
    ordinals = [own.index(fold_name(name)) for name in key]
    names = [column_name(definition.columns[at].name) for at in ordinals]
    befores, op, invalid = (
        batch.column(len(own)).flatten(),
        batch.column(len(own) + 1),
        batch.column(batch.num_columns - 1),
    )
    texts = [name for name in exact_names(definition, names) if name not in names]
    for columns, prefix, without in (
        ([batch.column(at) for at in ordinals], "", "delete"),
        ([befores[at] for at in ordinals], f"{BEFORE}.", "insert"),
    ):
        beside = opened(pa.chunked_array([invalid]), texts, batch.num_rows, prefix)
        keys = pa.Table.from_arrays([*columns, *beside.values()], names=[*names, *texts])
        keys = keys.filter(pc.not_equal(op, without))
        # A partial image after it may lack its key, which it has kept; in a table without one any value may be NULL.
        yield with_all(keys, [*names, *texts]) if definition.primary_key else keys
