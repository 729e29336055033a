"""Any interleaving of prepared transactions, cut in any way, gives each row where its XA COMMIT is, or not at all."""

from __future__ import annotations

from itertools import groupby, pairwise
from operator import itemgetter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.changes.decode import decode_slice
from strata_cdc.changes.plan import Slice, cut_slices
from strata_cdc.changes.port import ChangeBatch, Hole
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.landing.repair import repair_landing
from strata_cdc.pipeline.decode.decode_files import decode_files_physically
from strata_cdc.pipeline.decode.file_ranges import UndecidedRows
from strata_cdc.schema.history.versions import SchemaVersion
from strata_cdc.schema.model.definition import Column, TableDefinition
from tests.binlog.binlogs import SERVER, Binlog

XIDS = (b"a", b"b", b"c")
STEP = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 3)),
    st.tuples(st.sampled_from(("prepare", "commit", "rollback", "one phase")), st.sampled_from(XIDS)),
    st.tuples(st.sampled_from(("ddl", "file", "strange commit")), st.none()),
)
DEFINITION = TableDefinition((Column("a", "int", True, None),))


class Naive:
    """What a server does, one statement after the other."""

    def __init__(self) -> None:
        self.files: list[Binlog] = [Binlog()]
        self.files[0].previous()
        self.seq = 0
        self.rows: list[tuple[int, int, int]] = []
        """Ordinal of the transaction, of the row, and the value."""
        self.live: dict[bytes, tuple[int, list[int]]] = {}
        self.lost = 0
        self.values = 0

    def take(self, what: str, of) -> None:
        live = of in self.live
        if what == "file":
            self.files.append(Binlog())
            self.files[-1].previous(f"{SERVER}:1-{self.seq}" if self.seq else "")
        elif what == "insert":
            self._begin("BEGIN")
            self._commit(self._write(of))
            self.files[-1].xid()
        elif what == "ddl":
            self._begin("CREATE TABLE other (a INT)")
        elif what == "strange commit":
            self._begin("XA COMMIT X'ff',X'',1")
            self.lost += 1
        elif what in ("prepare", "one phase") and not live:
            text = f"X'{of.hex()}',X'',1"
            self._begin(f"XA START {text}")
            written = self._write(2)
            self.files[-1].query(f"XA END {text}")
            self.files[-1].xa_prepare(of, one_phase=what == "one phase")
            if what == "prepare":
                self.live[of] = self.seq, written
            else:
                self._commit(written)
        elif what in ("commit", "rollback") and live:
            self._begin(f"XA {what.upper()} X'{of.hex()}',X'',1")
            _, written = self.live.pop(of)
            if what == "commit":
                self._commit(written)

    def _begin(self, text: str) -> None:
        self.seq += 1
        # The clock of the server jumps back now and then.
        self.files[-1].gtid(self.seq, micros=1_000_000 * (self.seq - 3 * (self.seq % 4 == 0)) + 1_700_000_000_000_000)
        self.files[-1].query(text)

    def _write(self, count: int) -> list[int]:
        values = list(range(self.values, self.values + count))
        self.values += count
        if values:
            self.files[-1].table_map()
            self.files[-1].write(values[:1], last=False)
            self.files[-1].write(values[1:])
        return values

    def _commit(self, written: list[int]) -> None:
        self.rows += [(self.seq, row, value) for row, value in enumerate(written)]


def landed(lake, naive) -> LandedStream:
    folder = lake / "landing" / "s"
    folder.mkdir(parents=True)
    for ordinal, binlog in enumerate(naive.files, 1):
        (folder / str(SegmentName(ordinal, f"binlog.{ordinal:06d}", 127))).write_bytes(binlog.data)
    repair_landing(landing_folder(str(lake), "s"))
    return LandedStream.open(str(lake), "s")


def version(_table, seq: int) -> SchemaVersion:
    assert seq > 0
    return SchemaVersion(1, DEFINITION, "print", 0, None)


def rows_of(batch) -> list[tuple]:
    found = zip(*(batch.column(name).to_pylist() for name in ("_seq", "_row", "a", "_gtid")), strict=True)
    return [(seq, row, value, gtid) for seq, row, value, gtid in found]


def assert_as_naive(naive: Naive, stream: LandedStream, cuts: list[int], target: int) -> int:
    """Plans and decodes each interval between some cuts; returns how many slices that took."""
    marks = sorted({0, naive.seq, *(cut for cut in cuts if cut < naive.seq)})
    found, lost, slices = [], 0, 0
    for begin, end in pairwise(marks):
        placement, clock = PreparedPlacement(stream, begin, end), stream.clock_at(begin)
        in_interval = []
        for segment, records in groupby(stream.records(begin + 1, end), key=itemgetter(0)):
            placed = list(placement.place(segment, (record for _, record in records)))
            plan = cut_slices(placed, version, source="s", segment=segment.url, clock=clock, target_bytes=target)
            clock = placed[-1].committed_at
            assert plan.refused == ()
            slices += len(plan.slices)
            for piece in plan.slices:
                in_interval += decoded(stream, piece)
        assert all(begin < seq <= end for seq, *_ in in_interval)
        found += in_interval
        lost += len(placement.lost())
    assert found == [(*row, f"{SERVER}:{row[0]}") for row in naive.rows], "also in this order"
    assert lost == naive.lost
    held = {one.seq for one in stream.undecided_at(naive.seq).prepared()}
    assert held == {prepared for prepared, _ in naive.live.values()}
    return slices


def decoded(stream: LandedStream, piece: Slice) -> list[tuple]:
    assert msgspec.json.decode(msgspec.json.encode(piece), type=Slice) == piece
    rows = []
    with open_binlog(piece.segment) as binlog:
        for step in decode_slice(piece, binlog):
            assert isinstance(step, ChangeBatch)
            rows += rows_of(step.batch)
            times = step.batch.column("_committed_at").cast("int64").to_pylist()
            seqs = step.batch.column("_seq").to_pylist()
            assert times == [stream.record_at(seq)[1].committed_at for seq in seqs]
    return rows


@given(st.lists(STEP, max_size=30), st.lists(st.integers(0, 30), max_size=4), st.sampled_from((1, 300, 1 << 30)))
@settings(max_examples=60, deadline=None)
def test_landed_rows(tmp_path_factory, steps, cuts, target):
    naive = Naive()
    for step in steps:
        naive.take(*step)
    assert_as_naive(naive, landed(tmp_path_factory.mktemp("lake"), naive), cuts, target)


def test_a_large_prepared_transaction_is_split(tmp_path, monkeypatch):
    """Behind one that is not, into several slices, in another segment than its commit."""
    monkeypatch.setitem(TransactionScanner.__init__.__kwdefaults__, "split_bytes", 1)
    naive = Naive()
    for step in [("insert", 2), ("prepare", b"a"), ("file", None), ("prepare", b"b"), ("insert", 3), ("commit", b"a")]:
        naive.take(*step)
    naive.take("commit", b"b")
    stream = landed(tmp_path, naive)
    prepared = stream.record_at(2)[1]
    assert len(prepared.splits) > 1
    assert assert_as_naive(naive, stream, [], 1) == 4 * (1 + len(prepared.splits))


@given(st.lists(STEP, max_size=30))
@settings(max_examples=40, deadline=None)
def test_rows_of_files(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("files")
    naive = Naive()
    for step in steps:
        naive.take(*step)
    paths = []
    for ordinal, binlog in enumerate(naive.files, 1):
        path = folder / f"binlog.{ordinal:06d}"
        path.write_bytes(binlog.data)
        paths.append(str(path))
    found, holes, undecided = [], 0, []
    for step in decode_files_physically(paths, wanted=lambda _: True):
        if isinstance(step, ChangeBatch):
            found += rows_of(step.batch.rename_columns(["a", *step.batch.schema.names[1:]]))
        elif isinstance(step, UndecidedRows):
            undecided.append(step.gtid)
        else:
            holes += isinstance(step, Hole)
    assert found == [(*row, f"{SERVER}:{row[0]}") for row in naive.rows]
    assert holes == naive.lost
    assert undecided == [f"{SERVER}:{seq}" for seq, _ in sorted(naive.live.values())]
