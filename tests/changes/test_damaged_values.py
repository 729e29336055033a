"""Values that were damaged where they stand in their row: the row is put aside with its bytes, and all other rows are
what SELECT has."""

from __future__ import annotations

import json
import random
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.changes.jsonl import JsonLines
from strata_cdc.changes.port import ChangeBatch, QuarantinedRows
from strata_cdc.errors import UnreadableValueError
from strata_cdc.schema.model.definition import TableName
from tests.changes import damage
from tests.changes.fuzz import mend_checksums
from tests.changes.live import Live, steps

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

ROWS = 60


def test_a_damaged_value_costs_its_row(mysql_server: MysqlServer, tmp_path: Path) -> None:
    live, dice = Live(mysql_server), random.Random(41)
    with live.recorded() as files:
        live.run(f"CREATE TABLE v ({damage.TABLE}, mark BINARY(8))")
        for first in range(1, ROWS, 6):
            values = ", ".join(f"({damage.row(n)}, 'end')" for n in range(first, first + 6))
            live.run(f"INSERT INTO v VALUES {values}")
    definition = live.definition("v")
    name = TableName(live.database, "v")
    truth = {row["id"]: row for row in live.truth("v", definition)}
    spots = {(spot.id, value.column): spot for value, spot in damage.spots(files[0], name, definition).items()}
    hit = {n: dice.choice(list(damage.COLUMNS)) for n in dice.sample(range(1, ROWS + 1), ROWS // 3)}
    data = bytearray(files[0].read_bytes())
    expected = {n: (column, damage.damage(data, column, spots[n, column])) for n, column in hit.items()}
    mend_checksums(data, 4)
    path = tmp_path / files[0].name
    path.write_bytes(data)
    lines, aside = JsonLines(), {}
    for step in steps(path, {name: definition}):
        if isinstance(step, ChangeBatch):
            lines.write(step.table, step.definition, step.batch)
        elif isinstance(step, QuarantinedRows):
            aside |= _put_aside(step)
    assert aside == expected
    kept = {row["id"]: row for row in _afters(lines)}
    assert kept == {number: row for number, row in truth.items() if number not in hit}


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
