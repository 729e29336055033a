"""Where the first event of a transaction does not have its commit time, its rows have the time of its last event, as
the index has it, however the bytes are cut."""

from __future__ import annotations

from contextlib import closing
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.changes.binlog_changes import read_slice
from strata_cdc.changes.plan import cut_slices
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.pipeline.decode.decode_files import decode_files, decode_files_physically, track_in_memory
from strata_cdc.pipeline.plan.runs import records_in_runs
from tests.binlog.binlogs import SERVER, Binlog
from tests.changes.test_prepared import landed, version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.changes.port import DecodedItem
    from strata_cdc.landing.landed import LandedStream

BEGIN = 1_700_000_000
XID = "X'31',X'',1"
steps = st.tuples(
    st.sampled_from(("rows", "rows", "rows", "large", "with a time", "prepare", "commit", "file")),
    st.integers(-3, 3),
    st.integers(0, 5),
)


class Files:
    """Files of a server whose clock goes on by `pause` seconds, or back, before each transaction, and by `length`
    seconds in it."""

    def __init__(self, drawn: Iterable[tuple[str, int, int]], folder: Path) -> None:
        self.seconds, self.gno = BEGIN, 0
        self.is_prepared = False
        self.files: list[Binlog] = []
        self.binlog = self._new()
        for kind, pause, length in [*drawn, ("rows", 1, 1)]:
            self.seconds += pause
            if kind == "file":
                self.binlog = self._new()
            elif kind not in {"prepare", "commit"}:
                self._rows(kind, length)
            elif self.is_prepared is (kind == "commit"):
                self.is_prepared = not self.is_prepared
                self._xa(kind, length)
        self.paths = [str(folder / f"binlog.{number:06d}") for number, _ in enumerate(self.files, 1)]
        for path, binlog in zip(self.paths, self.files, strict=True):
            Path(path).write_bytes(binlog.data)

    def _new(self) -> Binlog:
        binlog = Binlog()
        self.files.append(binlog)
        binlog.previous(f"{SERVER}:1-{self.gno}" if self.gno else "")
        if not self.gno:
            self.gno = 1
            binlog.gtid(1, micros=None, seconds=BEGIN)
            binlog.query("CREATE TABLE d.t (a INT)", seconds=BEGIN)
        return binlog

    def _rows(self, kind: str, length: int) -> None:
        self._gtid(self.seconds * 1_000_000 + 345 if kind == "with a time" else None)
        self.binlog.query("BEGIN", seconds=self.seconds)
        for _ in range(4 if kind == "large" else 1):
            self.binlog.table_map()
            self.binlog.write([1, 2])
        self.seconds += length
        self.binlog.xid(seconds=self.seconds)

    def _xa(self, kind: str, length: int) -> None:
        self._gtid(None)
        if kind == "prepare":
            self.binlog.query(f"XA START {XID}", seconds=self.seconds)
            self.binlog.table_map()
            self.binlog.write([1, 2])
            self.binlog.query(f"XA END {XID}", seconds=self.seconds)
            self.seconds += length
            self.binlog.xa_prepare(b"1", seconds=self.seconds)
        else:
            self.binlog.query(f"XA COMMIT {XID}", seconds=self.seconds)

    def _gtid(self, micros: int | None) -> None:
        self.gno += 1
        self.binlog.gtid(self.gno, micros=micros, seconds=self.seconds)


def times_in(found: Iterable[DecodedItem | Any]) -> list[tuple[int, int, int]]:
    """Ordinals of the transaction and the row, and the time, of all rows in stream order."""
    rows: list[tuple[int, int, int]] = []
    for step in found:
        if isinstance(step, ChangeBatch):
            columns = ("_seq", "_row", "_committed_at")
            rows += zip(*(step.batch.column(name).cast("int64").to_pylist() for name in columns), strict=True)
    return sorted(rows)


@given(st.lists(steps, max_size=14), st.sampled_from((1, 300, 1 << 30)), st.integers(0, 14))
@settings(max_examples=80, deadline=None)
def test_rows_have_the_times_of_the_index(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, int]], target: int, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("times")
    files = Files(drawn, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TransactionScanner.__init__.__kwdefaults__, "split_bytes", 1)
        stream = landed(folder, files)
    times = {record.seq: record.committed_at for _, record in stream.records()}
    for in_runs in (False, True):
        found = times_in(_slices(stream, target, cut, in_runs=in_runs))
        assert found
        assert found == [(seq, row, times[seq]) for seq, row, _ in found]
    rows = found
    assert times_in(decode_files_physically(files.paths, wanted=lambda _: True)) == rows
    tracked = track_in_memory(files.paths, "s", None)
    assert tracked.fault is None
    given_plain = decode_files(files.paths, tracked.versions, "s", wanted=lambda _: True, plain=tracked.plain)
    assert times_in(given_plain) == rows


def _slices(stream: LandedStream, target: int, cut: int, *, in_runs: bool) -> Iterable[Any]:
    for begin, end in pairwise(sorted({0, min(cut, stream.last_seq), stream.last_seq})):
        placement, clock = PreparedPlacement(stream, begin, end), stream.clock_at(begin)
        whole = records_in_runs(stream, begin + 1, end, lambda *_: True) if in_runs else stream.records(begin + 1, end)
        for segment, records in groupby(whole, key=itemgetter(0)):
            placed = list(placement.place(segment, (record for _, record in records)))
            plan = cut_slices(placed, version, source="s", segment=segment.url, clock=clock, target_bytes=target)
            clock = placed[-1].committed_at
            for piece in plan.slices:
                with closing(read_slice(piece)) as found:
                    yield from found
