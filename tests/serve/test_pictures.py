"""Pictures of time, for any times."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.serve.pictures import CELLS, WIDTH, Band, Period, bands, bars, heat

TIMES = st.lists(st.integers(0, 1000), min_size=1, max_size=400).map(sorted)


def rectangles(drawn, of):
    found = re.findall(rf'<rect class="{of}[^"]*" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    return [(float(x), float(width)) for x, width in found]


@given(TIMES, st.integers(0, 1000), st.integers(0, 1000))
def test_each_version_has_a_band_and_none_covers_another(starts, before, after):
    span = Period(max(starts[0] - before, 0), starts[-1] + after)
    drawn = rectangles(bands([Band(start, "version", "t") for start in starts], span), "band")
    assert len(drawn) == len(starts)
    assert drawn[0][0] >= 0
    for (x, width), (following, _) in itertools.pairwise(drawn):
        # Places are written to a tenth.
        assert following >= x + min(width, 1) - 0.2
    assert drawn[-1][0] + drawn[-1][1] <= WIDTH + 0.2


@given(st.lists(st.integers(0, 10**12), max_size=200))
def test_bars_stay_within_the_picture(values):
    drawn = rectangles(bars(values), "bar")
    assert len(drawn) == sum(value > 0 for value in values)
    assert all(x + width <= WIDTH + 0.2 for x, width in drawn)


@given(TIMES)
def test_every_change_is_in_one_cell(times):
    counts = re.findall(r"<title>(\d+) versions</title>", heat(times, Period(times[0], times[-1])))
    assert sum(map(int, counts)) == len(times)
    assert len(counts) <= CELLS
