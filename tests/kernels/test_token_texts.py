"""Digits and seals of many texts are those of each."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.token_texts import LONGEST_NUMBER
from strata_cdc.changes.lines import ComposedTexts, LineColumn
from strata_cdc.changes.token_texts import GrowingTokens, Growth, TokenEnds, TokensAfter, TokensInside
from strata_cdc.position.token_digits import digits, numbers_of
from strata_cdc.position.token_packed import PackedSourcePosition
from strata_cdc.position.token_seal import StepTexts, head_of, sealed

if TYPE_CHECKING:
    from strata_cdc.changes.texts import Texts

NUMBERS = st.integers(0, (1 << 63) - 1) | st.integers(0, 12).flatmap(
    lambda power: st.integers(max(0, (1 << 5 * power) - 2), (1 << 5 * power) + 2)
)
LETTERS = st.text("AZaz09-_.", max_size=150)


class Steps(StepTexts):
    """Texts with any begin and end."""

    def __init__(self, head: str, tail: str) -> None:
        self.head, self.tail = head, tail


def cut(texts: Texts) -> list[str]:
    return [
        texts.data[begin:end].tobytes().decode() for begin, end in zip(texts.starts, texts.starts[1:], strict=False)
    ]


@given(st.lists(NUMBERS, max_size=20))
@example([0, 31, 32, (1 << 63) - 1])
def test_numbers_are_read_as_they_were_written(numbers: list[int]) -> None:
    found = [digits(number) for number in numbers]
    assert numbers_of("".join(found)) == numbers
    assert all(len(text) <= LONGEST_NUMBER for text in found)


@given(
    st.integers(1, 4).flatmap(
        lambda count: st.lists(st.lists(NUMBERS, min_size=count, max_size=count), min_size=1, max_size=5)
    ),
    st.data(),
)
def test_texts_of_many_numbers_are_those_of_each(numbers, data) -> None:
    """In `GrowingTokens`, some of the numbers of a few sources grow."""
    places, growths = [], {}
    for at, mine in enumerate(numbers):
        fixed = data.draw(st.lists(NUMBERS, max_size=4))
        index = data.draw(st.integers(0, len(fixed)))
        others = [*fixed[:index], 0, *fixed[index:], 0]
        places.append(PackedSourcePosition(b"s%d" % at, (), tuple(others), "".join(map(digits, others)), (), ()))
        if at == 0 or data.draw(st.booleans()):
            growths[at] = Growth(index, np.array(mine), np.array(mine[::-1]))
    wanted = []
    for at in range(len(numbers[0])):
        here = [list(place.numbers) for place in places]
        for source, growth in growths.items():
            here[source][growth.at], here[source][-1] = int(growth.numbers[at]), int(growth.committed_at[at])
        wanted.append(head_of(places) + "".join(digits(number) for mine in here for number in mine))
    growing = GrowingTokens(places, growths)
    assert cut(TokensAfter([growing]).made) == list(map(sealed, wanted))
    heads = TokensInside([growing]).heads
    assert cut(heads.texts) == wanted
    assert heads.crcs.tolist() == [zlib.crc32(text.encode()) for text in wanted]


@given(
    st.lists(st.tuples(LETTERS, st.sampled_from(["", "", "C", "hB"])), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), NUMBERS), min_size=1, max_size=9),
    st.integers(0, 4),
)
def test_the_tokens_of_rows_are_those_of_each(heads, rows, cut_at) -> None:
    steps = [Steps(*head) for head in heads]
    parts = [some for some in (steps[:cut_at], steps[cut_at:]) if some]
    chosen = [at % len(heads) for at, _ in rows]
    numbers = [number for _, number in rows]
    inside = TokensInside(parts)
    columns = [
        LineColumn(inside, np.array(chosen)),
        LineColumn(TokenEnds(inside, np.array(chosen), np.array(numbers))),
    ]
    wanted = [steps[at].text(number) for at, number in zip(chosen, numbers, strict=True)]
    assert cut(ComposedTexts(columns, len(rows)).made) == wanted


@pytest.mark.parametrize("text", ["", "v4.", "v4." + "A" * 200])
def test_a_seal_is_a_crc32(text: str) -> None:
    """RFC 4648 of four bytes, without the padding."""
    assert sealed(text) == text + base64.urlsafe_b64encode(zlib.crc32(text.encode()).to_bytes(4, "big")).decode()[:6]
