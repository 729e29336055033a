"""Intervals own every transaction exactly once, whatever is asked for in which order, and whatever lands late."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.clock import from_micros, moment_key, to_micros
from strata_cdc.pipeline.plan.intervals import close, cover
from strata_cdc.runs.specs import Interval, TimeSpan

END = 60


def seq_before(clock: list[int]):
    return lambda time: sum(1 for committed in clock if committed < time)


@st.composite
def streams(draw):
    """Commit times on the clock (so never falling) of the transactions of one stream."""
    return sorted(draw(st.lists(st.integers(0, END - 1), max_size=30)))


def unowned(request, owned):
    return [piece for piece in cover(request, owned) if isinstance(piece, TimeSpan)]


spans = st.tuples(st.integers(0, END), st.integers(0, END)).filter(lambda p: p[0] < p[1]).map(lambda p: TimeSpan(*p))


@given(streams(), st.lists(st.tuples(spans, st.integers(0, 30)), max_size=8))
def test_each_transaction_is_owned_once_even_if_it_lands_after_its_time_was_closed(clock, requests):
    owned: list[Interval] = []
    for request, landed in requests:
        # What has landed only grows; a transaction's time may lie in a span that is closed already.
        known = seq_before(clock[: max([landed, *(interval.last_seq for interval in owned)])])
        for span in unowned(request, owned):
            owned.append(close(span, owned, known, str))
    for span in unowned(TimeSpan(0, END), owned):
        owned.append(close(span, owned, seq_before(clock), str))
    owners = [seq for interval in owned for seq in range(interval.after_seq + 1, interval.last_seq + 1)]
    # Only what landed behind the last boundary may be left for the interval after it.
    assert sorted(owners) == list(range(1, max(owners, default=0) + 1))
    after = close(TimeSpan(END, END + 1), owned, seq_before([*clock]), str)
    after_all = close(TimeSpan(END + 1, END + 2), [*owned, after], lambda _: len(clock), str)
    last = max([interval.last_seq for interval in owned], default=0)
    assert (after.after_seq, after_all.last_seq) == (last, len(clock))


@given(streams(), st.lists(spans, max_size=8))
def test_intervals_are_disjoint_in_time_and_in_ordinals(clock, requests):
    owned: list[Interval] = []
    for request in requests:
        for span in unowned(request, owned):
            owned.append(close(span, owned, seq_before(clock), str))
    ordered = sorted(owned, key=lambda interval: interval.start)
    for earlier, later in pairwise(ordered):
        assert earlier.end <= later.start
        assert earlier.last_seq <= later.after_seq
    assert all(interval.after_seq <= interval.last_seq for interval in owned)


@given(spans, st.lists(spans, max_size=6))
def test_a_request_is_covered_by_what_exists_and_shares_time_with_it_and_by_new_spans(request, made):
    owned: list[Interval] = []
    for span in made:
        owned += [Interval(piece.start, piece.end, 0, 0, "") for piece in unowned(span, owned)]
    pieces = cover(request, owned)
    covered = [moment for piece in pieces for moment in range(piece.start, piece.end)]
    assert covered == sorted(set(covered)), "in order and disjoint"
    assert set(range(request.start, request.end)) <= set(covered)
    outside = set(covered) - set(range(request.start, request.end))
    assert outside <= {
        moment for piece in pieces if isinstance(piece, Interval) for moment in range(piece.start, piece.end)
    }
    assert [piece for piece in pieces if isinstance(piece, Interval)] == sorted(
        (one for one in owned if one.start < request.end and one.end > request.start), key=lambda one: one.start
    )


def test_a_span_inside_an_interval_means_the_interval():
    owned = [Interval(0, 10, 0, 5, "a")]
    assert cover(TimeSpan(0, 10), owned) == cover(TimeSpan(3, 4), owned) == owned


@given(st.integers(0, 4_000_000_000_000_000))
def test_moments_come_back_exactly(micros):
    assert to_micros(from_micros(micros)) == micros


@given(st.integers(0, 4_000_000_000_000_000), st.integers(0, 4_000_000_000_000_000))
def test_the_text_of_moments_sorts_like_time(a, b):
    assert (a < b) == (moment_key(a) < moment_key(b))
