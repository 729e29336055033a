"""The images of a table's rows as columns of their JSON lines: what is equal in all lines is made once, the texts of
values are made a column at a time.
Not here: lines (`lines.py`), texts of values (`json_columns.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.json_columns import texts_of
from strata_cdc.changes.lines import LineColumn
from strata_cdc.changes.texts import Constants
from strata_cdc.schema.model.types import parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.changes.json_columns import TextsOf
    from strata_cdc.changes.lines import Mask
    from strata_cdc.schema.model.definition import TableDefinition, TableName

    Columns = Callable[[], Sequence[pa.Array]]

_OPS: Final = pa.array(["insert", "update", "delete"])
_INSERT, _UPDATE, _DELETE = range(3)
_VALUE, _NULL = 1, 2
"""States of a value in an image that exists; 0: there is no such image."""
_encode: Final = msgspec.json.encode


class ImageTexts:
    """The images of one version of a table: `"op":...,"before":...,"after":...` of each row."""

    def __init__(self, table: TableName, definition: TableDefinition) -> None:
        """Takes the definition that its batches have."""
        self._table = b'"database":%b,"table":%b' % (_encode(table.database), _encode(table.table))
        self._texts: dict[str, TextsOf] = {
            column.name: texts_of(parse_column_type(column.column_type)) for column in definition.columns
        }

    def columns(self, batch: pa.RecordBatch, following: bytes) -> list[LineColumn] | None:
        """Returns the columns of a batch's rows; None if an image lacks columns, or has values that its types cannot
        express.

        The batch must have the definition with which this object was made. The text `following` comes after the images.
        """
        columns = ChangeColumns(batch)
        if any(columns.fact(name).null_count < batch.num_rows for name in ("_missing", "_invalid")):
            return None
        ops = pc.index_in(columns.fact("_op"), _OPS).to_numpy().astype(np.int64)
        names = columns.names
        opened = (
            b',%b,"op":"insert","before":null,"after":{' % self._table,
            b',%b,"op":"update","before":{' % self._table,
            b',%b,"op":"delete","before":{' % self._table,
        )
        before, closing = self._image(names, columns.before.flatten, ops != _INSERT)
        after, closed = self._image(names, lambda: columns.own, ops != _DELETE)
        return [
            LineColumn(Constants(opened), ops),
            *before,
            LineColumn(Constants((b"", closing + b'},"after":{', closing + b'},"after":null')), ops),
            *after,
            LineColumn(Constants((closed + b"}" + following, closed + b"}" + following, following)), ops),
        ]

    def _image(self, names: Sequence[str], columns: Columns, there: Mask) -> tuple[list[LineColumn], bytes]:
        """The columns of an image, and the text that closes its last value."""
        image_columns, closing = list[LineColumn](), b""
        is_value = there.astype(np.int64)
        for at, (name, column) in enumerate(zip(names, columns() if there.any() else (), strict=False)):
            values, states = self._texts[name](column), is_value
            quote = b'"' if values.is_quoted else b""
            if column.null_count:
                states = is_value.copy()
                states[there & column.is_null().to_numpy(zero_copy_only=False)] = _NULL
            key = closing + b"%b%b:" % (b"," if at else b"", _encode(name))
            image_columns += [
                LineColumn(Constants((b"", key + quote, key + b"null")), states),
                LineColumn(values.texts, None, states != _VALUE),
            ]
            closing = quote
            if quote and column.null_count:
                # Not every line has a value to close.
                image_columns.append(LineColumn(Constants((b"", quote, b"")), states))
                closing = b""
        return image_columns, closing
