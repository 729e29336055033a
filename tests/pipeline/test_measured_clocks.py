"""Clocks that are set ahead and back between two readings, drawn at random: of a cut that nobody doubts nothing is on
the wrong side by more than the bound. The witness is when each transaction was committed."""

from __future__ import annotations

import os
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from strata_cdc.groups.cuts.measured_clocks import CutPosition, clock_doubts
from strata_cdc.landing.clock_readings import CLOCKS_FILE, ClockReading

if TYPE_CHECKING:
    from pathlib import Path

CUTS = int(os.environ.get("STRATA_DRAWN_CUTS", "2000"))
BOUND = 1000
FIRST = 1_000_000
"""When the first reading begins; the clock is right then."""


class _Landed:
    """What has landed, in memory."""

    def __init__(self, own: list[int]) -> None:
        self.own = np.array(own, np.int64)
        self.clock = np.maximum.accumulate(self.own) if own else self.own
        self.first_seq, self.last_seq = 1, len(own)

    def seq_before(self, time: int) -> int:
        return int(np.searchsorted(self.clock, time))

    def segments_of(self, first: int, last: int) -> list[Any]:
        return [SimpleNamespace(index=self)] if first <= last else []

    def batches(self, first: int) -> list[Any]:
        return [_Batch(self.own, self.clock)]


class _Batch(SimpleNamespace):
    def __init__(self, own: Any, clock: Any) -> None:
        super().__init__(first_seq=1, commit_timestamps=own, committed_at=clock)

    def __len__(self) -> int:
        return len(self.commit_timestamps)


def draw(random: Random) -> tuple[list[int], list[int], int, int]:
    """When transactions were committed, what the server's clock said, and where the readings were."""
    time, away = FIRST, 0
    pace, often = random.choice([100, 400, 900, 3000]), random.choice([0, 0.03, 0.15])
    real, own, readings = [], [], []
    for at in range(40):
        time += random.randrange(1, pace)
        if at in {3, 36}:
            # A reading: the clock is right.
            away = 0
            readings.append(time)
            continue
        if 3 < at < 36 and random.random() < often:
            away = random.choice(
                [0, away + random.randrange(BOUND + 1, 8 * BOUND), -random.randrange(BOUND, 5 * BOUND)]
            )
            time += random.choice([0, 0, random.randrange(9 * BOUND)])
        real.append(time)
        own.append(time + away)
    return real, own, readings[0], readings[1]


def test_nothing_is_on_the_wrong_side_of_a_cut_that_nobody_doubts(tmp_path: Path) -> None:
    random, known, torn = Random(int(os.environ.get("STRATA_SEED", "1"))), 0, 0
    folder = tmp_path / "landing" / "s"
    folder.mkdir(parents=True)
    for number in range(CUTS):
        real, own, before, behind = draw(random)
        landed: Any = _Landed(own)
        readings = [ClockReading("u", sum(one <= at for one in real), at, at, 0, 0) for at in (before, behind)]
        (folder / CLOCKS_FILE).write_bytes(msgspec.json.encode({"readings": readings, "format": 1}))
        time = random.randrange(before, behind)
        seq = landed.seq_before(time)
        if not readings[0].seq <= seq <= readings[1].seq:
            continue
        source: Any = SimpleNamespace(lake=str(tmp_path), name="s")
        doubts = clock_doubts({"s": CutPosition(source, landed, seq, time, 0)}, BOUND)
        wrong = max([*(at - time for at in real[:seq]), *(time - at for at in real[seq:]), 0])
        assert doubts or wrong <= BOUND, number
        known, torn = known + (not doubts), torn + (wrong > BOUND)
    print(f"{known} cuts are common, {torn} are torn")
    assert known > CUTS // 20
    assert torn > CUTS // 20
