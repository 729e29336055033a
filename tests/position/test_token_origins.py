"""Tokens of rows that were copied: what they say of the source they came from, held against a world where everything
about copies is known; the laws of their union; their text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import InvalidTokenError
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import Gtid, GtidSet, Sid
from strata_cdc.position.source_position import Origin, PartialTransaction, SourcePosition
from strata_cdc.position.token import Order, Token
from strata_cdc.position.token_seal import StepTexts
from strata_cdc.position.token_text import from_text, to_text
from tests.position.former_texts import former_text
from tests.position.test_sets import A, B
from tests.position.test_token import AT_OR_BEFORE, FLIPPED, union

SOURCES = ("old", "new", "newer")


class Copy(Struct, frozen=True):
    """Who has executed the transactions of one source up to a number has those of another one up to some number."""

    source: str
    number: int
    origin: str
    copied: int


class Known(Struct, frozen=True):
    """A token, and how far its sources have come in it."""

    token: Token
    numbers: dict[str, int]


def up_to(number: int) -> GtidSet:
    return GtidSet.parse(f"{A}:1-{number}") if number else GtidSet()


copies = st.lists(
    st.builds(Copy, st.sampled_from(SOURCES), st.integers(1, 4), st.sampled_from(SOURCES), st.integers(1, 4)).filter(
        lambda one: one.source != one.origin
    ),
    max_size=4,
)


@st.composite
def worlds(draw, count: int) -> tuple[list[Copy], list[Known]]:
    """What has been copied, and tokens that know some of it."""
    world, found = draw(copies), []
    for _ in range(count):
        numbers = draw(st.dictionaries(st.sampled_from(SOURCES), st.integers(0, 4), max_size=2))
        positions = []
        for source, number in numbers.items():
            true = [one for one in world if one.source == source and one.number <= number]
            reported = draw(st.lists(st.sampled_from(true), unique=True)) if true else []
            origins = [Origin(one.origin, up_to(one.copied)) for one in reported]
            positions += Token.of(source, up_to(number), origins=origins).positions
        found.append(Known(Token.over(positions), numbers))
    return world, found


def holds(world: list[Copy], one: Known, other: Known) -> bool:
    """Whether who has reached `other` has executed all that `one` stands for."""
    reached = dict(other.numbers)
    for _ in SOURCES:
        for copy in world:
            if reached.get(copy.source, -1) >= copy.number:
                reached[copy.origin] = max(reached.get(copy.origin, 0), copy.copied)
    return all(reached.get(source, -1) >= number for source, number in one.numbers.items())


@given(worlds(2))
def test_the_order_says_nothing_that_is_not_so(drawn):
    world, (one, other) = drawn
    order = one.token.compare(other.token)
    assert order is FLIPPED[other.token.compare(one.token)]
    assert one.token.compare(one.token) is Order.EQUAL
    if order in AT_OR_BEFORE:
        assert holds(world, one, other)
    if FLIPPED[order] in AT_OR_BEFORE:
        assert holds(world, other, one)


@given(worlds(3))
def test_a_chain_is_not_contradicted(drawn):
    world, (one, two, three) = drawn
    if one.token.compare(two.token) in AT_OR_BEFORE and two.token.compare(three.token) in AT_OR_BEFORE:
        # A token that knows nothing of copies may leave it unknown.
        assert one.token.compare(three.token) is not Order.AFTER or holds(world, three, one)


@given(worlds(3))
def test_the_union_is_the_least_upper_bound(drawn):
    _, (one, two, three) = (drawn[0], [known.token for known in drawn[1]])
    both = union(one, two)
    assert both is not None
    assert both == union(two, one)
    assert union(one, one) == one
    assert union(both, three) == union(one, union(two, three))
    assert one.compare(both) in AT_OR_BEFORE
    assert two.compare(both) in AT_OR_BEFORE
    if one.compare(three) in AT_OR_BEFORE and two.compare(three) in AT_OR_BEFORE:
        assert both.compare(three) in AT_OR_BEFORE


def test_a_resharding_is_compared_by_what_was_copied():
    written = Token.of("old", GtidSet.parse(f"{A}:1-70"), lineage="first")
    copied = Origin("old", GtidSet.parse(f"{A}:1-77"), "first")
    row = Token.of("new", GtidSet.parse(f"{B}:1-3"), origins=[copied])
    assert (written.compare(row), row.compare(written)) == (Order.BEFORE, Order.AFTER)
    late = Token.of("old", GtidSet.parse(f"{A}:1-78"), lineage="first")
    assert late.compare(row) is Order.UNKNOWN
    again = Token.of("old", GtidSet.parse(f"{A}:1-70"), lineage="second")
    assert again.compare(row) is Order.UNKNOWN
    # Within the source it is the position that counts; what was copied in front of it is held by all behind it.
    query = Token.of("new", GtidSet.parse(f"{B}:1-9"))
    assert row.compare(query) is Order.BEFORE
    assert (row | written).compare(query) is Order.BEFORE
    assert written.compare(query) is Order.UNKNOWN


def test_where_a_copy_does_not_tell_clocks_do_not_either():
    soon = Token.of("old", GtidSet.parse(f"{A}:1-9"), committed_at=10)
    row = Token.of("new", GtidSet(), committed_at=99, origins=[Origin("old", GtidSet.parse(f"{A}:1-5"))])
    assert soon.compare(row, clock_bound=1) is Order.UNKNOWN
    stranger = Token.of("new", GtidSet(), committed_at=99)
    assert soon.compare(stranger, clock_bound=1) is Order.BEFORE


def test_a_server_without_gtids_can_be_an_origin():
    at = FilePosition(A, BinlogPosition.from_offset("binlog.000009", 157))
    row = Token.of("new", GtidSet.parse(f"{B}:1-3"), origins=[Origin("old", at)])
    before = Token.of("old", replace(at, at=BinlogPosition.from_offset("binlog.000008", 900)))
    assert before.compare(row) is Order.BEFORE
    assert Token.of("old", replace(at, server_uuid=B)).compare(row) is Order.UNKNOWN
    assert from_text(to_text(row)) == row


# The text -----------------------------------------------------------------------------------------------


@given(worlds(1), st.sampled_from([0, 1, 70_000]))
def test_text_reads_back(drawn, steps):
    token = drawn[1][0].token
    if steps:
        token = Token(
            tuple(replace(one, parts=(PartialTransaction(Gtid(Sid(A), 9), steps),)) for one in token.positions)
        )
    for text in (to_text(token), former_text(token)):
        assert from_text(text) == token
        for damaged in (text[:-1], text + "A", text + ".1", "v2" + text[2:]):
            if damaged != text:
                with pytest.raises(InvalidTokenError):
                    from_text(damaged)


def test_the_rows_of_a_transaction_share_the_head_of_their_tokens():
    place = SourcePosition(
        "new", up_to(3), "x", 3, (PartialTransaction(Gtid(Sid(A), 4), 1),), (Origin("old", up_to(3), "x"),)
    )
    here = Token((replace(place, parts=(PartialTransaction(Gtid(Sid(A), 4), 17),)),))
    assert StepTexts(place).text(17) == to_text(here)
    assert from_text(to_text(here)) == here


def test_texts_are_short():
    executed, late = GtidSet.parse(f"{A}:1-{10**9}"), 1_795_231_800_000_000
    inside = (PartialTransaction(Gtid(Sid(A), 10**9 + 1), 10**6),)
    copied = SourcePosition("shard_a1", executed, "2026-11", late, inside, (Origin("shard_a", executed, "2026-11"),))
    assert len(to_text(Token((copied,)))) <= 200
    numbered_anew = (Origin("shard_a", GtidSet.parse(f"{B}:1-{10**9}"), "2026-11"),)
    assert len(to_text(Token((replace(copied, origins=numbered_anew),)))) <= 200


# Written by the first version that had them; they open for ever.
WRITTEN = {
    (
        "v3.ZP05NpGWqHNoYXJkX2ExqDNlMTFmYTQ3zwAGYMD5un4AkgCRk8QQPhH6R3HKEeGeM8gKqUKVYqCSAU2QkpOnc2h"
        "hcmRfYaVmaXJzdMCTp3NoYXJkX2KlZmlyc3SSAJGTxBBOEfpHccoR4Z4zyAqpQpVioJIBCQ"
    ): Token.of(
        "shard_a1",
        GtidSet.parse(f"{A}:1-77"),
        lineage="3e11fa47",
        committed_at=1_795_231_800_000_000,
        origins=[
            Origin("shard_a", GtidSet.parse(f"{A}:1-77"), "first"),
            Origin("shard_b", GtidSet.parse(f"{B}:1-9"), "first"),
        ],
    ),
    (
        "v3.LmKoUJGWqHNoYXJkX2ExqDNlMTFmYTQ3zwAGYMD5un4AkgCRk8QQPhH6R3HKEeGeM8gKqUKVYqCSAU2Rk8QQPhH"
        "6R3HKEeGeM8gKqUKVYqBOkZOnc2hhcmRfYaVmaXJzdMA.378833"
    ): Token(
        (
            SourcePosition(
                "shard_a1",
                GtidSet.parse(f"{A}:1-77"),
                "3e11fa47",
                1_795_231_800_000_000,
                (PartialTransaction(Gtid(Sid(A), 78), 5),),
                (Origin("shard_a", GtidSet.parse(f"{A}:1-77"), "first"),),
            ),
        )
    ),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_texts_of_every_version_open(text):
    assert from_text(text) == WRITTEN[text]
    assert text in (to_text(WRITTEN[text]), former_text(WRITTEN[text]))
