"""DATETIME, TIMESTAMP and TIME in the format of MariaDB 5.3, with fractions whose digits no TABLE_MAP has: how long
their cells are is found by what fits the rows of an event.
Not here: lengths by a schema version (`changes/old_times.py`), the format (`binlog/kernels/temporal.py`)."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, FieldType
from strata_cdc.binlog.events.cell_widths import UPDATE_EVENTS, CellWidths, count_fitting_rows, rows_body
from strata_cdc.binlog.events.field_types import LOGGED_FIELDS
from strata_cdc.binlog.kernels.widths import MOST_COLUMNS, cell_end, packed_length, present_columns
from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import TableMap

OLD_TIMES: Final = frozenset({FieldType.DATETIME, FieldType.TIMESTAMP, FieldType.TIME})
UNKNOWN_WIDTH: Final = 1 << 40
"""A width that no cell has: the first event with a value does not fit it."""
_DIGITS: Final = range(7)
_MOST_TRIES: Final = 4096
# Values of each format are below these (sql/field.cc), of the most digits that a width can have.
_DATETIME_SECONDS: Final = 10_000 * 13 * 32 * 24 * 60 * 60
_TIME_SECONDS: Final = 2 * 839 * 60 * 60
_LIMITS: Final = {
    (FieldType.DATETIME, 6): _DATETIME_SECONDS * 10**2,
    (FieldType.DATETIME, 7): _DATETIME_SECONDS * 10**5,
    (FieldType.DATETIME, 8): _DATETIME_SECONDS * 10**6,
    (FieldType.TIME, 4): _TIME_SECONDS * 10**2,
    (FieldType.TIME, 5): _TIME_SECONDS * 10**5,
    (FieldType.TIME, 6): _TIME_SECONDS * 10**6,
}
_FRACTION_LIMITS: Final = {5: 10**2, 6: 10**4, 7: 10**6}
"""Of a TIMESTAMP, after four bytes of seconds."""
_LAST_DATETIME, _LAST_TIME = 99_991_231_235_959, 8_385_959
"""In the formats without fractions, whose decimal digits are those of the text."""


def has_hidden_fractions(table_map: TableMap) -> bool:
    """Whether a TABLE_MAP has columns whose cells have a length that it does not say."""
    return table_map.vendor is Vendor.MARIADB and not OLD_TIMES.isdisjoint(table_map.types)


def unknown_widths(table_map: TableMap) -> CellWidths:
    """The widths of a table's cells, with `UNKNOWN_WIDTH` for those that its TABLE_MAP does not say."""
    cells = CellWidths.of(table_map)
    return CellWidths(np.where(_is_old(table_map), UNKNOWN_WIDTH, cells.widths), cells.json_columns)


def fitting_widths(
    table_map: TableMap,
    buffer: npt.NDArray[np.uint8],
    position: int,
    length: int,
    form: FormatDescription,
) -> npt.NDArray[np.int64] | None:
    """Widths of a table's cells with which the rows of an event end where the event does, and times are times; None if
    no widths fit. Others may fit, too, which is very rare: only a version of the table says how many rows there are.

    Args:
        table_map: Of the event's table.
        buffer: The bytes that the event is in.
        position: Its offset in there.
        length: Its bytes, its checksum included if `form` has one.
        form: How it is laid out.

    Raises:
        CorruptEventError: The event ends before its rows.
    """
    kind, stop = int(buffer[position + 4]), position + length
    end = stop - (CHECKSUM_BYTES if form.has_checksum else 0)
    body = rows_body(buffer, position, end, kind, form)
    first = None
    for widths in _possible_widths(table_map):
        _, is_complete = count_fitting_rows(buffer, position, stop, kind, widths, form)
        if not is_complete:
            continue
        first = widths.widths if first is None else first
        if all(_judged(buffer, body, end, table_map, widths.widths, images=2 if kind in UPDATE_EVENTS else 1)):
            return widths.widths
    return first


def _is_old(table_map: TableMap) -> npt.NDArray[np.bool_]:
    return np.fromiter((code in OLD_TIMES for code in table_map.types), np.bool_, len(table_map.types))


def _possible_widths(table_map: TableMap) -> Iterator[CellWidths]:
    """First those in which all such columns have equally many digits."""
    cells = CellWidths.of(table_map)
    old = np.flatnonzero(_is_old(table_map)).tolist()
    choices = [[LOGGED_FIELDS[table_map.types[at]].width(digits) or 0 for digits in _DIGITS] for at in old]
    tries = list(zip(*choices, strict=True))
    distinct = [sorted(set(widths)) for widths in choices]
    if prod(map(len, distinct)) <= _MOST_TRIES:
        tries += product(*distinct)
    for some in dict.fromkeys(tries):
        widths = cells.widths.copy()
        widths[old] = some
        yield CellWidths(widths, cells.json_columns)


def _judged(
    buffer: npt.NDArray[np.uint8],
    body: int,
    end: int,
    table_map: TableMap,
    widths: npt.NDArray[np.int64],
    *,
    images: int,
) -> Iterator[bool]:
    """Whether parts of an event whose rows fit the widths are as a server writes them: each image's null bits, and each
    cell of such a column."""
    _, at = packed_length(buffer, body, end)
    present = []
    for _ in range(images):
        columns = np.empty(MOST_COLUMNS, np.int64)
        present.append(columns[: present_columns(buffer, at, len(widths), columns)].tolist())
        at += (len(widths) + 7) >> 3
    while at < end and any(present):
        for columns in present:
            nulls, at, used = at, at + ((len(columns) + 7) >> 3), len(columns) & 7
            # Bits without a column are set (sql/rpl_record.cc, `pack_row`).
            yield not used or int(buffer[at - 1]) >> used == 0xFF >> used
            for number, column in enumerate(columns):
                if buffer[nulls + (number >> 3)] >> (number & 7) & 1:
                    continue
                begin, at = at, int(cell_end(buffer, at, end, widths[column]))
                if table_map.types[column] in OLD_TIMES:
                    yield _is_time(table_map.types[column], buffer[begin:at].tobytes())


def _is_time(code: int, cell: bytes) -> bool:
    """Whether bytes are a value of a type, for some number of digits that has this length."""
    if code == FieldType.TIMESTAMP:
        return len(cell) == 4 or int.from_bytes(cell[4:], "big") < _FRACTION_LIMITS[len(cell)]
    limit = _LIMITS.get((FieldType(code), len(cell)))
    if limit is not None and int.from_bytes(cell, "big") < limit:
        return True
    number = int.from_bytes(cell, "little", signed=True)
    last = {8: _LAST_DATETIME, 3: _LAST_TIME}.get(len(cell), -1)
    return abs(number) <= last and abs(number) % 100 < 60 and abs(number) // 100 % 100 < 60
