"""What every kind of position has to do: the laws of `position/port.py`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.commit_ts import CommitStep, CommitTs
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import Gtid, GtidSet, Sid
from tests.changes.json_folder import CommitNumber
from tests.position.domain_positions import domain_gtids, domains
from tests.position.test_sets import A, B, sets

offsets = st.builds(BinlogPosition.from_offset, st.sampled_from(["binlog.999999", "binlog.1000000"]), st.integers(4, 9))
commit_steps = st.builds(CommitStep, st.integers(1, 5), st.booleans())
KINDS = {
    "GTID set": (sets, st.builds(Gtid, st.sampled_from([Sid(A), Sid(B)]), st.integers(1, 12))),
    "domains": (domains, domain_gtids),
    "file and offset": (st.builds(FilePosition, st.just(A), offsets), offsets),
    "commit timestamp": (commit_steps.map(lambda at: CommitTs(at, 2 * at.ts + at.is_ddl)), commit_steps),
    "number of a commit": (st.builds(CommitNumber, st.just("feed"), st.integers(0, 9)), st.integers(1, 10)),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_positions_of_one_kind_are_a_lattice(kind, data):
    positions, transactions = KINDS[kind]
    one, two, three = (data.draw(positions) for _ in range(3))
    transaction = data.draw(transactions)
    assert (one <= two <= one) == (one == two)
    assert not (one <= two <= three) or one <= three
    both = one | two
    assert one <= both
    assert two <= both
    assert not (one <= three and two <= three) or both <= three
    assert both.contains(transaction) == (one.contains(transaction) or two.contains(transaction))
    assert not (one <= two and one.contains(transaction)) or two.contains(transaction)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_positions_that_count_one_thing_say_so(kind, data):
    one, two = (data.draw(KINDS[kind][0]) for _ in range(2))
    assert one.counted == two.counted
    assert one.is_shared == two.is_shared
    # Who wrote the newest transaction of a domain is shown, and is no part of the position.
    assert one.describe() != two.describe() or one == two


def test_positions_of_two_kinds_or_of_two_servers_count_other_things():
    at = BinlogPosition.from_offset("binlog.000001", 4)
    counted = {FilePosition(A, at).counted, FilePosition(B, at).counted, GtidSet().counted, DomainSet().counted}
    assert len(counted | {CommitTs(CommitStep(1)).counted}) == 5
