"""What decides whether a change lands is not drawn by lot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import properties

pytestmark = pytest.mark.skipif(properties.TIMES > 0, reason="new examples were asked for")


def test_examples_are_the_same_each_time():
    assert settings.default.database is None
    assert settings.default.deadline is None
    drawn = []

    @given(st.text(), st.integers())
    def draw(text: str, number: int):
        drawn.append((text, number))

    draw()
    count = len(drawn)
    draw()
    assert drawn[:count] == drawn[count:]


def test_no_example_is_a_constant_of_the_product():
    """They would be others with each change of it."""
    constants = properties.providers._get_local_constants()
    assert not constants.integers
    assert not constants.strings
