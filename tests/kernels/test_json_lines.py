"""Lines that are put together of texts are what Python joins; what does not fit is refused and nothing beside it is
written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.json_lines import put_lines
from strata_cdc.changes.lines import ComposedTexts, Composition, ConstantPart, LineColumn, LinePart
from strata_cdc.changes.texts import Constants, Texts

TEXT = st.binary(max_size=40) | st.sampled_from([b"", b"a" * 15, b"b" * 16, b"c" * 17])
AROUND = 32


@st.composite
def pieces(draw: st.DrawFn, count: int) -> tuple[LinePart, list[bytes]]:
    """A piece, and what each line has of it."""
    way = draw(st.sampled_from(["same", "own", "chosen", "absent"]))
    if way == "same":
        text = draw(TEXT)
        return ConstantPart(text), [text] * count
    if way == "chosen":
        texts = draw(st.lists(TEXT, min_size=1, max_size=4))
        chosen = draw(st.lists(st.integers(0, len(texts) - 1), min_size=count, max_size=count))
        return LineColumn(Constants(tuple(texts)), np.array(chosen, np.int64)), [texts[one] for one in chosen]
    texts = draw(st.lists(TEXT, min_size=count, max_size=count))
    if way == "own":
        return LineColumn(Texts.from_texts(texts)), texts
    absent = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return LineColumn(Texts.from_texts(texts), None, np.array(absent)), [
        b"" if gone else text for text, gone in zip(texts, absent, strict=True)
    ]


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[LinePart], list[bytes]]:
    count = draw(st.integers(1, 6))
    found = draw(st.lists(pieces(count), min_size=1, max_size=8))
    wanted = [b"".join(row) for row in zip(*(texts for _, texts in found), strict=True)]
    return [piece for piece, _ in found], wanted


@given(st.lists(lines(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_lines_of_some_groups_are_their_texts_in_any_order(made, random):
    wanted = [text for _, texts in made for text in texts]
    lines = Composition([pieces for pieces, _ in made], [len(texts) for _, texts in made])
    assert lines.sizes.tolist() == list(map(len, wanted))
    # Lines of a group are in order, and between them are those of others.
    groups = [group for group, (_, texts) in enumerate(made) for _ in texts]
    random.shuffle(groups)
    following = [list(part) for part in lines.split(np.arange(len(wanted)))]
    order = [int(following[group].pop(0)) for group in groups]
    ranks = np.argsort(order)
    borders = np.array(sorted({0, len(order), *(random.randrange(len(order)) for _ in range(3))}))
    # What is in front of the first border that is asked for is not written, and neither is what lies around lines.
    first = random.randrange(len(borders) - 1)
    begins, at = np.zeros(len(order), np.int64), 0
    for one in order:
        begins[one] = at + AROUND
        at += len(wanted[one]) + AROUND
    front = int(begins[order[borders[first]]]) - AROUND
    out = np.full(at - front, 0xFF, np.uint8)
    lines.put(lines.borders(ranks, borders)[first:], front, begins.copy(), begins + lines.sizes, out)
    expected = b"".join(bytes([0xFF]) * AROUND + wanted[one] for one in order[borders[first] :])
    assert out.tobytes() == expected


@given(lines())
@example(([ConstantPart(b"")], [b""]))
def test_texts_are_put_together_likewise(made):
    pieces, wanted = made
    found = ComposedTexts(pieces, len(wanted)).made
    assert [found.between(at, at + 1).data.tobytes() for at in range(len(found))] == wanted


@pytest.mark.parametrize(
    ("places", "ends", "failed"),
    [
        ([0, 20], [20, 39], 1),
        ([0, 20], [20, 41], 1),
        ([0, -1], [20, 19], 1),
        ([0, 100], [20, 120], 1),
        ([0, 20], [19, 40], 0),
    ],
)
def test_a_line_that_does_not_fill_its_place_is_refused(places, ends, failed):
    pieces = [ConstantPart(b"a" * 17), LineColumn(Texts.from_texts([b"bcd"]), np.zeros(2, np.int64))]
    parts, groups = np.array([piece.part for piece in pieces], np.int64), np.array([[0, 2, 0, 2]])
    around = np.full(300, 0xFF, np.uint8)
    out = around[100:140]
    # The output begins with byte 1000.
    found = put_lines(parts, groups, np.array([[0], [2]]), 1000, np.array(places) + 1000, np.array(ends) + 1000, out)
    assert found == failed
    assert (around[:100] == 0xFF).all()
    assert (around[140:] == 0xFF).all()


@pytest.mark.parametrize(
    ("borders", "lines"),
    [([[-1], [1]], [0, 2]), ([[0], [3]], [0, 2]), ([[0], [2]], [1, 2]), ([[0], [2]], [0, 1]), ([[0], [4]], [0, 4])],
)
def test_lines_that_are_not_there_are_refused(borders, lines):
    parts = np.array([ConstantPart(b"a").part], np.int64)
    groups, out = np.array([[0, 1, *lines]]), np.full(9, 0xFF, np.uint8)
    places = np.array([4, 5])
    assert put_lines(parts, groups, np.array(borders), 0, places, places + 1, out) >= 0
    assert (out == 0xFF).all()
    assert places.tolist() == [4, 5]


@pytest.mark.parametrize(
    "piece",
    [
        LineColumn(Texts.from_texts([b"a", b"b"]), np.array([0, 2])),
        LineColumn(Texts.from_texts([b"a", b"b"]), np.array([0, -1])),
        LineColumn(Texts.from_texts([b"a", b"b"]), np.array([0])),
        LineColumn(Texts.from_texts([b"a", b"b"])),
    ],
)
def test_a_line_without_a_text_is_refused(piece):
    count = 3 if piece.chosen is None else 2
    with pytest.raises(RuntimeError, match="part 1 has no text"):
        Composition([[ConstantPart(b"x"), piece]], [count])
    parts, groups = np.array([piece.part], np.int64), np.array([[0, 1, 0, count]])
    places = np.zeros(count, np.int64)
    assert put_lines(parts, groups, np.array([[0], [count]]), 0, places, places + 1, np.zeros(9, np.uint8)) == count - 1


@pytest.mark.parametrize("chosen", [np.zeros(4, np.int32), np.zeros(4, np.int64)[::2]])
def test_what_has_no_plain_address_is_refused(chosen):
    with pytest.raises(TypeError, match="cannot be read"):
        Composition([[LineColumn(Texts.from_texts([b"a"]), chosen)]], [2])
