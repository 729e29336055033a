"""What is done with many transactions at once is what is done with them one by one: which of them a reader gets, where
a stream ends, and the texts of their tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strata_cdc.binlog.sources.port import Transactions
from strata_cdc.changes.lines import ComposedTexts, LineColumn
from strata_cdc.changes.token_texts import GrowingTokens, Growth, TokenEnds, TokensAfter, TokensInside
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import Gtid, GtidSet, GtidSetBuilder, Sid
from strata_cdc.position.source_position import PartialTransaction, SourcePosition
from strata_cdc.position.token import Token
from strata_cdc.position.token_packed import growing, packed_source_position
from strata_cdc.position.token_seal import StepTexts
from strata_cdc.position.token_text import to_text
from strata_cdc.streams.events import Along
from strata_cdc.streams.positions import Begin, End
from strata_cdc.streams.positions_along import ExecutedAlong
from strata_cdc.streams.source_tokens import source_tokens
from strata_cdc.streams.transaction_texts import texts_of_transactions
from strata_cdc.streams.transactions import StreamTransactions
from tests.position.test_sets import A, B, sets
from tests.streams.batches import BYTES, batch_of_gtids

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = 1_795_231_800_000_000

gtids = st.builds(Gtid, st.sampled_from([Sid(A), Sid(B)]), st.integers(1, 9))
batches = st.builds(
    lambda found, file, first: batch_of_gtids(
        found, [100 + 10 * at for at in range(len(found))], first_seq=7, binlog_file=f"b.{file:06}", first_pos=first
    ),
    st.lists(gtids, min_size=1, max_size=6, unique_by=str),
    st.integers(1, 3),
    st.integers(4, 9),
)
positions = (
    sets
    | st.builds(lambda file, at: BinlogPosition.from_offset(f"b.{file:06}", at), st.integers(1, 3), st.integers(4, 70))
    | st.integers(95, 160).map(lambda at: EPOCH + timedelta(microseconds=at))
)


@given(batches, positions | st.none(), st.integers(0, 6))
def test_a_reader_gets_those_that_are_behind_his_position(batch, bound, first):
    begin, first = Begin.from_bound(bound), min(first, len(batch))
    found = begin.rows(batch, first, len(batch)).tolist()
    assert found == [row for row, record in enumerate(batch.records()) if row >= first and is_behind(bound, record)]
    assert [batch.record(row) for row in range(len(batch))] == list(batch.records())


def is_behind(bound, record):
    """Whether a transaction comes after a position."""
    if isinstance(bound, datetime):
        return record.committed_at >= (bound - EPOCH) // timedelta(microseconds=1)
    if isinstance(bound, BinlogPosition):
        return BinlogPosition.from_offset(record.binlog_file, record.binlog_pos) >= bound
    return bound is None or not bound.contains(record.gtid)


def ends_at(bound, had, batch, first):
    """Row behind the last that is given, one transaction after the other."""
    left = (bound - had).count() if isinstance(bound, GtidSet) else 0
    for row, record in list(enumerate(batch.records()))[first:]:
        at = BinlogPosition.from_offset(record.binlog_file, record.binlog_pos)
        if isinstance(bound, datetime):
            in_front, last = record.committed_at >= (bound - EPOCH) // timedelta(microseconds=1), False
        elif isinstance(bound, BinlogPosition):
            in_front = at >= bound
            last = BinlogPosition.from_offset(record.binlog_file, record.binlog_pos + BYTES) >= bound
        elif isinstance(bound, GtidSet):
            left -= bound.contains(record.gtid) and not had.contains(record.gtid)
            in_front, last = False, left <= 0
        else:
            in_front, last = record.seq > bound, record.seq >= bound
        if in_front or last:
            return row + (not in_front)
    return None


@given(batches, positions | st.integers(1, 15), sets, st.integers(0, 5))
def test_a_stream_ends_where_it_would_one_transaction_after_the_other(batch, bound, had, first):
    end, first = End.from_bound(bound), min(first, len(batch) - 1)
    assert end.stop(batch, first, had) == ends_at(bound, had, batch, first)


def test_the_steps_that_a_reader_has_are_found():
    batch = batch_of_gtids([Gtid(Sid(A), 5), Gtid(Sid(A), 6)], [1, 2], first_seq=3)
    inside = SourcePosition(
        "s",
        GtidSet.parse(f"{A}:1-5"),
        "",
        0,
        (PartialTransaction(Gtid(Sid(A), 6), 4), PartialTransaction(Gtid(Sid(B), 6), 9)),
    )
    assert Begin.from_bound(inside).steps_given(batch) == {4: 4}
    at, elsewhere = BinlogPosition.from_offset("b.000002", 4 + BYTES), BinlogPosition.from_offset("b.000002", 5)
    inside_here = SourcePosition("s", FilePosition(A, at), parts=(PartialTransaction(at, 3),))
    assert Begin.from_bound(inside_here).steps_given(batch) == {4: 3}
    inside_elsewhere = SourcePosition("s", FilePosition(A, elsewhere), parts=(PartialTransaction(elsewhere, 3),))
    assert Begin.from_bound(inside_elsewhere).steps_given(batch) == {}


# Texts --------------------------------------------------------------------------------------------------


def row_tokens(inside, chosen, steps):
    columns = [LineColumn(inside, chosen), LineColumn(TokenEnds(inside, chosen, steps))]
    return cut(ComposedTexts(columns, len(steps)).made)


def cut(texts):
    return [texts.data[a:b].tobytes().decode() for a, b in zip(texts.starts[:-1], texts.starts[1:], strict=True)]


@pytest.mark.parametrize(
    ("executed", "first", "many"),
    [
        (f"{A}:1-9", f"{A}:10", 300),
        (f"{B}:1-5,{A}:3-65500:70000-70010", f"{A}:65501", 90),
        (f"{A}:1-{2**32 - 5},{B}:tag:1-2:9-10", f"{A}:{2**32 - 4}", 9),
        (f"{A}:1-2,{B}:tag:1-2:9-10:900", f"{B}:tag:11", 200),
    ],
)
def test_tokens_of_successive_transactions(executed, first, many):
    place, gtid = SourcePosition("shop", GtidSet.parse(executed), "first"), Gtid.parse(first)
    known = growing(place, gtid)
    assert known is not None
    at, limit = known
    assert limit > gtid.gno + many
    numbers, times = np.arange(gtid.gno, gtid.gno + many), NOW + np.arange(many) * 1_000_003
    times[2] = 0

    def growths(numbers):
        return {0: Growth(at, numbers, times)}

    inside = replace(place, parts=(PartialTransaction(gtid, 1),))
    after = cut(TokensAfter([GrowingTokens([packed_source_position(place)], growths(numbers))]).made)
    heads = TokensInside([GrowingTokens([packed_source_position(inside)], growths(numbers - 1))])
    steps = np.arange(many) * 7 + 1
    rows = row_tokens(heads, np.arange(many), steps)
    before = place.position
    for number, token, row, step, when in zip(
        numbers.tolist(), after, rows, steps.tolist(), times.tolist(), strict=True
    ):
        mine = Gtid(gtid.sid, number)
        here = SourcePosition("shop", before, "first", when, (PartialTransaction(mine, step),))
        assert row == to_text(Token((here,))) == StepTexts(here).text(step)
        before = before.add(mine)
        assert token == to_text(Token.of("shop", before, lineage="first", committed_at=when))


def test_a_position_that_does_not_grow_is_not_taken_for_one():
    gtid = Gtid(Sid(A), 10)
    assert growing(SourcePosition("s", GtidSet()), gtid) is None
    assert growing(SourcePosition("s", GtidSet.parse(f"{A}:1-8")), gtid) is None
    assert growing(SourcePosition("s", FilePosition(A, BinlogPosition.from_offset("b.000002", 4))), gtid) is None


LONG = st.lists(
    st.tuples(st.sampled_from([A, B]), st.integers(1, 90), st.sampled_from([0, 0, 0, 1, 5])), min_size=1, max_size=5
)
"""Runs of transactions: whose, how many, and how many numbers are left out in front of them."""


@settings(max_examples=25)
@given(LONG, sets, st.integers(0, 30), st.sampled_from([{}, {"old": "x"}, {"old": "", "older": "y"}]))
def test_texts_of_many_are_those_of_each(runs, executed, left_out, copied_from):
    last = {sid.uuid: spans[-1][1] for sid, spans in executed.items()}
    made: list[Gtid] = []
    for uuid, many, gap in runs:
        begin = last.get(uuid, 0) + 1 + gap
        made += [Gtid(Sid(uuid, ""), number) for number in range(begin, begin + many)]
        last[uuid] = begin + many - 1
    batch = batch_of_gtids(made, [NOW + 777 * at for at in range(len(made))], first_seq=5)
    item = Transactions(batch, lambda: None, lambda: None, is_landed=True)
    rows = np.flatnonzero(np.arange(len(made)) % 31 != left_out)

    def positions():
        return StreamTransactions(Along("shop", "first", ExecutedAlong(executed, batch, 0), copied_from), item, rows)

    seqs = rows + 5
    tokens, alone = source_tokens(positions(), seqs), positions()
    many = texts_of_transactions(positions(), seqs, tokens)
    assert cut(ComposedTexts(many.gtids, len(seqs)).made) == [f'"{made[row]}"' for row in rows]
    thirds = many.gtids_of(np.arange(0, len(seqs), 3))
    some = texts_of_transactions(positions(), seqs[::3], source_tokens(positions(), seqs[::3]))
    for columns in (thirds, some.gtids):
        assert cut(ComposedTexts(columns, len(seqs[::3])).made) == [f'"{made[row]}"' for row in rows[::3]]
    assert cut(tokens.after.made) == [alone[seq].after_text for seq in seqs.tolist()]
    rows_of_each = [alone[seq].steps.text(seq) for seq in seqs.tolist()]
    assert row_tokens(tokens.inside, np.arange(len(seqs)), seqs) == rows_of_each
    alike = texts_of_transactions({seq: alone[seq] for seq in seqs.tolist()}, seqs, tokens)
    assert cut(ComposedTexts(many.gtids, len(seqs)).made) == cut(ComposedTexts(alike.gtids, len(seqs)).made)
    assert many.source == alike.source == ("shop" if len(seqs) else "")
    assert cut(many.times.made) == cut(alike.times.made)
    assert many.statements.tolist() == alike.statements.tolist() == [0] * len(rows)
    builder = GtidSetBuilder(executed)
    for row, gtid in enumerate(made):
        builder.add(gtid)
        if row in rows:
            assert alone[row + 5].after.position == builder.build()
