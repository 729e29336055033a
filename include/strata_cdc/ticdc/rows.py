"""Rows of data files before they are put into order: their columns, and the values that a type cannot express.
Not here: reading them (`csv_rows.py`, `canal_rows.py`), order and repeats (`once.py`), batches of changes
(`windows.py`)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE, INVALID, MISSING, image_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.ticdc.values import ConvertedTexts

OPERATIONS: Final = ("delete", "update", "insert")


class Operation(IntEnum):
    """What happened to a row, as an index of `OPERATIONS`."""

    DELETE = 0
    UPDATE = 1
    INSERT = 2


def rows_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of rows that were read: both images, and what goes with them.

    `ts` is the commit timestamp, `number` the row in the file from 1, `key` TiDB's own key of the row, if the file has
    it. `after` and `before` are NULL where there is no such image.
    """
    image = pa.struct(image_fields(definition))
    return pa.schema(
        [
            pa.field("ts", pa.int64()),
            pa.field("op", pa.int8()),
            pa.field("number", pa.int64()),
            pa.field("after", image),
            pa.field("before", image),
            pa.field("missing", MISSING),
            pa.field("invalid", INVALID),
            pa.field("key", pa.string()),
        ]
    )


def image(columns: Sequence[pa.Array], kind: pa.DataType, is_there: pa.Array) -> pa.Array:
    """A struct of an image, NULL where it is not there."""
    return pa.StructArray.from_arrays(list(columns), fields=list(kind), mask=pc.invert(is_there))


def no_image(kind: pa.DataType, is_there: pa.Array) -> pa.Array:
    """An image of which no value is known."""
    return image([pa.nulls(len(is_there), field.type) for field in kind], kind, is_there)


def repeated_list(names: Sequence[str], rows: pa.Array) -> pa.Array:
    """The same names in some rows, and NULL in the others."""
    if not pc.any(rows).as_py():
        return pa.nulls(len(rows), MISSING)
    zero = pa.scalar(0, pa.int8())
    return pa.array([list(names)], MISSING).take(pc.if_else(rows, zero, pa.scalar(None, pa.int8())))


def lists_of(names: Sequence[str], flags: Sequence[pa.Array], count: int) -> pa.Array:
    """The names of the columns whose flag is set in each row; NULL where none is."""
    if not names:
        return pa.nulls(count, MISSING)
    matrix = np.column_stack([flag.to_numpy(zero_copy_only=False) for flag in flags])
    lengths = matrix.sum(axis=1)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    values = pa.array(names, pa.string()).take(pa.array(np.nonzero(matrix)[1]))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=MISSING, mask=pa.array(lengths == 0))


def invalid_texts(images: Sequence[tuple[str, Sequence[ConvertedTexts], pa.Array]], names: Sequence[str]) -> pa.Array:
    """The texts of values that their type cannot express, by column, as `_invalid`.

    Args:
        images: The prefix of the names (empty, or `_before.`), the values, and in which rows the image is.
        names: Of the columns.
    """
    count = len(images[0][2])
    invalid = [
        (f"{prefix}{name}", pc.if_else(is_there, value.invalid, pa.scalar(None, pa.string())))
        for prefix, values, is_there in images
        for name, value in zip(names, values, strict=True)
        if value.invalid is not None
    ]
    if not invalid:
        return pa.nulls(count, INVALID)
    flags = [pc.is_valid(texts).to_numpy(zero_copy_only=False) for _, texts in invalid]
    matrix = np.column_stack(flags)
    rows, columns = np.nonzero(matrix)
    every = pa.concat_arrays([texts for _, texts in invalid])
    texts = every.take(pa.array(columns * count + rows))
    keys = pa.array([name for name, _ in invalid], pa.string()).take(pa.array(columns))
    lengths = matrix.sum(axis=1)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    # A map has no mask of its own: NULL is where the offset is.
    is_none = np.append(lengths == 0, False)
    return pa.MapArray.from_arrays(pa.array(offsets, mask=is_none), keys, texts)


def before_names(definition: TableDefinition) -> list[str]:
    """The names of the columns of the before image, as `_missing` has them."""
    return [f"{BEFORE}.{column.name}" for column in definition.columns]
