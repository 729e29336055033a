"""Damaged binlogs against every reader of them, for as long as one likes: `python -m tests.changes.fuzz --minutes 10`.

A file is a recorded one, changed in a few places; half of them get checksums that fit again, so that what is behind the
checksum is reached. What must hold: nothing but an error of bad data, no invalid batch, the rows in front of the first
change as they were, and an end within seconds. A worker process of its own reads them, so that a crash is found, too.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import sys
import time
import zlib
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.salvage import find_whole_transactions
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.changes.jsonl import JsonLines
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.errors import BadData
from strata_cdc.pipeline.decode.decode_files import decode_files_physically
from strata_cdc.schema.model.definition import TableName, definition_from_json
from tests.changes.live import changes, steps

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.connection import Connection
    from random import Random

RECORDED = Path(__file__).with_name("recorded")
FILES = ("every_type", "minimal", "many_rows", "compressed", "no_checksum", "mariadb")
FINDINGS = Path(__file__).resolve().parents[2] / ".strata" / "fuzz"
SECONDS = 20
"""A file of a few kilobytes that takes longer hangs."""
MOST_MEMORY = 4 << 30
_FIRST_EVENT = 4
_HEADER = 19
_CHECKED = tuple(name for name in FILES if name != "no_checksum")


class Target:
    """One recorded file and what is in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = RECORDED / f"{name}.binlog"
        self.data = path.read_bytes()
        self.rows = changes(path, None)
        definitions = json.loads((RECORDED / f"{name}.definitions.json").read_text())
        self.definitions = {
            TableName(*table.split(".", 1)): definition_from_json(json.dumps(definition))
            for table, definition in definitions.items()
        }
        self.begins = _event_begins(self.data)
        first = self.begins[1]
        self.first_change = first
        """Offset in front of which nothing is changed: without its format a file is not read at all."""


def _event_begins(data: bytes) -> list[int]:
    found, at = [], _FIRST_EVENT
    while at + _HEADER <= len(data):
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        if length < _HEADER or at + length > len(data):
            break
        found.append(at)
        at += length
    return found


def damage(target: Target, dice: Random) -> tuple[bytes, int]:
    """A changed copy of the file, and the offset of the first change."""
    data, first = bytearray(target.data), len(target.data)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        at = dice.randrange(target.first_change, len(data))
        if dice.random() < 0.2:
            # The fields of a header say how everything behind it is read.
            at = dice.choice(target.begins[1:]) + dice.randrange(_HEADER)
        if at >= len(data):
            continue
        first = min(first, at)
        _change(data, at, dice)
    if target.name in _CHECKED and dice.random() < 0.5:
        mend_checksums(data, first)
    return bytes(data), first


def _change(data: bytearray, at: int, dice: Random) -> None:
    kind = dice.randrange(6)
    if kind <= 1:
        data[at] ^= 1 << dice.randrange(8)
    elif kind == 2:
        data[at] = dice.choice((0, 1, 127, 128, 250, 251, 252, 253, 254, 255))
    elif kind == 3:
        end = min(at + dice.choice((1, 2, 4, 8, 64)), len(data))
        data[at:end] = bytes([dice.choice((0, 255))]) * (end - at)
    elif kind == 4:
        del data[at : at + dice.choice((1, 2, 8, 100))]
    else:
        begin = dice.randrange(len(data))
        data[at:at] = data[begin : begin + dice.choice((1, 4, 30, 200))]


def mend_checksums(data: bytearray, first: int) -> None:
    for begin in _event_begins(bytes(data)):
        end = begin + int.from_bytes(data[begin + 9 : begin + 13], "little")
        if end > first and end - begin >= _HEADER + 4:
            data[end - 4 : end] = zlib.crc32(data[begin : end - 4]).to_bytes(4, "little")


def check(target: Target, data: bytes, first: int, path: Path) -> None:
    """Reads a damaged file in every way.

    Raises:
        AssertionError: What must hold does not.
        Exception: Anything but bad data.
    """
    path.write_bytes(data)
    rows = _read(steps(path, None))
    # Rows of events that end in front of the first change; a compressed transaction is one event.
    sound = sum(end <= first for end in _row_ends(target))
    assert rows[:sound] == target.rows[:sound]
    _read(steps(path, target.definitions))
    _read(decode_files_physically([str(path)], wanted=lambda _: True, skip_corrupt=True))
    try:
        with open_binlog(path) as binlog:
            stretches = list(find_whole_transactions(binlog))
    except BadData:
        return
    assert all(one.begin <= one.end for one in stretches)


def _row_ends(target: Target) -> list[int]:
    """Where the transaction of each row ends."""
    path = RECORDED / f"{target.name}.binlog"
    with open_binlog(path) as binlog:
        ends = {record.seq: record.end for record in read_transactions(binlog)}
    return [ends[row["seq"]] for row in target.rows]


def _read(found: Iterable[Any]) -> list[dict[str, Any]]:
    lines = JsonLines()
    try:
        for step in found:
            if isinstance(step, ChangeBatch):
                step.batch.validate(full=True)
                lines.write(step.table, step.definition, step.batch)
    except BadData:
        pass
    return [json.loads(line) for line in lines.drain()]


def work(ways: Connection, folder: str) -> None:
    """A worker: tells which file it reads before it does."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    targets = [Target(name) for name in FILES]
    path = Path(folder) / "binlog.000001"
    while True:
        seed = ways.recv()
        target = targets[seed % len(targets)]
        data, first = damage(target, random.Random(seed))
        try:
            check(target, data, first, path)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a finding
            ways.send(f"{type(error).__name__}: {error}")
        else:
            ways.send(None)


class Reader:
    """A worker process, replaced when it dies or hangs."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._ways, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=work, args=(theirs, self._folder), daemon=True)
        self._process.start()
        theirs.close()

    def read(self, seed: int) -> str | None:
        """What is wrong with the readers on this file; None if nothing."""
        self._ways.send(seed)
        try:
            if self._ways.poll(SECONDS):
                found: str | None = self._ways.recv()
                return found
            found = f"no answer within {SECONDS} s"
        except EOFError:
            found = "the process died"
        self.stop()
        self._start()
        return found

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.join()


def main() -> int:
    """Reads damaged files until the time is up; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="the first one; each file has its own")
    given = parser.parse_args()
    print(f"the first seed is {given.seed}", flush=True)
    end, findings, reported = time.monotonic() + given.minutes * 60, 0, time.monotonic()
    with TemporaryDirectory() as folder:
        reader = Reader(folder)
        for done, seed in enumerate(count(given.seed)):
            if time.monotonic() > end:
                break
            fault = reader.read(seed)
            if fault is not None:
                findings += 1
                FINDINGS.mkdir(parents=True, exist_ok=True)
                data, _ = damage(Target(FILES[seed % len(FILES)]), random.Random(seed))
                kept = FINDINGS / f"{FILES[seed % len(FILES)]}-{seed}.binlog"
                kept.write_bytes(data)
                print(f"seed {seed}: {fault}\n  {kept}", flush=True)
            if time.monotonic() - reported > 10:
                reported = time.monotonic()
                print(f"{done + 1:,} files, {findings} findings", flush=True)
        reader.stop()
    print(f"{done:,} damaged files read in four ways each, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
