"""Values that were damaged where they stand in their row: the row is put aside with its bytes, and all other rows are
what SELECT has."""

from __future__ import annotations

import json
import random
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest

from strata.errors import UnreadableValueError
from strata.rows.blocks import RowBlock, RowReader
from strata.rows.decode import ChangeBatch, QuarantinedRows
from strata.rows.decode_plans import DecodePlans, TableVersion
from strata.rows.jsonl import JsonLines
from strata.rows.plan import Slice
from strata.rows.windows import read_windows
from strata.schema.model.definition import TableName
from strata.wire.files import open_binlog
from tests.rows.fuzz import mend_checksums
from tests.rows.live import Live, steps

if TYPE_CHECKING:
    from pathlib import Path

    from strata.schema.model.definition import TableDefinition
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

ROWS = 60
COLUMNS = {
    "j": ("JSON", "JSON_OBJECT('row', {n}, 'list', JSON_ARRAY(1, 'x', 2.50))"),
    "d": ("DECIMAL(27,9)", "{n} * 1000000007.123456789"),
    "l": ("DECIMAL(60,9)", "{n} * 1000000007.123456789"),
    "b": ("BIT(12)", "{n}"),
    "a": ("DATE", "DATE '2024-01-01' + INTERVAL {n} DAY"),
    "m": ("DATETIME(3)", "TIMESTAMP '2024-01-01 01:02:03.004' + INTERVAL {n} HOUR"),
    "t": ("TIME(2)", "SEC_TO_TIME({n} * 61)"),
    "s": ("TIMESTAMP(4) NULL", "TIMESTAMP '2024-01-01 01:02:03.004' + INTERVAL {n} HOUR"),
}
"""Types of which not all bytes are values."""
DAMAGE = {
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


def test_a_damaged_value_costs_its_row(mysql_server: MysqlServer, tmp_path: Path) -> None:
    live, dice = Live(mysql_server), random.Random(41)
    described = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    with live.recorded() as files:
        live.run(f"CREATE TABLE v (id INT PRIMARY KEY, {described}, mark BINARY(8))")
        for first in range(1, ROWS, 6):
            values = ", ".join(_row(n) for n in range(first, first + 6))
            live.run(f"INSERT INTO v VALUES {values}")
    definition = live.definition("v")
    name = TableName(live.database, "v")
    truth = {row["id"]: row for row in live.truth("v", definition)}
    places = _places(files[0], name, definition)
    hit = {n: dice.choice(list(COLUMNS)) for n in dice.sample(range(1, ROWS + 1), ROWS // 3)}
    data = bytearray(files[0].read_bytes())
    expected = {}
    for number, column in hit.items():
        at, size = places[number, column]
        skip, damage = DAMAGE[column]
        data[at + skip : at + skip + len(damage)] = damage
        expected[number] = (column, bytes(data[at + 4 if column == "j" else at : at + size]))
    mend_checksums(data, 4)
    path = tmp_path / files[0].name
    path.write_bytes(data)
    lines, aside = JsonLines(), {}
    for step in steps(path, {name: definition}):
        if isinstance(step, ChangeBatch):
            lines.take(step.table, step.definition, step.batch)
        elif isinstance(step, QuarantinedRows):
            aside |= _put_aside(step)
    assert aside == expected
    kept = {row["id"]: row for row in _afters(lines)}
    assert kept == {number: row for number, row in truth.items() if number not in hit}


def _row(number: int) -> str:
    values = ", ".join(value.format(n=number) for _, value in COLUMNS.values())
    return f"({number}, {values}, 'end')"


def _places(path: Path, name: TableName, definition: TableDefinition) -> dict[tuple[int, str], tuple[int, int]]:
    """Offset in the file and bytes of each value, by its row and column."""
    found = {}
    with open_binlog(path) as binlog:
        begin = binlog.first_event
        whole = Slice("test", str(path), binlog.name, begin, len(binlog.buffer), begin, 1, 0, 0)
        plans = DecodePlans(lambda *_: TableVersion(1, definition), wanted=name.__eq__)
        for block in RowReader(binlog, plans).read(read_windows(binlog, whole.ranges())):
            if not isinstance(block, RowBlock):
                continue
            after, base, data = block.rows.after, block.region.base, block.region.buffer
            ids = [block.region.cell(cell, 4) for cell in after[0].tolist()]
            numbers = [int.from_bytes(each, "little") for each in ids]
            for at, column in enumerate(block.plan.columns):
                if column.name not in COLUMNS:
                    continue
                for number, cell in zip(numbers, after[at].tolist(), strict=True):
                    place = base + cell
                    size = int.from_bytes(data[place : place + 4].tobytes(), "little") + 4
                    found[number, column.name] = place, getattr(column.gather, "size", size)
    return found


def _put_aside(step: QuarantinedRows) -> dict[int, tuple[str, bytes]]:
    assert isinstance(step.error, UnreadableValueError)
    assert None not in {step.error.gtid, step.error.offset, step.error.file, step.error.table}
    found = {}
    for number, invalid in zip(*(step.rows.column(each).to_pylist() for each in ("id", "_invalid")), strict=True):
        [(column, verbatim)] = invalid
        assert f"column {column}: " in step.error.message
        found[number] = column, b64decode(verbatim)
    return found


def _afters(lines: JsonLines) -> list[dict[str, Any]]:
    return [json.loads(line)["after"] for line in lines.drain()]
