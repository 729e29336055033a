"""How the cells of a table's row images lie in bytes, compiled once per TABLE_MAP.
Not here: what is in the cells (`changes/`), the TABLE_MAP's own bytes (`parse.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, HEADER_BYTES, EventType, FieldType
from strata_cdc.binlog.events.field_types import LOGGED_FIELDS, UNKNOWN_FIELD
from strata_cdc.binlog.kernels.status import DONE
from strata_cdc.binlog.kernels.widths import MOST_COLUMNS, PRESENT_COLUMNS, count_image_rows
from strata_cdc.errors import CorruptEventError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import TableMap

ROWS_V2_EVENTS = frozenset(
    {EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, EventType.PARTIAL_UPDATE_ROWS}
)


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


def count_rows(
    buffer: NDArray[np.uint8],
    event_begin: int,
    event_end: int,
    event_type: int,
    widths: CellWidths,
    format: FormatDescription,  # noqa: A002 -- the word of the contract and of the event
) -> int:
    """How many rows a row event changes; an update counts once.

    Args:
        buffer: Bytes of the file, or of an inflated payload.
        event_begin: Offset of the event's header.
        event_end: Offset after the event, its checksum included if `format` has one.
        event_type: WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS, their V1 forms or PARTIAL_UPDATE_ROWS.
        widths: Of the TABLE_MAP in force.
        format: Of the file; of inner events of a payload, without checksum.

    Raises:
        CorruptEventError: The rows do not fit the widths or the event; `offset` is the event's.
    """
    end = event_end - (CHECKSUM_BYTES if format.has_checksum else 0)
    body = rows_body(buffer, event_begin, end, event_type, format)
    present = np.empty(PRESENT_COLUMNS, np.int64)
    status, rows = count_image_rows(buffer, body, end, widths.widths, widths.json_columns, event_type, present)
    if status != DONE:
        raise CorruptEventError("the rows of the event do not fit its TABLE_MAP", offset=event_begin)
    return int(rows)


def rows_body(
    buffer: NDArray[np.uint8],
    event_begin: int,
    end: int,
    event_type: int,
    format: FormatDescription,  # noqa: A002 -- as above
) -> int:
    """Offset of the column count of a row event: after its header, post-header and extra data.

    Raises:
        CorruptEventError: The event ends before that.
    """
    post_header = format.header_lengths[event_type - 1] if event_type <= len(format.header_lengths) else 0
    body = event_begin + HEADER_BYTES + (post_header or (10 if event_type in ROWS_V2_EVENTS else 8))
    if event_type in ROWS_V2_EVENTS and body <= end:
        # The last two bytes of the post-header count the extra data, themselves included (5.6, log_event.h).
        body += max(int(buffer[body - 2]) | int(buffer[body - 1]) << 8, 2) - 2
    if body > end:
        raise CorruptEventError("a row event ends inside its header", offset=event_begin)
    return body
