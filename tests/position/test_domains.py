"""MariaDB's positions: one number for each domain, with a dictionary as the witness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.errors import InvalidGtidSetError
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import NOTHING, ExecutedBuilder, parse_executed
from strata_cdc.position.sets import Gtid, GtidSet
from strata_cdc.position.source_position import PartialTransaction, SourcePosition
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import from_text, to_text
from tests.position.domain_positions import domain_gtids

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
streams = st.lists(domain_gtids, max_size=8)


def newest(stream: list[Gtid]) -> dict[int, int]:
    """The newest number of each domain."""
    found: dict[int, int] = {}
    for gtid in stream:
        found[gtid.sid.domain] = max(gtid.gno, found.get(gtid.sid.domain, 0))
    return found


def position(stream: list[Gtid]) -> DomainSet:
    return DomainSet.parse(",".join(map(str, stream)))


@given(streams, streams)
def test_domains_alone_are_compared(one, other):
    mine, theirs = newest(one), newest(other)
    assert (position(one) == position(other)) == (mine == theirs)
    assert (position(one) <= position(other)) == all(gno <= theirs.get(domain, 0) for domain, gno in mine.items())
    assert (position(one) < position(other)) == (mine != theirs and position(one) <= position(other))
    assert hash(position(one + other)) == hash(position(other + one))


@given(streams, streams, domain_gtids)
def test_the_algebra_is_that_of_numbers(one, other, gtid):
    mine, theirs = position(one), position(other)
    assert newest(one + other) == newest([Gtid.parse(text) for text in str(mine | theirs).split(",") if text])
    assert (mine | theirs) == (theirs | mine)
    assert str(mine | theirs) == str(theirs | mine)
    assert (mine - theirs).contains(gtid) == (mine.contains(gtid) and not theirs.contains(gtid))
    assert (mine & theirs).contains(gtid) == (mine.contains(gtid) and theirs.contains(gtid))
    assert bool(mine - theirs) == (not mine <= theirs)
    assert mine.add(gtid).contains(gtid)
    assert mine <= mine.add(gtid)


@given(streams, domain_gtids)
def test_texts_read_back(stream, gtid):
    mine = position(stream)
    for known in (mine, mine - position([gtid])):
        assert DomainSet.parse(str(known)) == known
    assert parse_executed(str(mine)) == (mine or NOTHING)
    assert Gtid.parse(str(gtid)) == gtid


@given(streams, domain_gtids)
def test_a_builder_is_of_the_family_of_its_stream(stream, gtid):
    builder = ExecutedBuilder()
    for known in stream:
        builder.add(known)
    assert builder.build() == (position(stream) or NOTHING)
    assert builder.contains(gtid) == position(stream).contains(gtid)
    assert ExecutedBuilder(position(stream)).build() == builder.build()


def test_the_newest_entry_of_a_domain_counts_as_in_the_list_of_a_file():
    assert str(DomainSet.parse("5-2-9,0-1-7,0-3-12,0-2-9")) == "0-3-12,5-2-9"


def test_nothing_is_below_every_position():
    mine = DomainSet.parse("0-1-7")
    assert mine >= NOTHING
    assert NOTHING | mine == mine | NOTHING == mine
    assert mine - NOTHING == mine
    assert not NOTHING - mine
    assert not mine <= NOTHING
    assert str(parse_executed("")) == ""


def test_two_families_are_not_mixed():
    of_mysql, of_mariadb = ExecutedBuilder(GtidSet.parse(f"{A}:1")), ExecutedBuilder(DomainSet.parse("0-1-7"))
    with pytest.raises(InvalidGtidSetError, match="the stream is of a MySQL server"):
        of_mysql.add(Gtid.parse("0-1-8"))
    with pytest.raises(InvalidGtidSetError, match="the stream is of such a server"):
        of_mariadb.add(Gtid.parse(f"{A}:2"))
    assert not of_mysql.contains(Gtid.parse("0-1-1"))
    assert not of_mariadb.contains(Gtid.parse(f"{A}:1"))
    assert DomainSet().counted != GtidSet().counted


@pytest.mark.parametrize("text", ["0-1", "0-1-x", "0-1-7-2", "4294967296-1-1", "0-1-18446744073709551616", "0-1-7;"])
def test_what_is_no_position_is_refused(text):
    with pytest.raises(InvalidGtidSetError):
        DomainSet.parse(text)


@given(domain_gtids)
def test_a_token_inside_the_first_transaction_of_all_is_read(gtid):
    """Former versions wrote the position before it as one of no family."""
    for nothing in (NOTHING, DomainSet()):
        part = PartialTransaction(gtid, 1)
        token = Token((SourcePosition("s", nothing, parts=(part,)),))
        assert from_text(to_text(token)) == token
