"""How the cells of a table's row images lie in bytes, compiled once per TABLE_MAP.
Not here: what is in the cells (`changes/`), the TABLE_MAP's own bytes (`parse.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.events.field_types import LOGGED_FIELDS, UNKNOWN_FIELD
from strata_cdc.binlog.kernels.widths import MOST_COLUMNS
from strata_cdc.errors import CorruptEventError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata_cdc.binlog.events.model import TableMap


class CellWidths(Struct, frozen=True, eq=False):
    """The widths of a table's cells."""

    widths: NDArray[np.int64]
    """Per column: n >= 0 for a cell of n bytes, -n for one with its length in the n bytes before it."""
    json_columns: int
    """Number of JSON columns; a partial update has one bit for each."""

    @classmethod
    def from_table_map(cls, table_map: TableMap) -> CellWidths:
        """Compiles a TABLE_MAP.

        Raises:
            CorruptEventError: A column has a type or metadata that no server writes.
        """
        table = f"{table_map.database}.{table_map.table}"
        if len(table_map.types) > MOST_COLUMNS:
            raise CorruptEventError(
                f"a TABLE_MAP of {len(table_map.types)} columns: no server writes that", table=table
            )
        widths = np.empty(len(table_map.types), np.int64)
        for at, (code, metadata) in enumerate(zip(table_map.types, table_map.metadata, strict=True)):
            width = LOGGED_FIELDS.get(code, UNKNOWN_FIELD).width(metadata)
            if width is None:
                raise CorruptEventError(
                    f"column {at + 1} of the TABLE_MAP has type {code}, metadata {metadata}: no server writes that",
                    table=table,
                )
            widths[at] = width
        return cls(widths, sum(code == FieldType.JSON for code in table_map.types))
