"""Hours of a group in a simulated world: servers whose clocks differ and are set, that fall silent, die and come back;
readers that are killed. No thread and no clock of this machine takes part. The witness is what the servers wrote."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from strata_cdc.groups.merge import Merge

SECOND = 1_000_000
SKEW = 2 * SECOND


@dataclass
class Server:
    """What it has written: commit times by its own clock, and the true ones."""

    ahead: int
    rate: float
    """Transactions a second, while it is not silent."""
    written: list[int] = field(default_factory=list)
    true: list[int] = field(default_factory=list)
    is_dead: bool = False
    is_silent: bool = False


class World:
    """Time passes in steps of a tenth of a second."""

    def __init__(self, seed: int, sources: int) -> None:
        self.chance = random.Random(seed)
        self.now = 1_000_000 * SECOND
        rates = [0.3, 5, 40]
        self.servers = {
            f"s{at:02}": Server(self.chance.randint(-300_000, 300_000), rates[at % 3]) for at in range(sources)
        }
        self.given: dict[str, int] = dict.fromkeys(self.servers, 0)
        """How many transactions a reader has of each source: its token."""
        self.order: list[tuple[int, str]] = []
        self.marks: list[int] = []
        self.restart()

    def restart(self) -> None:
        """A reader begins with what it has; what was read and not given is read again."""
        self.merge: Merge[range] = Merge(SKEW)
        self.read = dict(self.given)
        for source in self.servers:
            self.merge.add(source)

    def step(self, *, may_fail: bool = True) -> None:
        self.now += SECOND // 10
        for server in self.servers.values():
            self._live(server, may_fail=may_fail)
        for source in self.chance.sample(sorted(self.servers), len(self.servers)):
            self._read(source)
        self._take()

    def _live(self, server: Server, *, may_fail: bool) -> None:
        luck = self.chance.random()
        if may_fail and luck < 0.001:
            server.is_silent = not server.is_silent
        elif may_fail and luck < 0.002:
            server.is_dead = not server.is_dead
        elif may_fail and luck < 0.0022:
            # The clock is set, by up to ten seconds.
            server.ahead += self.chance.randint(-10 * SECOND, 10 * SECOND)
        elif not may_fail:
            server.is_dead = server.is_silent = False
        if not server.is_dead and not server.is_silent and self.chance.random() < server.rate / 10:
            for _ in range(max(1, round(server.rate / 10))):
                server.written.append(self.now + server.ahead)
                server.true.append(self.now)

    def _read(self, source: str) -> None:
        server = self.servers[source]
        if server.is_dead or not self.merge.may_read(source):
            return
        at = self.read[source]
        if at < len(server.written):
            if self.merge.has_waiting(source):
                assert self.merge.newest(source) <= self.merge.watermark + SKEW
            end = min(len(server.written), at + self.chance.choice([1, 3, 50, 500]))
            # Measured as it is now; what was written before the clock was set is wrong by that.
            self.merge.arrive(source, [one - server.ahead for one in server.written[at:end]], range(at, end))
            self.read[source] = end
        elif self.chance.random() < 0.1:
            # Its position says that nothing is missing.
            self.merge.prove(source, self.now)

    def _take(self) -> None:
        for run in self.merge.due():
            for at in range(run.begin, run.end):
                number = run.chunk[at]
                assert number == self.given[run.source], "lost, or twice"
                self.given[run.source] += 1
                self.order.append((int(run.times[at - run.begin]), run.source))
        self.marks.append(self.merge.watermark or 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sources", [3, 10])
def test_hours(seed, sources):
    world = World(seed, sources)
    for _ in range(3000):
        world.step()
        if world.chance.random() < 0.002:
            world.restart()
            world.marks.clear()
            world.order.clear()
        assert world.order[-2:] == sorted(world.order[-2:])
        assert world.marks[-2:] == sorted(world.marks[-2:])
    # All come back: within a minute everything has been given, whatever has been.
    for _ in range(900):
        world.step(may_fail=False)
    lag = world.now - (world.merge.watermark or 0)
    assert lag < 30 * SECOND
    assert all(world.given[name] >= len(one.written) - 40 * one.rate for name, one in world.servers.items())


def test_one_that_is_dead_holds_the_others_and_nothing_is_lost():
    world = World(1, 3)
    for _ in range(100):
        world.step(may_fail=False)
    world.servers["s01"].is_dead = True
    before = world.merge.watermark
    for at in range(600):
        # Not revived by the step.
        world.servers["s01"].is_dead = True
        world.now += SECOND // 10
        for name in ("s00", "s02"):
            world._live(world.servers[name], may_fail=False)
            world._read(name)
        world._take()
        assert world.merge.holder == "s01" or at < 50
    assert world.merge.watermark - before < 5 * SECOND
    assert not world.merge.may_read("s02")
    for _ in range(900):
        world.step(may_fail=False)
    assert world.now - world.merge.watermark < 5 * SECOND
