"""Tokens of groups are those that `to_text` writes of the same places."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from strata_cdc.groups.group_position import GroupPosition
from strata_cdc.position.sets import Gtid, GtidSet
from strata_cdc.position.source_position import PartialTransaction, SourcePosition
from strata_cdc.position.token import Order, Token
from strata_cdc.position.token_seal import StepTexts
from strata_cdc.position.token_text import from_text, to_text

UUIDS = [f"{digit * 8}-71ca-11e1-9e33-c80aa9429562" for digit in "123"]


def place(at: int, last: int, *steps: int) -> SourcePosition:
    uuid = UUIDS[at]
    parts = tuple(
        PartialTransaction(Gtid.parse(f"{uuid}:{last + 1 + more}"), count) for more, count in enumerate(steps)
    )
    return SourcePosition(
        f"shard_{'abc'[at]}", GtidSet.parse(f"{uuid}:1-{last}"), "", 1_700_000_000_000_000 + last, parts
    )


@pytest.mark.parametrize("steps", [(), (3,), (1, 2)])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_text_is_that_of_the_token(at, steps):
    places = [place(one, 5) for one in range(3)]
    places[at] = place(at, 7, *steps)
    position = GroupPosition.from_positions(reversed(places))
    assert position.text == to_text(position.token) == to_text(Token.over(places))
    assert from_text(position.text) == position.token


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("other", [(), (4,)])
def test_the_texts_of_steps_are_those_of_tokens(at, other):
    """Also while another source stands inside of a transaction."""
    places = [place(one, 5, *(other if one != at else ())) for one in range(3)]
    texts = GroupPosition.from_positions(places).inside(
        replace(places[at], parts=(PartialTransaction(Gtid.parse(f"{UUIDS[at]}:6"), 1),))
    )
    for steps in (1, 2, 70_000):
        places[at] = place(at, 5, steps)
        assert texts.text(steps) == to_text(Token.over(places))


def test_one_place_is_as_it_was():
    one = place(0, 5, 9)
    assert StepTexts(one).text(9) == to_text(Token((one,)))


def test_moving_one_source_leaves_the_others():
    before = GroupPosition.from_positions([place(0, 5), place(2, 5)])
    after = before.moved(place(0, 6)).moved(place(1, 1))
    assert [one.source for one in after.positions.values()] == ["shard_a", "shard_b", "shard_c"]
    assert before.token.compare(after.token) is Order.BEFORE


def test_more_sources_than_a_short_array_has():
    places = [SourcePosition(f"s{at:02}", GtidSet.parse(f"{UUIDS[0]}:1-{at + 1}"), "", 0) for at in range(40)]
    assert from_text(GroupPosition.from_positions(places).text) == Token.over(places)
