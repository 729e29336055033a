"""Event tokens: the laws of their order and union, their text, and MySQL's own word on which set holds which."""

from __future__ import annotations

import base64
import random
import re
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID as UUID_TYPE

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strata_cdc.errors import IncomparableTokensError, InvalidTokenError
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.commit_ts import CommitStep, CommitTs
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import DomainWriter, Gtid, GtidSet, Sid
from strata_cdc.position.source_position import PartialTransaction, SourcePosition
from strata_cdc.position.token import Order, Token, merge
from strata_cdc.position.token_digits import digits
from strata_cdc.position.token_seal import StepTexts
from strata_cdc.position.token_seal import sealed as seal
from strata_cdc.position.token_shown import shown
from strata_cdc.position.token_text import from_text, to_text
from tests.position.domain_positions import domains
from tests.position.former_texts import former_text, sealed
from tests.position.test_sets import A, B, pairs, random_set, sets

if TYPE_CHECKING:
    from strata_cdc.position.port import Position

FLIPPED = {Order.BEFORE: Order.AFTER, Order.AFTER: Order.BEFORE, Order.EQUAL: Order.EQUAL, Order.UNKNOWN: Order.UNKNOWN}
AT_OR_BEFORE = (Order.BEFORE, Order.EQUAL)

files = st.builds(
    lambda uuid, number, offset: FilePosition(uuid, BinlogPosition.from_offset(f"binlog.{number:06}", offset)),
    st.sampled_from([A, B]),
    st.sampled_from([9, 999_999, 1_000_000]),
    st.integers(4, 6),
)
commits = st.builds(
    # Of one changefeed: the ordinal grows with the timestamp.
    lambda ts, is_ddl: CommitTs(CommitStep(ts, is_ddl), 2 * ts + is_ddl),
    st.integers(0, 9),
    st.booleans(),
)
times = st.integers(0, 3)


def inside(position: Position, steps: dict[int, int]) -> tuple[PartialTransaction, ...]:
    """Transactions behind a position of which so many steps have been given."""
    if isinstance(position, CommitTs):
        following = [CommitStep(position.at.ts, is_ddl=True), CommitStep(position.at.ts + 1)][position.at.is_ddl]
        return tuple(PartialTransaction(following, count) for count in list(steps.values())[:1])
    if isinstance(position, FilePosition):
        return tuple(PartialTransaction(position.at, count) for count in list(steps.values())[:1])
    sid = DomainWriter(1, 7) if isinstance(position, DomainSet) else Sid(A)
    found = ((Gtid(sid, number), count) for number, count in sorted(steps.items()))
    return tuple(PartialTransaction(gtid, count) for gtid, count in found if not position.contains(gtid))


steps = st.dictionaries(st.integers(1, 9), st.sampled_from([1, 2, 65_536, 10**9]), max_size=2)
comparable = st.builds(
    lambda position, at, steps: SourcePosition("s", position, "x", at, inside(position, steps)), sets, times, steps
)
"""Places of one history."""


def anywhere(positions: st.SearchStrategy) -> st.SearchStrategy[SourcePosition]:
    """Positions of two sources and two histories of each."""
    return st.builds(
        lambda source, position, lineage, at, steps: SourcePosition(
            source, position, lineage, at, inside(position, steps)
        ),
        st.sampled_from(["s", "t"]),
        positions,
        st.sampled_from(["", "x"]),
        times,
        steps,
    )


def over(positions: st.SearchStrategy[SourcePosition]) -> st.SearchStrategy[Token]:
    """Tokens of at most two sources."""
    return st.dictionaries(st.sampled_from(["s", "t"]), positions).map(
        lambda found: Token.over(replace(place, source=source) for source, place in found.items())
    )


of_one = st.lists(comparable, max_size=1).map(Token.over)
of_any = over(anywhere(sets | files | domains | commits))
of_former = over(anywhere(sets | files))
"""Tokens that former versions could write."""


def union(*tokens: Token) -> Token | None:
    try:
        return merge(tokens)
    except IncomparableTokensError:
        return None


@given(of_any, of_any, of_any)
def test_the_order_is_partial(one, two, three):
    assert one.compare(one) is Order.EQUAL
    assert one.compare(two) is FLIPPED[two.compare(one)]
    if one.compare(two) in AT_OR_BEFORE and two.compare(three) in AT_OR_BEFORE:
        strict = Order.BEFORE in (one.compare(two), two.compare(three))
        assert one.compare(three) is (Order.BEFORE if strict else Order.EQUAL)
    if one.compare(two) is Order.EQUAL:
        assert one.compare(three) is two.compare(three)


@given(of_any, of_any, of_any)
def test_the_union_is_the_least_upper_bound(one, two, three):
    both = union(one, two)
    assert both == union(two, one)
    assert union(one, one) == one
    assert union(one, two, three) == union(three, two, one)
    if both is not None:
        assert union(both, three) == union(one, two, three)
        assert one.compare(both) in AT_OR_BEFORE
        assert two.compare(both) in AT_OR_BEFORE
    if one.compare(three) in AT_OR_BEFORE and two.compare(three) in AT_OR_BEFORE:
        assert both is not None
        assert both.compare(three) in AT_OR_BEFORE


@given(sets, sets, times, times)
def test_within_a_history_it_is_containment_of_sets(one, two, soon, late):
    found = Token.of("s", one, committed_at=soon).compare(Token.of("s", two, committed_at=late))
    contained, contains = pairs(one) <= pairs(two), pairs(two) <= pairs(one)
    assert (found in AT_OR_BEFORE, FLIPPED[found] in AT_OR_BEFORE) == (contained, contains)


@given(of_one, of_one)
def test_tokens_of_one_history_always_have_a_union(one, two):
    assert union(one, two) is not None


def test_files_compare_by_number_and_servers_do_not_compare():
    def at(file, offset, server=A, lineage=""):
        return Token.of("s", FilePosition(server, BinlogPosition.from_offset(file, offset)), lineage=lineage)

    assert at("binlog.999999", 900).compare(at("binlog.1000000", 4)) is Order.BEFORE
    assert at("binlog.000002", 4).compare(at("binlog.000001", 900)) is Order.AFTER
    assert at("binlog.000002", 4).compare(at("binlog.000002", 4)) is Order.EQUAL
    assert at("binlog.000002", 4).compare(at("binlog.000003", 4, server=B)) is Order.UNKNOWN
    assert at("binlog.000002", 4).compare(at("binlog.000003", 4, lineage="rebuilt")) is Order.UNKNOWN
    assert at("binlog.000002", 4).compare(Token.of("s", GtidSet.parse(f"{A}:1-9"))) is Order.UNKNOWN
    assert at("binlog.000001", 900) | at("binlog.000002", 4) == at("binlog.000002", 4)


def test_commits_compare_by_timestamp_and_ordinal():
    def at(ts, seq, *parts, is_ddl=False, lineage=""):
        steps = tuple(PartialTransaction(step, 2) for step in parts)
        return Token((SourcePosition("s", CommitTs(CommitStep(ts, is_ddl), seq), lineage, 0, steps),))

    assert at(5, 1).compare(at(6, 2)) is Order.BEFORE
    assert at(5, 1).compare(at(5, 2, is_ddl=True)) is Order.BEFORE
    assert at(5, 1).compare(at(5, 1, CommitStep(5, is_ddl=True))) is Order.BEFORE
    assert at(5, 1, CommitStep(5, is_ddl=True)).compare(at(5, 2, is_ddl=True)) is Order.BEFORE
    assert at(5, 1).compare(at(6, 2, lineage="rebuilt")) is Order.UNKNOWN
    # Another changefeed: at the later time it has fewer commits.
    assert at(5, 7).compare(at(6, 2)) is Order.UNKNOWN
    with pytest.raises(IncomparableTokensError, match="two changefeeds"):
        at(5, 7) | at(6, 2)
    text = "v4.lMQAkJIAxAaUAZCgoXORlAABAAc.hggq14_ww89MBogrjsys4wyBC"
    here = at(466_000_000_000_000_006, 3, CommitStep(466_000_000_000_000_013, is_ddl=True), is_ddl=True)
    assert from_text(to_text(here)) == here
    assert to_text(here).split(".")[1] == text.split(".")[1]
    shown_place = shown(here.positions[0])
    assert (shown_place["commit_ts"], shown_place["after"], shown_place["seq"], shown_place["inside"]) == (
        *(466_000_000_000_000_006, "ddl", 3, 2),
    )


def test_two_histories_of_a_source_have_no_order_and_no_union():
    first = Token.of("s", GtidSet.parse(f"{A}:1-9"), lineage="2026-11-22")
    again = Token.of("s", GtidSet.parse(f"{A}:1-5"), lineage="2026-11-23")
    assert first.compare(again) is Order.UNKNOWN
    with pytest.raises(IncomparableTokensError, match=r"two histories.*'2026-11-22'.*'2026-11-23'") as caught:
        first | again
    assert caught.value.source == "s"


def test_a_source_that_a_token_does_not_name_is_asked_nothing():
    one, other = (Token.of(source, GtidSet.parse(f"{A}:1-9")) for source in "st")
    assert one.compare(other) is Order.UNKNOWN
    assert one.compare(one | other) is Order.BEFORE
    assert [place.source for place in (other | one).positions] == ["s", "t"]
    assert merge([]).compare(one) is Order.BEFORE


# The text ---------------------------------------------------------------------------------------


@given(of_any)
def test_text_reads_back(token):
    text = to_text(token)
    assert from_text(text) == token
    assert from_text(f" {text}\r\n") == token
    assert quote(text, safe="") == text


@given(of_former, of_former)
def test_texts_of_former_versions_are_read(token, other):
    former = former_text(token)
    assert from_text(former) == token
    assert from_text(former).compare(other) is token.compare(from_text(to_text(other)))
    assert union(from_text(former), from_text(to_text(other))) == union(token, other)


@given(of_any, st.data())
def test_a_damaged_text_is_refused(token, data):
    is_newer = any(isinstance(place.position, DomainSet | CommitTs) for place in token.positions)
    text = to_text(token) if is_newer else data.draw(st.sampled_from([to_text, former_text]))(token)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("Aa9-_. \u00e4").filter(lambda letter: letter != text[at]))
    for damaged in (text[:at], text[:at] + other + text[at + 1 :], text + other, text + text):
        if damaged.strip() != text:
            with pytest.raises(InvalidTokenError):
                from_text(damaged)


@given(of_any, of_any)
def test_parts_of_two_texts_are_no_token(one, other):
    """A head with the numbers of another token, and each with the seal of the other one."""
    texts = [to_text(one), to_text(other)]
    (version, head, numbers), (_, other_head, other_numbers) = (text.split(".") for text in texts)
    for mixed in (
        f"{version}.{head}.{other_numbers}",
        f"{version}.{other_head}.{numbers}",
        f"{version}.{head}.{numbers[:-6]}{other_numbers[-6:]}",
        f"{version}.{head}.{other_numbers[:-6]}{numbers[-6:]}",
    ):
        if mixed not in texts:
            with pytest.raises(InvalidTokenError):
                from_text(mixed)


def test_texts_are_short():
    servers = [f"{at}e11fa47-71ca-11e1-9e33-c80aa9429562" for at in range(6)]
    executed = GtidSet.parse(",".join(f"{uuid}:1-{10**12}" for uuid in servers))
    token = Token.of("shop", executed, lineage="3e11fa47", committed_at=1_795_231_800_000_000)
    assert len(to_text(token)) <= 300
    token = Token.of("shop", GtidSet.parse(f"{A}:1-{10**12}"), lineage="3e11fa47", committed_at=1_795_231_800_000_000)
    assert len(to_text(token)) <= 100


@given(sets, st.integers(1, 9), st.sampled_from([1, 2, 1023, 65_535, 65_536, 10**9]))
def test_the_rows_of_a_transaction_share_the_head_of_their_tokens(executed, number, count):
    gtid = Gtid(Sid(A), number)
    before = executed - GtidSet.parse(str(gtid))
    place = SourcePosition("s", before, "x", 3, (PartialTransaction(gtid, 1),))
    text = StepTexts(place).text(count)
    here = Token((replace(place, parts=(PartialTransaction(gtid, count),)),))
    assert to_text(here) == text
    assert from_text(text) == here
    whole = Token((SourcePosition("s", before.add(gtid), "x", 3),))
    assert (Token((SourcePosition("s", before, "x", 3),)).compare(here), here.compare(whole)) == (
        Order.BEFORE,
        Order.BEFORE,
    )
    assert here | whole == whole


@pytest.mark.parametrize("write", [to_text, former_text])
def test_a_damaged_number_of_rows_is_refused(write):
    place = SourcePosition("s", GtidSet.parse(f"{A}:1-9"), "", 0, (PartialTransaction(Gtid(Sid(A), 10), 1),))
    text = write(Token((place,)))
    head, _, number = text.rpartition(".")
    wrong = [number[:at] + digit + number[at + 1 :] for at in range(len(number)) for digit in "0123456789ABCghi-_"]
    for other in {*wrong, *(number[:at] for at in range(len(number)))} - {number}:
        with pytest.raises(InvalidTokenError):
            from_text(f"{head}.{other}")


def test_different_histories_are_told_apart_by_clocks_within_a_bound_only():
    soon, late = (Token.of(source, GtidSet.parse(f"{A}:1-9"), committed_at=at) for source, at in (("s", 10), ("t", 15)))
    assert soon.compare(late) is Order.UNKNOWN
    assert (soon.compare(late, clock_bound=4), late.compare(soon, clock_bound=4)) == (Order.BEFORE, Order.AFTER)
    assert soon.compare(late, clock_bound=5) is Order.UNKNOWN
    unknown = Token.of("t", GtidSet())
    assert soon.compare(unknown, clock_bound=0) is Order.UNKNOWN


# Written by the first version that had them; they open for ever.
WRITTEN = {
    "v1.f6GhtJGUpHNob3CoM2UxMWZhNDfPAAZgwPm6fgCSAJGTxBA-EfpHccoR4Z4zyAqpQpVioJIBTQ": Token.of(
        "shop", GtidSet.parse(f"{A}:1-77"), lineage="3e11fa47", committed_at=1_795_231_800_000_000
    ),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_texts_of_every_version_open(text):
    assert from_text(text) == WRITTEN[text]
    assert text in (to_text(WRITTEN[text]), former_text(WRITTEN[text]))


def packed(value) -> str:
    """A text of the first version."""
    return f"v1.{sealed(value)[1]}"


def headed(forms, numbers, *, uuids=1, used=(), parts=()) -> str:
    """A text of the present version with these forms and numbers."""
    fronts = [found for form in forms for found in (0, msgspec.msgpack.encode(form))]
    head = msgspec.msgpack.encode([bytes(16) * uuids, used, fronts, parts])
    return seal(f"v4.{base64.urlsafe_b64encode(head).decode().rstrip('=')}.{''.join(map(digits, numbers))}")


def test_a_text_that_is_made_by_hand_opens():
    """What the texts below differ from."""
    [place] = from_text(headed([[[1], [], "", "s"]], [1, 9, 5, 3], parts=[[0, 0, 1, 1]])).positions
    zero = str(UUID_TYPE(int=0))
    assert place == SourcePosition(
        "s", GtidSet.parse(f"{zero}:1-9"), "", 5, (PartialTransaction(Gtid(Sid(zero), 10), 3),)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (headed([{"source": "s"}], []), "Expected `array`, got `object`"),
        (headed([[2, [], "", "s"]], [5, 1, 0], uuids=0), "Expected `int` <= 1"),
        (
            headed([[0, [], "", "s"]], [5, 1, 0, 1], uuids=0, parts=[[0, 0, 0, 0]]),
            "that the position has",
        ),
        (
            headed([[0, [], "", "s"]], [5, 1, 0, 1], uuids=0, parts=[[0, 2, 0, 1]]),
            "that the position has",
        ),
        (
            headed([[0, [], "", "s"]], [5, 1, 0, 1], uuids=0, parts=[[0, 0, 1, 1]]),
            "that the position has",
        ),
        (headed([[[], [], "", ""]], [0], uuids=0), "Expected `str` of length >= 1"),
        (headed([[[], [], "", "s"]], [10**18], uuids=0), "is more than"),
        (headed([[[], [], "", "s"]], [1 << 65], uuids=0), "a number is too long"),
        (headed([[[], [], "", "s"]], [], uuids=0), "a number is missing"),
        (headed([[[], [], "", "s"]], [0, 0], uuids=0), "has another form"),
        (headed([[[], [], "", "s"]], [0]), "has another form"),
        (headed([[[], [], "", "s", 1]], [0], uuids=0), "Expected `array` of"),
        (headed([[[0], [], "", "s"]], [0]), "Expected `int` >= 1"),
        (headed([[[1], [], "", "s"]], [1, 9, 0], uuids=0), "a UUID is missing"),
        (headed([[[1], [], "", "s"]], [1, 9, 0], used=[1]), "a UUID is missing"),
        (headed([[[1], [], "", "s"]], [1, 9, 0], used=[0]), "has another form"),
        (headed([[[1], [], "", "s"]], [0, 9, 0]), "a span has no end"),
        (headed([[[1], [], "", "s"]], [9, 1, 0]), "or runs backwards"),
        (headed([[[2], [], "", "s"]], [1, 2, 3, 4, 0]), "is not in order"),
        (headed([[[["", 1]], [], "", "s"]], [1, 2, 0]), "has another form"),
        (headed([[[["A b", 1]], [], "", "s"]], [1, 2, 0]), "Expected `str` matching"),
        (headed([[[1, 1], [], "", "s"]], [1, 2, 1, 2, 0], uuids=1, used=[0, 0]), "is not in order"),
        (headed([[[], [], "", "t"], [[], [], "", "s"]], [0, 0], uuids=0), "has another form"),
        (headed([[[], [], "", "s"], [[], [], "", "s"]], [0, 0], uuids=0), "has another form"),
        (headed([["binlog", [], "", "s"]], [4, 0]), "not the name of a binlog file"),
        (headed([["a/binlog.1", [], "", "s"]], [4, 0]), "has a folder"),
        (headed([[[1], [], "", "s"]], [1, 9, 0, 3], parts=[[1, 0, 1, 1]]), "a source that the token does not have"),
        (headed([[[1], [], "", "s"]], [1, 9, 0, 3], parts=[[0, 1, 1, 1]]), "a server that the position does not have"),
        (headed([[[1], [], "", "s"]], [1, 9, 0, 3], parts=[[0, 0, 2, 1]]), "a server that the position does not have"),
        (headed([[[1], [], "", "s"]], [1, 9, 0, 3], parts=[[0, 0, 0, 10]]), "has another form"),
        (headed([[[1], [], "", "s"]], [1, 9, 0, 3], parts=[[0, 0, 1, 0]]), "another kind than the position"),
        (headed([["b.1", [], "", "s"]], [4, 0, 3], parts=[[0, 0, 0, 1]]), "has another form"),
        (headed([[[1], [], "", "s"]], [1, 9, 0, 1 << 45], parts=[[0, 0, 1, 1]]), "is more than"),
        (headed([[[1], [["o", "", None], ["o", "", None]], "", "s"]], [1, 9, 0]), "is not in order"),
    ],
)
def test_what_is_sealed_and_no_token_is_refused(text, message):
    with pytest.raises(InvalidTokenError, match=re.escape(message)) as caught:
        from_text(text)
    assert "\n" not in str(caught.value)


UUID = bytes(16)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an event token"),
        ("shop", "is not an event token"),
        (f"{A}:1-77", "is not an event token"),
        ("v1.", "is not an event token"),
        ("v1.AAAA", "is cut or damaged"),
        ("v1.A", "is cut or damaged"),
        ("v2.AAAA", "is cut or damaged"),
        ("v3.AAAA", "is cut or damaged"),
        ("v4.AAAA", "is cut or damaged"),
        ("v4.A.A", "is cut or damaged"),
        ("v4.AAAA.AAAAAA", "is cut or damaged"),
        ("v4.AAAA.AAAAAA.1", "is cut or damaged"),
        ("v5.AAAA.AAAAAA", "is an event token of version v5"),
        (packed({"source": "s"}), "Expected `array`, got `object`"),
        (packed([["", "", 0, [0, []]]]), "Expected `str` of length >= 1"),
        (packed([["s", "", -1, [0, []]]]), "Expected `int` >= 0"),
        (packed([["s", "", 10**18, [0, []]]]), "Expected `int` <"),
        (packed([["s", "", 0, [2, []]]]), "Invalid value 2"),
        (packed([["s", "", 0, [0, []], 1]]), "Expected `array` of"),
        (packed([["s", "", 0, [0, [[b"short", "", [1, 2]]]]]]), "Expected `bytes` of length"),
        (packed([["s", "", 0, [0, [[UUID, "", [0, 2]]]]]]), "Expected `int` >= 1"),
        (packed([["s", "", 0, [0, [[UUID, "A b", [1, 2]]]]]]), "Expected `str` matching"),
        (packed([["s", "", 0, [0, [[UUID, "", [1, 2, 3]]]]]]), "a span has no end"),
        (packed([["s", "", 0, [0, [[UUID, "", [1, 2, 3, 4]]]]]]), "is not in order"),
        (packed([["s", "", 0, [0, [[UUID, "", [2, 1]]]]]]), "or runs backwards"),
        (packed([["s", "", 0, [0, [[UUID, "", [1, 2]], [UUID, "", [1, 2]]]]]]), "is not in order"),
        (packed([["t", "", 0, [0, []]], ["s", "", 0, [0, []]]]), "has another form"),
        (packed([["s", "", 0, [0, []]], ["s", "", 0, [0, []]]]), "has another form"),
        (packed([["s", "x", 0, [0, []]], ["s", "y", 0, [0, []]]]), "has another form"),
        (packed([["s", "", 0, [1, UUID, "binlog", 4]]]), "not the name of a binlog file"),
        (packed([["s", "", 0, [1, UUID, "a/binlog.1", 4]]]), "has a folder"),
    ],
)
def test_what_is_no_token_is_refused_in_one_line(text, message):
    with pytest.raises(InvalidTokenError, match=re.escape(message)) as caught:
        from_text(text)
    assert "\n" not in str(caught.value)


# The server ---------------------------------------------------------------------------------------


@pytest.mark.mysql
def test_the_server_says_the_same(mysql_server):
    chance = random.Random(12)
    connection = mysql_server.connect()
    seen = set()
    with connection.cursor() as cursor:
        for _ in range(150):
            one, other = random_set(chance), random_set(chance)
            for left, right in ((one, other), (one, one | other), (one | other, other), (one, one)):
                cursor.execute(
                    "SELECT GTID_SUBSET(%s, %s), GTID_SUBSET(%s, %s), GTID_SUBTRACT(%s, '')",
                    (str(left), str(right), str(right), str(left), f"{left},{right}".strip(",")),
                )
                inside, around, both = cursor.fetchone()
                order = Token.of("s", left).compare(Token.of("s", right))
                seen.add(order)
                assert (order in AT_OR_BEFORE, FLIPPED[order] in AT_OR_BEFORE) == (bool(inside), bool(around))
                assert Token.of("s", left) | Token.of("s", right) == Token.of("s", GtidSet.parse(both))
    connection.close()
    assert seen == set(Order)


def test_a_token_is_printed_as_its_text():
    token = Token.of("shop", GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"))
    assert str(token) == to_text(token) == f"{token}"
