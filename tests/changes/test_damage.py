"""Damaged files: the rows before the fault, then one error that says where; never a crash, a hang or a made-up row."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.changes.jsonl import JsonLines
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.errors import BadData, StrataError
from tests.changes.live import steps
from tests.properties import TIMES

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDED = Path(__file__).with_name("recorded")
FILES = ("every_type", "minimal", "many_rows", "compressed", "no_checksum", "mariadb")


def read_until_fault(path: Path) -> tuple[list[str], StrataError | None]:
    """The rows in front of a fault, as JSON, and the fault."""
    lines, fault = JsonLines(), None
    try:
        for step in steps(path, None):
            if isinstance(step, ChangeBatch):
                step.batch.validate(full=True)
                lines.write(step.table, step.definition, step.batch)
    except StrataError as error:
        fault = error
    return list(lines.drain()), fault


@pytest.fixture(scope="module", params=FILES)
def recorded(request):
    path = RECORDED / f"{request.param}.binlog"
    whole, fault = read_until_fault(path)
    assert whole
    assert fault is None
    return path, path.read_bytes(), whole


def _check_cuts(recorded, tmp_path: Path, cuts: Iterable[int]) -> None:
    _, data, whole = recorded
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    for cut in sorted(cuts, reverse=True):
        os.truncate(path, cut)  # ext4 writes a file that is written anew to the disk, which takes longer than all else
        rows, fault = read_until_fault(path)
        assert rows == whole[: len(rows)], cut
        if fault is not None:
            assert isinstance(fault, BadData), cut
            assert fault.file == str(path), cut
            assert fault.offset is None or fault.offset <= cut
        elif len(rows) < len(whole):
            # Between two events there is nothing to see, unless a transaction is open.
            assert cut in _boundaries(data), cut


def _boundaries(data: bytes) -> set[int]:
    found, at = {0, 4}, 4
    while at < len(data):
        at += int.from_bytes(data[at + 9 : at + 13], "little")
        found.add(at)
    return found


def test_a_file_may_end_anywhere(recorded, tmp_path):
    _, data, _ = recorded
    dice = random.Random(1)
    _check_cuts(recorded, tmp_path, {0, 3, 4, 10, 23, *_boundaries(data), *dice.sample(range(len(data)), 40)})


@pytest.mark.slow
def test_a_file_may_end_at_every_byte(recorded, tmp_path):
    """At every fifth; at each of them in `make soak`."""
    _check_cuts(recorded, tmp_path, range(0, len(recorded[1]), 1 if TIMES else 5))


def _flipped(data: bytes, dice: random.Random, begin: int) -> bytearray:
    changed = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 8])):
        at = dice.randrange(begin, len(data))
        changed[at] = dice.choice([changed[at] ^ 1 << dice.randrange(8), dice.randrange(256), 0, 255])
    return changed


def _damage(recorded, tmp_path: Path, rounds: int) -> None:
    source, data, whole = recorded
    path = tmp_path / "binlog.000001"
    dice = random.Random(source.name)
    begin = 4 + 19 + 57
    for _ in range(rounds):
        changed = _flipped(data, dice, begin)
        path.unlink(missing_ok=True)  # as above
        path.write_bytes(changed)
        rows, fault = read_until_fault(path)
        assert fault is None or isinstance(fault, BadData)
        if source.stem != "no_checksum":
            # Every event has a checksum: what is given before the fault is what was written.
            assert rows == whole[: len(rows)]
            assert fault is not None or changed == data or rows == whole


def test_bytes_may_be_any(recorded, tmp_path):
    _damage(recorded, tmp_path, 60)


@pytest.mark.slow
def test_bytes_may_be_any_for_long(recorded, tmp_path):
    _damage(recorded, tmp_path, 2000 if TIMES else 500)
