"""Which anonymous transactions touch, and which leave room for one that did not land."""

from __future__ import annotations

import pytest

from strata_cdc.binlog.events.model import TransactionRecord
from strata_cdc.landing.continuity import Continuity
from strata_cdc.position.sets import Gtid, Sid

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(file: str, position: int, size: int = 100, *, begin: int = 9_000, gno: int = 0) -> TransactionRecord:
    gtid = Gtid(Sid(UUID), gno) if gno else None
    return TransactionRecord(1, gtid, begin, begin + size, file, position, 0, 0, (), (), ())


@pytest.mark.parametrize(
    ("records", "broken_at"),
    [
        ([], None),
        ([at("b.000001", 157), at("b.000001", 257, 50), at("b.000001", 307)], None),
        ([at("b.000001", 157), at("b.000001", 258), at("b.000001", 400)], "b.000001:258"),
        ([at("b.000001", 157), at("b.000001", 157)], "b.000001:157"),
        ([at("b.999999", 800), at("b.1000000", 158, begin=158)], None),
        ([at("b.000001", 800), at("b.000004", 158, begin=158)], None),
        ([at("b.000001", 800), at("b.000002", 258, begin=158)], "b.000002:258"),
        ([at("b.000002", 800), at("b.000001", 158, begin=158)], "b.000001:158"),
        ([at("b.000001", 157, gno=7), at("c.000001", 900, gno=8), at("c.000001", 1000)], None),
        ([at("b.000001", 157, gno=7), at("b.000001", 300)], "b.000001:300"),
    ],
)
def test_what_follows_what(records, broken_at):
    line = Continuity(None)
    assert list(line.follow(records)) == records
    assert line.broken_at == broken_at
    if records:
        rest = Continuity(records[0])
        list(rest.follow(records[1:]))
        assert rest.broken_at == broken_at
