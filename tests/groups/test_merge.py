"""The order of a group is not that of arrival; nobody is held up by who is not behind, nobody is ahead.
The witness is a sort of everything."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.groups.merge import Merge
from tests.groups.plain_merge import PlainMerge

SOURCES = ("a", "b", "c")

times = st.lists(st.integers(1, 30), max_size=12)
lives = st.fixed_dictionaries(dict.fromkeys(SOURCES, times))


def given_of(merge: Merge) -> list[tuple[str, int]]:
    return [(run.source, number) for run in merge.due() for number in run.chunk[run.begin : run.end]]


def sorted_whole(life: dict[str, list[int]], epochs: dict[str, int] | None = None) -> list[tuple[str, int]]:
    """By the definition: each source's time made monotone, then (time, epoch, source, ordinal)."""
    epochs = epochs or {}
    keys = [
        (time, epochs.get(source, 0), source, at)
        for source, found in life.items()
        for at, time in enumerate(accumulate(found, max))
    ]
    return [(source, at) for _, _, source, at in sorted(keys)]


@given(lives, st.data())
def test_any_interleaving_of_arrivals_gives_the_same(life, data):
    """Pieces of any size, proofs of idleness at any moment, ends in any order."""
    merge: Merge[range] = Merge(5)
    for source in SOURCES:
        merge.add(source)
    left = dict.fromkeys(SOURCES, 0)
    found: list[tuple[str, int]] = []
    marks: list[int] = []
    while left:
        source = data.draw(st.sampled_from(sorted(left)))
        whole = life[source]
        at = left[source]
        if at == len(whole):
            merge.finish(source)
            del left[source]
        else:
            size = data.draw(st.integers(1, len(whole) - at))
            merge.arrive(source, whole[at : at + size], range(at, at + size))
            left[source] = at + size
            behind = max(whole[: at + size])
            following = whole[at + size :]
            if following and min(following[0], 40) > behind and data.draw(st.booleans()):
                # The position says that nothing comes before the next one.
                merge.prove(source, data.draw(st.integers(behind, following[0])))
        found += given_of(merge)
        if merge.watermark is not None:
            marks.append(merge.watermark)
    assert found == sorted_whole(life)
    assert marks == sorted(marks)
    assert merge.is_over


steps = st.one_of(
    st.tuples(st.just("arrive"), st.sampled_from(SOURCES), st.lists(st.integers(1, 20), max_size=6)),
    st.tuples(st.just("prove"), st.sampled_from(SOURCES), st.integers(1, 25)),
    st.tuples(st.just("finish"), st.sampled_from(SOURCES), st.none()),
    st.tuples(st.just("add"), st.sampled_from(("A", "d")), st.integers(0, 20)),
)


@given(st.lists(steps, max_size=20))
def test_whatever_comes_the_same_is_due_after_each_step_as_one_by_one(found):
    """Clocks that jump back, proofs of the past, sources that come with a hop: all against the plain merge."""
    merge, plain, ended, counts = Merge[range](5), PlainMerge(), set[str](), dict[str, int]()
    for source in SOURCES:
        merge.add(source)
        plain.add(source)
    for what, source, value in found:
        if source in ended or (what == "add" and source in plain.sources):
            continue
        for one in (merge, plain):
            if what == "arrive":
                begin = counts.get(source, 0)
                one.arrive(source, value, range(begin, begin + len(value)))
            elif what == "prove":
                one.prove(source, value)
            elif what == "finish":
                one.finish(source)
                ended.add(source)
            else:
                one.add(source, epoch=1, least=value)
        if what == "arrive":
            counts[source] = counts.get(source, 0) + len(value)
        due = merge.due()
        assert [(run.source, at) for run in due for at in run.chunk[run.begin : run.end]] == plain.due()
        assert merge.watermark == plain.watermark
        assert sorted(rank for ranks in due.ranks for rank in ranks.tolist()) == list(range(len(due)))


@given(lives, st.data())
def test_any_part_of_what_is_due_is_in_the_same_order(life, data):
    merge: Merge[range] = Merge(5)
    for source in SOURCES:
        merge.add(source)
        merge.arrive(source, life[source], range(len(life[source])))
        merge.finish(source)
    due, whole = merge.due(), sorted_whole(life)
    begin = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(begin, len(whole)))
    part = due.between(begin, end)
    assert [(run.source, at) for run in part for at in run.chunk[run.begin : run.end]] == whole[begin:end]


@given(lives, st.data())
def test_what_is_behind_the_watermark_has_been_given_and_nothing_else(life, data):
    merge: Merge[range] = Merge(5)
    for source in SOURCES:
        merge.add(source)
    monotone = {source: list(accumulate(whole, max)) for source, whole in life.items()}
    found: set[tuple[str, int]] = set()
    for source in data.draw(st.permutations(SOURCES)):
        merge.arrive(source, life[source], range(len(life[source])))
        found |= set(given_of(merge))
        mark = merge.watermark or 0
        assert {(s, at) for s in SOURCES for at, t in enumerate(monotone[s]) if t < mark} <= found
        assert all(monotone[s][at] <= mark for s, at in found)


@given(lives, st.data())
def test_nobody_is_read_ahead_of_the_bound_and_somebody_can_always_go_on(life, data):
    """In a backlog: who reads only where it may comes to the end, without any clock."""
    skew = data.draw(st.integers(0, 10))
    merge: Merge[range] = Merge(skew)
    for source in SOURCES:
        merge.add(source)
    left = dict.fromkeys(SOURCES, 0)
    found: list[tuple[str, int]] = []
    while left:
        free = [source for source in sorted(left) if merge.may_read(source)]
        assert free, "nobody may be read, and nothing is due"
        source = data.draw(st.sampled_from(free))
        if merge.has_waiting(source):
            assert merge.newest(source) <= merge.watermark + skew
        at = left[source]
        if at == len(life[source]):
            merge.finish(source)
            del left[source]
        else:
            merge.arrive(source, [life[source][at]], range(at, at + 1))
            left[source] += 1
        found += given_of(merge)
    assert found == sorted_whole(life)


def three(*, skew: int = 2) -> Merge[range]:
    merge: Merge[range] = Merge(skew)
    for source in SOURCES:
        merge.add(source)
    return merge


def test_the_slowest_is_found_anew_after_each_step():
    """Vitess stalled here: the first laggard caught up, and the others went on waiting for it, not for the new one."""
    merge = three()
    merge.arrive("a", [100], range(1))
    merge.arrive("b", [50], range(1))
    merge.arrive("c", [10], range(1))
    assert given_of(merge) == [("c", 0)]
    assert merge.holder == "c"
    assert not merge.may_read("a")
    merge.arrive("c", [101], range(1, 2))
    assert given_of(merge) == [("b", 0)]
    assert merge.holder == "b"
    assert merge.may_read("b")
    assert not merge.may_read("c")
    merge.arrive("b", [102], range(1, 2))
    # All within the bound: all may be read.
    assert given_of(merge) == [("a", 0)]
    assert all(map(merge.may_read, SOURCES))


def test_a_silent_source_holds_the_watermark_until_its_position_speaks():
    merge = three()
    merge.arrive("a", [5, 6, 7], range(3))
    merge.arrive("b", [8], range(1))
    assert given_of(merge) == []
    assert (merge.holder, merge.watermark) == ("c", 0)
    merge.prove("c", 6)
    # At 6 exactly something of c may still come, and "a" is in front of "c".
    assert given_of(merge) == [("a", 0), ("a", 1)]
    merge.prove("c", 5)
    assert merge.watermark == 6
    merge.prove("c", 100)
    assert given_of(merge) == [("a", 2)]
    assert merge.holder == "a"


def test_a_source_that_is_paused_is_not_idle():
    """Flink took it for idle, and the watermark jumped over what it had not been allowed to read."""
    merge = three()
    merge.arrive("a", [5], range(1))
    merge.prove("b", 1)
    merge.prove("c", 1)
    assert not merge.may_read("a")
    assert merge.watermark == 1
    # A proof of the past changes nothing of what waits.
    for source in "abc":
        merge.prove(source, 1000)
    assert merge.watermark == 5


def test_a_source_that_has_ended_holds_nobody_up():
    merge = three()
    merge.arrive("a", [5], range(1))
    merge.arrive("b", [9], range(1))
    merge.finish("c")
    assert given_of(merge) == [("a", 0)]
    merge.finish("a")
    assert given_of(merge) == [("b", 0)]
    merge.finish("b")
    assert (merge.is_over, merge.watermark, merge.holder, merge.skew) == (True, None, None, 0)


def test_a_backlog_is_not_bound_to_the_pace_of_announcements():
    """Flink's alignment gave out a bound with each announcement: a backlog went at its pace. Here no time passes."""
    merge: Merge[range] = Merge(1)
    merge.add("a")
    merge.add("b")
    found = 0
    for at in range(0, 2000, 2):
        for source in ("a", "b"):
            assert merge.may_read(source)
            merge.arrive(source, [at * 10], range(1))
            found += len(given_of(merge))
    assert found >= 1999


@pytest.mark.parametrize("names", [("old", "new"), ("z", "a")], ids=["by name", "against it"])
def test_a_new_source_comes_behind_the_old_ones_that_it_takes_over_from(names):
    old, new = names
    merge: Merge[range] = Merge(2)
    merge.add(old)
    merge.arrive(old, [5, 9], range(2))
    merge.add(new, epoch=1, least=merge.newest(old))
    merge.finish(old)
    # Its clock is behind; its stream is not.
    merge.arrive(new, [3, 12], range(2))
    merge.finish(new)
    assert given_of(merge) == [(old, 0), (old, 1), (new, 0), (new, 1)]


def test_many_pieces_of_one_source_do_not_fill_the_memory():
    merge: Merge[range] = Merge(10**9)
    merge.add("a")
    merge.add("b")
    merge.prove("b", 1)
    taken = 0
    while merge.may_read("a"):
        merge.arrive("a", [5], range(1))
        taken += 1
    assert taken < 10
