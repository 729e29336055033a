"""Behind damage reading goes on at the next transaction, and what may be lost is known."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.salvage import find_whole_transactions
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.errors import CorruptEventError
from tests.binlog.binlogs import Binlog
from tests.binlog.test_transactions import MIXED


@pytest.fixture(scope="module")
def records():
    with open_binlog(MIXED) as binlog:
        return list(read_transactions(binlog))


def stretches_of(data, tmp_path):
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    with open_binlog(path) as binlog:
        return list(find_whole_transactions(binlog))


def test_a_sound_file_is_one_stretch(records, tmp_path):
    [stretch] = stretches_of(MIXED.read_bytes(), tmp_path)
    assert (stretch.begin, stretch.transactions, stretch.damage) == (4, len(records), None)


def test_damage_costs_the_transaction_that_it_is_in_and_no_other(records, tmp_path):
    data, dice = MIXED.read_bytes(), random.Random(5)
    for at, record in enumerate(records):
        is_last = at + 1 == len(records)
        for offset in {record.begin + 9, *dice.sample(range(record.begin, record.end), 12)}:
            damaged = bytearray(data)
            damaged[offset] ^= 1 << dice.randrange(8)
            before, *rest = stretches_of(damaged, tmp_path)
            assert before.transactions == at
            assert isinstance(before.damage.error, CorruptEventError)
            # In front of the first transaction stand the events that head the file, behind the last one a ROTATE.
            assert before.damage.begin == (record.begin if at else 4)
            assert before.damage.end in ((record.end, len(data)) if is_last else (record.end,))
            assert before.damage.gtid in (record.gtid, None)
            assert sum(one.transactions for one in rest) == len(records) - at - 1
            assert all(one.damage is None for one in rest)
            if record.ddl_offsets:
                assert before.damage.may_hide_ddl


def test_damage_behind_the_first_announcement_of_rows_hides_no_ddl(records, tmp_path):
    data = MIXED.read_bytes()
    plain = next(r for r in records if r.tables and not r.ddl_offsets and len(r.tables) == 1)
    damaged = bytearray(data)
    damaged[plain.end - 40] ^= 1
    damage = stretches_of(damaged, tmp_path)[0].damage
    assert not damage.may_hide_ddl
    assert damage.gtid == plain.gtid


def test_two_transactions_that_are_lost_together_may_hide_anything(records, tmp_path):
    data = bytearray(MIXED.read_bytes())
    first, second = next((a, b) for a, b in pairwise(records) if a.tables and b.tables)
    data[first.begin + 25] ^= 1
    data[second.begin + 25] ^= 1
    damage = stretches_of(data, tmp_path)[0].damage
    assert damage.end == second.end
    assert damage.may_hide_ddl


def test_a_file_that_is_cut_off_is_damaged_up_to_its_end(records, tmp_path):
    last = records[-1]
    [stretch] = stretches_of(MIXED.read_bytes()[: last.end - 3], tmp_path)
    assert (stretch.transactions, stretch.damage.begin) == (len(records) - 1, last.begin)
    assert stretch.damage.end == last.end - 3


def test_bytes_that_are_gone_from_the_middle(records, tmp_path):
    data, victim = MIXED.read_bytes(), records[3]
    cut = data[: victim.begin + 30] + data[victim.begin + 40 :]
    before, after = stretches_of(cut, tmp_path)
    assert (before.transactions, after.transactions) == (3, len(records) - 4)
    assert after.begin == victim.end - 10


def test_a_binlog_inside_a_blob_is_no_transaction(tmp_path):
    """Its events are sound, checksums and all; only their place in the server's file is another."""
    inner, outer = Binlog(), Binlog()
    inner.previous()
    inner.insert(77, [7])
    outer.previous()
    outer.insert(1, [1])
    damaged = len(outer.data) + 30
    outer.gtid(2)
    outer.query("BEGIN")
    outer.table_map()
    at = outer.event(30, bytes(10) + bytes(inner.data))
    outer.xid()
    following = outer.insert(3, [3])
    data = bytearray(outer.data)
    data[damaged] ^= 1
    data[at + 21] ^= 1
    before, after = stretches_of(data, tmp_path)
    assert before.damage.end == after.begin == following
    assert (before.transactions, after.transactions) == (1, 1)
