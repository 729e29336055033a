"""Faults that others who align streams have had, each as a test of ours, called by the number in their tracker. Those
that need real servers are in test_hops.py and test_group_stream.py."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from strata_cdc.groups.merge import Merge
from tests.groups.test_hours import SECOND, SKEW, World

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARDS = ("a", "b", "c")


def merge_of(names: Sequence[str] = SHARDS, *, skew: int = 2) -> Merge[range]:
    made: Merge[range] = Merge(skew)
    for name in names:
        made.add(name)
    return made


def given_of(merge: Merge[range]) -> list[tuple[str, int]]:
    return [(run.source, number) for run in merge.due() for number in run.chunk[run.begin : run.end]]


@pytest.mark.parametrize("order", sorted(itertools.permutations(SHARDS)))
def test_vitess_7626_a_row_that_moves_to_a_slow_shard_is_never_gone(order):
    """It is inserted on the slow shard, then deleted on the fast one, which is read first."""
    merge = merge_of()
    arrivals = {"a": ([20], range(100, 101)), "b": ([10], range(200, 201)), "c": ([30], range(300, 301))}
    found = []
    for name in order:
        merge.arrive(name, *arrivals[name])
        found += given_of(merge)
    assert found == [("b", 200)]
    for name in SHARDS:
        merge.prove(name, 31)
    assert found + given_of(merge) == [("b", 200), ("a", 100), ("c", 300)]


def test_vitess_7626_three_shards_do_not_wait_for_one_that_has_caught_up():
    """The first laggard was remembered, and everybody went on waiting for it."""
    merge = merge_of()
    for name, time in (("a", 100), ("b", 50), ("c", 10)):
        merge.arrive(name, [time], range(1))
    given_of(merge)
    merge.arrive("c", [101], range(1, 2))
    assert given_of(merge) == [("b", 0)]
    assert (merge.holder, merge.may_read("b")) == ("b", True)


def test_vitess_18752_ten_minutes_of_silence_are_no_fault():
    """There they end the stream. Here the watermark goes on, since positions prove that nothing is missing."""
    world = World(3, 3)
    for _ in range(50):
        world.step(may_fail=False)
    for server in world.servers.values():
        server.rate = 0.0
    for _ in range(600 * 10):
        world.step(may_fail=False)
    assert world.now - world.merge.watermark < 20 * SECOND
    world.servers["s01"].rate = 5.0
    for _ in range(100):
        world.step(may_fail=False)
    assert world.given["s01"] >= len(world.servers["s01"].written) - 20


def test_vitess_18752_one_that_is_held_back_for_ten_minutes_is_not_given_up():
    """It is ahead, and the bound holds it: nothing of it is lost, and nothing more of it is read meanwhile."""
    merge: Merge[range] = Merge(SKEW)
    merge.add("fast")
    merge.add("slow")
    merge.arrive("fast", [0, 700 * SECOND], range(2))
    merge.prove("slow", 1)
    assert given_of(merge) == [("fast", 0)]
    for minute in range(1, 11):
        assert not merge.may_read("fast")
        merge.arrive("slow", [minute * 60 * SECOND], range(minute, minute + 1))
        assert given_of(merge) == [("slow", minute)]
    merge.prove("slow", 701 * SECOND)
    assert given_of(merge) == [("fast", 1)]
    assert merge.may_read("fast")


@pytest.mark.parametrize("number", [15754, 17833])
def test_vitess_a_server_that_lags_holds_the_others_is_named_and_catches_up(number):
    """There the stream failed at its start, or stayed with it for ever; here nobody is ahead of it, or gives it up."""
    del number
    merge = merge_of(skew=10)
    merge.prove("a", 10_000)
    merge.prove("b", 10_000)
    for time in range(500, 10_000, 500):
        merge.arrive("c", [time], range(1))
        given_of(merge)
        assert (merge.holder, merge.watermark) == ("c", time)
        assert merge.skew == 10_000 - time
    merge.prove("c", 10_001)
    assert merge.holder == "a"


def test_flink_35157_one_that_has_finished_holds_nobody():
    merge = merge_of()
    merge.arrive("a", [5], range(1))
    merge.arrive("b", [6], range(1))
    merge.finish("c")
    assert given_of(merge) == [("a", 0)]
    merge.finish("a")
    assert given_of(merge) == [("b", 0)]
    assert merge.may_read("b")


def test_flink_36751_one_that_the_bound_has_paused_is_not_idle():
    """It was taken for idle, the watermark jumped, and what came of it was late."""
    merge = merge_of()
    merge.arrive("a", [50], range(1))
    for name in ("b", "c"):
        merge.prove(name, 1)
    assert not merge.may_read("a")
    # However long that takes.
    for time in range(2, 49):
        merge.prove("b", time)
        merge.prove("c", time)
        assert given_of(merge) == []
        assert merge.watermark == time
    merge.prove("b", 60)
    merge.prove("c", 60)
    assert given_of(merge) == [("a", 0)]
    assert merge.watermark == 50


def test_flink_37399_a_backlog_of_years_goes_at_the_pace_of_its_sources():
    """There each announcement gave a few seconds of event time free. Here no time passes at all."""
    year = 365 * 86_400 * SECOND
    merge: Merge[range] = Merge(SKEW)
    for name in SHARDS:
        merge.add(name)
    found = 0
    for at in range(300):
        for name in SHARDS:
            assert merge.may_read(name)
            merge.arrive(name, [at * year // 100], range(1))
            found += len(given_of(merge))
    assert found >= 300 * 3 - 3


def test_flink_40503_a_proof_counts_at_once():
    """There idleness was noticed three probes late."""
    merge = merge_of()
    merge.arrive("a", [5], range(1))
    merge.prove("b", 6)
    assert given_of(merge) == []
    merge.prove("c", 6)
    assert given_of(merge) == [("a", 0)]


def test_debezium_the_order_across_a_break_needs_no_clock_and_no_number_from_the_user():
    """There somebody has to raise a generation, or what follows sorts in front of what was. Here the epoch is counted,
    and the new source's clock may be hours behind."""
    merge: Merge[range] = Merge(2)
    merge.add("z_old")
    merge.arrive("z_old", [10_000, 10_001], range(2))
    merge.add("a_new", epoch=1, least=merge.newest("z_old"))
    merge.finish("z_old")
    merge.arrive("a_new", [7, 8], range(2))
    merge.finish("a_new")
    assert given_of(merge) == [("z_old", 0), ("z_old", 1), ("a_new", 0), ("a_new", 1)]
