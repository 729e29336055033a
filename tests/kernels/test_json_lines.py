"""Lines that are put together of texts are what Python joins; what does not fit is refused and nothing beside it is
written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.kernels.json_lines import put_lines
from strata.rows.texts import Texts
from strata.streams.lines import Composition, Piece, composed

TEXT = st.binary(max_size=40) | st.sampled_from([b"", b"a" * 15, b"b" * 16, b"c" * 17])
AROUND = 32


@st.composite
def pieces(draw: st.DrawFn, count: int) -> tuple[Piece, list[bytes]]:
    """A piece, and what each line has of it."""
    way = draw(st.sampled_from(["same", "own", "chosen", "absent"]))
    if way == "same":
        text = draw(TEXT)
        return Piece.same(text), [text] * count
    if way == "chosen":
        texts = draw(st.lists(TEXT, min_size=1, max_size=4))
        chosen = draw(st.lists(st.integers(0, len(texts) - 1), min_size=count, max_size=count))
        return Piece.of(texts, np.array(chosen, np.int64)), [texts[one] for one in chosen]
    texts = draw(st.lists(TEXT, min_size=count, max_size=count))
    if way == "own":
        return Piece(Texts.of(texts)), texts
    absent = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return Piece(Texts.of(texts), None, np.array(absent)), [
        b"" if gone else text for text, gone in zip(texts, absent, strict=True)
    ]


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[Piece], list[bytes]]:
    count = draw(st.integers(1, 6))
    found = draw(st.lists(pieces(count), min_size=1, max_size=8))
    wanted = [b"".join(row) for row in zip(*(texts for _, texts in found), strict=True)]
    return [piece for piece, _ in found], wanted


@given(lines(), st.randoms())
def test_lines_are_their_texts_in_any_order(made, random):
    pieces, wanted = made
    lines = Composition(pieces, len(wanted))
    assert lines.sizes.tolist() == list(map(len, wanted))
    # Some of them, each between others that were written before.
    first = random.randrange(len(wanted))
    order = list(range(first, len(wanted)))
    random.shuffle(order)
    begins, at = np.zeros(len(order), np.int64), AROUND
    for one in order:
        begins[one - first] = at
        at += len(wanted[one]) + AROUND
    out = np.full(at, 0xFF, np.uint8)
    lines.put(first, begins.copy(), begins + lines.sizes[first:], out)
    expected = bytes([0xFF]) * AROUND + b"".join(wanted[one] + bytes([0xFF]) * AROUND for one in order)
    assert out.tobytes() == expected


@given(lines())
@example(([Piece.same(b"")], [b""]))
def test_texts_are_put_together_likewise(made):
    pieces, wanted = made
    found = composed(pieces, len(wanted))
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
    pieces = [Piece.same(b"a" * 17), Piece.of([b"bcd"], np.zeros(2, np.int64))]
    parts = np.array([piece.part for piece in pieces], np.int64)
    around = np.full(300, 0xFF, np.uint8)
    out = around[100:140]
    assert put_lines(parts, 0, np.array(places), np.array(ends), out) == failed
    assert (around[:100] == 0xFF).all()
    assert (around[140:] == 0xFF).all()


@pytest.mark.parametrize(
    "piece",
    [
        Piece.of([b"a", b"b"], np.array([0, 2])),
        Piece.of([b"a", b"b"], np.array([0, -1])),
        Piece.of([b"a", b"b"], np.array([0])),
        Piece(Texts.of([b"a", b"b"])),
    ],
)
def test_a_line_without_a_text_is_refused(piece):
    count = 3 if piece.chosen is None else 2
    with pytest.raises(RuntimeError, match="piece 1 has no text"):
        Composition([Piece.same(b"x"), piece], count)
    parts = np.array([piece.part], np.int64)
    places = np.zeros(count, np.int64)
    assert put_lines(parts, 0, places, places + 1, np.zeros(9, np.uint8)) == count - 1


@pytest.mark.parametrize("chosen", [np.zeros(4, np.int32), np.zeros(4, np.int64)[::2]])
def test_what_has_no_plain_address_is_refused(chosen):
    with pytest.raises(TypeError, match="cannot be read"):
        Composition([Piece.of([b"a"], chosen)], 2)
