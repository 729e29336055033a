"""The tokens of many transactions of a group at once are those of each: the witness goes from one to the next."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata_cdc.binlog.sources.port import Transactions
from strata_cdc.changes.lines import ComposedTexts, LineColumn
from strata_cdc.changes.token_texts import TokenEnds
from strata_cdc.groups.batch import GroupBatch
from strata_cdc.groups.batch_tokens import GroupBatchTokens
from strata_cdc.groups.chunks import SpanTransactions
from strata_cdc.groups.group_position import GroupPosition
from strata_cdc.groups.merge import Merge
from strata_cdc.position.sets import Gtid, GtidSet, GtidSetBuilder, Sid
from strata_cdc.position.source_position import PartialTransaction, SourcePosition, kept_origins
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from strata_cdc.streams.decoding import StreamBatch
from strata_cdc.streams.events import Along, Ddl
from strata_cdc.streams.positions_along import ExecutedAlong
from strata_cdc.streams.transactions import StreamTransactions
from tests.position.test_sets import A, B
from tests.streams.batches import batch_of_gtids
from tests.streams.test_transaction_columns import NOW, cut

COPY = "shard_2"
"""A source that holds what others had."""
STEP = 70
BASE = GtidSet.parse(f"{A}:1-9:400,{B}:1-3:10-11")


class Shard:
    """A source of a group: its transactions in pieces, and what is executed in front of each and behind."""

    def __init__(self, name: str, runs: list[tuple[str, int, int, int]], left_out: int) -> None:
        """Takes runs: who has numbered them, how many there are, how many numbers are left out in front of them, and
        how many ticks are between two of them; and which of all of them nobody wants."""
        self.name, made, self.times = name, list[Gtid](), list[int]()
        last, now = {A: 9, B: 11}, NOW
        for uuid, many, gap, ticks in runs:
            begin = last[uuid] + 1 + gap
            made += [Gtid(Sid(uuid, ""), number) for number in range(begin, begin + many) if number != 400]
            last[uuid] = begin + many
            self.times += [now + ticks * (at + 1) for at in range(len(made) - len(self.times))]
            now = self.times[-1]
        self.batch = batch_of_gtids(made, self.times, first_seq=5)
        item = Transactions(self.batch, lambda: None, lambda: None, is_landed=True)
        self.rows = np.flatnonzero(np.arange(len(made)) % 17 != left_out)
        copied = {"whole": "", "z": "third"} if name == COPY else {}
        self.places = StreamTransactions(
            Along(name, "first", ExecutedAlong(BASE, self.batch, 0), copied), item, self.rows
        )
        builder = GtidSetBuilder(BASE)
        self.executed = [BASE]
        for gtid in made:
            builder.add(gtid)
            self.executed.append(builder.build())

    def chunks(self, cuts: list[int], *, partly: bool) -> list[SpanTransactions]:
        """All of them, cut here and there; maybe inside of a transaction."""
        found = []
        borders = sorted({0, len(self.rows), *(at % (len(self.rows) + 1) for at in cuts)})
        for begin, end in pairwise(borders):
            part = StreamBatch(self.places, ended=self.rows[begin:end] + 5)
            if partly and end < len(self.rows):
                place = self.places[int(self.rows[end]) + 5]
                part.ddl = [Ddl(place, "TRUNCATE t", number, (), None) for number in (1, 2)]
            found.append(SpanTransactions(part))
        return found


def place_of(name: str, position: GtidSet, time: int = 0, parts: tuple[PartialTransaction, ...] = ()) -> SourcePosition:
    copied = {"whole": "", "z": "third"} if name == COPY else {}
    return SourcePosition(name, position, "first", time, parts, kept_origins(copied, position))


def witness(order: list[tuple[Shard, SpanTransactions, int]]) -> list[tuple[str, str]]:
    """What `of_columns` gives, from one transaction to the next."""
    places = {one.name: place_of(one.name, BASE) for one, _, _ in order}
    found = []
    for shard, chunk, at in order:
        row = int(chunk.rows[at])
        gtid, time = shard.batch.record(row).gtid, shard.times[row]
        inside = place_of(shard.name, shard.executed[row], time, (PartialTransaction(gtid, STEP),))
        text = to_text(Token.over({**places, shard.name: inside}.values()))
        given = 2 if chunk.given(at) else 0
        places[shard.name] = (
            place_of(shard.name, shard.executed[row], time, (PartialTransaction(gtid, given),))
            if given
            else place_of(shard.name, shard.executed[row + 1], time)
        )
        found.append((to_text(Token.over(places.values())), text))
    return found


def of_columns(batch: GroupBatch, many: int) -> list[tuple[str, str]]:
    """The token after each transaction, and that of a row of it."""
    found = dict[int, tuple[str, str]]()
    parts = batch.parts()
    for places in parts:
        tokens, count = GroupBatchTokens(batch, parts, many).of_part(places, places.seqs), len(places)
        own, inside = np.arange(count), tokens.inside
        rows = ComposedTexts([LineColumn(inside, own), LineColumn(TokenEnds(inside, own, np.full(count, STEP)))], count)
        columns = zip(places.ranks.tolist(), cut(tokens.after.made), cut(rows.made), strict=True)
        found |= {rank: texts for rank, *texts in columns}
    return [tuple(found[rank]) for rank in sorted(found)]


runs = st.lists(
    st.tuples(
        st.sampled_from([A, A, B]), st.integers(1, 60), st.sampled_from([0, 0, 0, 4]), st.sampled_from([0, 1, 9])
    ),
    min_size=1,
    max_size=3,
)
lives = st.lists(st.tuples(runs, st.integers(0, 30), st.lists(st.integers(0, 150), max_size=2)), min_size=1, max_size=3)


@settings(max_examples=30)
@example([([(A, 395, 0, 3)], 17, [70]), ([(A, 60, 0, 20), (B, 60, 0, 1)], 4, [])], True, [30, 31, 300])
# Nobody wants the last transaction of the other server: the position before the next one is not the one after the last.
@example([([(B, 5, 0, 1), (A, 60, 0, 1)], 4, [])], False, [])
@given(lives, st.booleans(), st.lists(st.integers(0, 500), max_size=3))
def test_tokens_of_many_are_those_of_each(lives, partly, cuts):
    shards = [Shard(f"shard_{at}", made, left_out) for at, (made, left_out, _) in enumerate(lives)]
    owners, merge = dict[int, Shard](), Merge[SpanTransactions](0)
    for shard, (_, _, mine) in zip(shards, lives, strict=True):
        merge.add(shard.name)
        for chunk in shard.chunks(mine, partly=partly):
            owners[id(chunk)] = shard
            merge.arrive(shard.name, chunk.times, chunk)
        merge.finish(shard.name)
    due = merge.due()
    order = [(owners[id(run.chunk)], run.chunk, at) for run in due for at in range(run.begin, run.end)]
    position = GroupPosition.from_positions(place_of(shard.name, BASE) for shard in shards if len(shard.rows))
    found: list[tuple[str, ...]] = []
    borders = sorted({0, len(due), *(at for at in cuts if at < len(due))})
    for begin, end in pairwise(borders):
        batch = GroupBatch(due.between(begin, end), position)
        found += of_columns(batch, many=2)
        one_by_one = [
            (places.ranks[at], place.after_text, place.steps.text(STEP))
            for places in batch.parts()
            for at, place in enumerate(places.values())
        ]
        assert [tuple(rest) for _, *rest in sorted(one_by_one)] == found[begin:end]
        position = batch.end
    assert found == witness(order)
    assert position.text == (found[-1][0] if found else position.text)


def test_a_whole_backlog_is_made_by_columns():
    """Not one place of its own, but for those at the seams."""
    shards = [Shard(f"shard_{at}", [(A, 390, 0, 3)], 17) for at in range(12)]
    merge = Merge[SpanTransactions](0)
    for shard in shards:
        merge.add(shard.name)
        for chunk in shard.chunks([200], partly=False):
            merge.arrive(shard.name, chunk.times, chunk)
        merge.finish(shard.name)
    batch = GroupBatch(merge.due(), GroupPosition.from_positions(place_of(shard.name, BASE) for shard in shards))
    slow = [one for one in GroupBatchTokens(batch, batch.parts()).segments if one.moving is None]
    assert sum(one.end - one.begin for one in slow) < 50
    assert len(batch.due) == 12 * 390
    assert len(of_columns(batch, many=48)) == 12 * 390
