"""The walk finds the same statements however the stream is cut, and refuses damage."""

from __future__ import annotations

import random

import pytest

from strata.errors import ChecksumError
from strata.events.transactions import ddl_events, read_transactions
from strata.gtid.sets import GtidSet
from strata.jobs.watch.walk_ddl import StatementWalk
from strata.wire.files import open_binlog
from strata.wire.frames import index_events

pytestmark = pytest.mark.mysql

LIFE = """
CREATE TABLE t (a INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, REPEAT('x', 5000)), (2, 'y');
SET binlog_transaction_compression = ON; CREATE TABLE u AS SELECT * FROM t; UPDATE t SET a = a + 2;
ALTER TABLE u ADD c INT; SET binlog_transaction_compression = OFF; SET gtid_next = 'automatic:tagged';
CREATE TABLE v AS SELECT a FROM t; BEGIN; INSERT INTO v VALUES (9); DELETE FROM t; COMMIT;
SET binlog_format = STATEMENT; BEGIN; INSERT INTO v VALUES (10); UPDATE v SET a = 11; COMMIT;
DROP TABLE t, u, v;
"""
WHOLE = 1 << 30


@pytest.fixture(scope="module")
def binlog(mysql_server):
    """A file with a life of its own, and the statements that the reader of files finds in it."""
    mysql_server.run_sql("DROP DATABASE IF EXISTS walked; CREATE DATABASE walked; FLUSH BINARY LOGS")
    mysql_server.run_sql(LIFE, "walked")
    mysql_server.run_sql("FLUSH BINARY LOGS")
    with open_binlog(mysql_server.binlogs()[-2]) as file:
        records = list(read_transactions(file))
        expected = [
            (str(record.gtid), tuple(one.query.statement for one in ddl_events(file, record)))
            for record in records
            if record.ddl_offsets
        ]
        # The stream's FORMAT_DESCRIPTION, PREVIOUS_GTIDS and ROTATE do not come as bytes.
        yield file, records, expected


def walk(binlog, sizes):
    """What a walk finds in pieces of these sizes, and up to where it has come."""
    file, records, _ = binlog
    found = StatementWalk(GtidSet())
    found.start_file(file.format)
    data = file.buffer[records[0].begin : records[-1].end].tobytes()
    stated, at = [], 0
    while at < len(data):
        size = next(sizes)
        stated += found.take(memoryview(data[at : at + size]))
        at += size
    return stated, found.executed()


@pytest.mark.parametrize("most", [1, 40, 1000, WHOLE])
def test_the_same_in_pieces_of_any_size(binlog, most):
    choose = random.Random(most)
    stated, executed = walk(binlog, iter(lambda: most if most in (1, WHOLE) else choose.randint(1, most), 0))
    _, records, expected = binlog
    assert [(str(one.gtid), tuple(query.statement for query in one.queries)) for one in stated] == expected
    assert len(expected) >= 6
    assert any(":tagged:" in gtid for gtid, _ in expected)
    assert all(executed.contains(record.gtid) for record in records)
    assert executed.count() == len(records)
    before = GtidSet()
    for one in stated:
        # Up to and with it, and nothing behind it.
        assert one.executed.contains(one.gtid)
        assert before < one.executed
        before = one.executed
    assert stated[0].executed.count() == 1


def test_damage_is_refused(binlog):
    file, records, _ = binlog
    walked = StatementWalk(GtidSet())
    walked.start_file(file.format)
    index = index_events(file.buffer, records[1].begin, records[1].end, file.format)
    data = bytearray(file.buffer[records[0].begin : records[1].end].tobytes())
    data[int(index.positions[-2]) + 30 - records[0].begin] ^= 0xFF
    with pytest.raises(ChecksumError):
        list(walked.take(memoryview(bytes(data))))
