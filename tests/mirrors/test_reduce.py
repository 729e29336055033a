"""The first and the last image of each key, whatever the keys are: as a walk over all images finds them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.mirrors.reduce import _edges

_ENDS = st.sampled_from([-(1 << 63), -1, 0, 1, (1 << 63) - 1])


@given(st.lists(_ENDS | st.integers(-3, 3) | st.integers(-(1 << 63), (1 << 63) - 1), max_size=30), st.randoms())
def test_first_and_last_of_each_number(numbers, random):
    times = random.sample(range(2 * len(numbers) + 5), len(numbers))
    first, last = _edges(np.array(numbers, np.int64), np.array(times, np.int64))
    walked = {}
    for place in np.argsort(times).tolist():
        found = walked.setdefault(numbers[place], [place, place])
        found[1] = place
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == [tuple(walked[one]) for one in sorted(walked)]
