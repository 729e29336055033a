"""Values of a recorded file, damaged where they stand: columns of types of which not all bytes are values, where each
value is in the file, and bytes that are none. Not here: reading the file, checksums (`fuzz.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.kernels.layout import ABSENT_CELL, Fact, Has
from strata_cdc.changes.blocks import RowBlock, RowReader
from strata_cdc.changes.decode_plans import DecodePlans
from strata_cdc.changes.plan import Slice
from strata_cdc.changes.port import TableVersion
from strata_cdc.changes.windows import read_windows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.schema.model.definition import TableDefinition, TableName

COLUMNS: Final = {
    "j": ("JSON", "JSON_OBJECT('row', {n}, 'list', JSON_ARRAY(1, 'x', 2.50))"),
    "d": ("DECIMAL(27,9)", "{n} * 1000000007.123456789"),
    "l": ("DECIMAL(60,9)", "{n} * 1000000007.123456789"),
    "b": ("BIT(12)", "{n}"),
    "a": ("DATE", "DATE '2024-01-01' + INTERVAL {n} DAY"),
    "m": ("DATETIME(3)", "TIMESTAMP '2024-01-01 01:02:03.004' + INTERVAL {n} HOUR"),
    "t": ("TIME(2)", "SEC_TO_TIME({n} * 61)"),
    "s": ("TIMESTAMP(4) NULL", "TIMESTAMP '2024-01-01 01:02:03.004' + INTERVAL {n} HOUR"),
}
"""By name, the type and the expression of row `n`."""
_DAMAGE: Final = {
    # What takes the place of the first bytes behind a length, if there is one: none of it is a value of the type.
    "j": (4, b"\x00\xff\xff"),
    "d": (0, b"\xff" * 5),
    "l": (0, b"\xff" * 5),
    "b": (0, b"\xff"),
    "a": (0, b"\xff" * 3),
    "m": (0, b"\xff" * 7),
    "t": (0, b"\xff" * 4),
    "s": (4, b"\xff\xff"),
}
TABLE: Final = f"id INT PRIMARY KEY, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())}"


class Value(NamedTuple):
    """Which value."""

    gno: int
    row: int
    """In its transaction."""
    image: str
    column: str


class Spot(NamedTuple):
    """Where it is."""

    id: int
    """Of its row."""
    offset: int
    size: int


def row(number: int) -> str:
    """The values of a row of `TABLE`."""
    return f"{number}, {', '.join(value.format(n=number) for _, value in COLUMNS.values())}"


def spots(path: Path, name: TableName, definition: TableDefinition) -> dict[Value, Spot]:
    """All values of `COLUMNS` in the rows of a table, in a file without compressed events."""
    with open_binlog(path) as binlog:
        begin = binlog.first_event
        whole = Slice("test", str(path), binlog.name, begin, len(binlog.buffer), begin, 1, 0, 0)
        plans = DecodePlans(lambda *_: TableVersion(1, definition), wanted=name.__eq__)
        blocks = RowReader(binlog, plans).read_blocks(read_windows(binlog, whole.ranges()))
        return dict(found for block in blocks if isinstance(block, RowBlock) for found in _in_block(block))


def _in_block(block: RowBlock) -> Iterator[tuple[Value, Spot]]:
    rows, base, data = block.rows, block.region.base, block.region.buffer
    images = [("before", rows.before, Has.BEFORE), ("after", rows.after, Has.AFTER)]
    gnos, numbers = (rows.facts[one].tolist() for one in (Fact.GNO, Fact.ROW))
    for image, cells, _ in (one for one in images if rows.flags & one[2]):
        for at, column in enumerate(block.plan.columns):
            for gno, number, key, cell in zip(gnos, numbers, cells[0].tolist(), cells[at].tolist(), strict=True):
                if column.name in COLUMNS and min(key, cell) > ABSENT_CELL:
                    place = base + cell
                    size = int.from_bytes(data[place : place + 4].tobytes(), "little") + 4
                    id_ = int.from_bytes(block.region.cell(key, 4), "little")
                    spot = Spot(id_, place, getattr(column.gather, "size", size))
                    yield Value(gno, number, image, column.name), spot


def damage(data: bytearray, column: str, spot: Spot) -> bytes:
    """Damages a value; returns its bytes as they are then."""
    skip, bad = _DAMAGE[column]
    begin = spot.offset + skip
    data[begin : begin + len(bad)] = bad
    return bytes(data[spot.offset + 4 if column == "j" else spot.offset : spot.offset + spot.size])
