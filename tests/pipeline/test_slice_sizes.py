"""How large the slices of an interval are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.pipeline.plan.plan_slices import _even


@given(st.integers(1, 1 << 40), st.integers(1 << 20, 1 << 32))
def test_parts_are_as_few_and_as_equal_as_can_be(size: int, most: int):
    part = _even(size, most)
    fewest = -(-size // most)
    assert part <= most
    assert fewest * part - fewest < size <= fewest * part
