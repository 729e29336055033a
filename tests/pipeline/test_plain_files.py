"""What tracking has read of files is not read again by decoding, and the rows are the same: those of random files with
transactions that come again, XA, transactions without a GTID and damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.changes.port import ChangeBatch, Watermark
from strata_cdc.errors import StrataError
from strata_cdc.pipeline.decode.decode_files import decode_files, track_in_memory
from tests.binlog.binlogs import Binlog
from tests.pipeline.walks import counted_walks

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.pipeline.decode.decode_files import TrackedFiles

XID = "X'31',X'',1"
KINDS = ("rows", "rows", "rows", "again", "anonymous", "without time", "prepare", "commit", "rollback", "ddl")
transactions = st.tuples(st.sampled_from(KINDS), st.integers(0, 3))
files = st.lists(st.lists(transactions, max_size=6), min_size=1, max_size=3)


class Files:
    """Files of one stream, written from drawn transactions."""

    def __init__(self) -> None:
        self.binlogs: list[bytes] = []
        self._gno = 0

    def add(self, drawn: list[tuple[str, int]]) -> None:
        """A file; the first one makes the table."""
        binlog = Binlog()
        binlog.previous(f"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{self._gno}" if self._gno else "")
        if not self.binlogs:
            self._next(binlog)
            binlog.query("CREATE TABLE d.t (a INT)")
        for kind, number in drawn:
            self._transaction(binlog, kind, number)
        self.binlogs.append(bytes(binlog.data))

    def _next(self, binlog: Binlog) -> None:
        self._gno += 1
        binlog.gtid(self._gno, micros=self._gno * 1000)

    def _transaction(self, binlog: Binlog, kind: str, number: int) -> None:
        if kind == "again":
            binlog.gtid(max(1, self._gno - number), micros=1)
        elif kind == "anonymous":
            binlog.anonymous(micros=self._gno * 1000 + 1)
        elif kind == "without time":
            binlog.anonymous()
        else:
            self._next(binlog)
        if kind == "ddl":
            binlog.query("CREATE TABLE IF NOT EXISTS d.u (a INT)")
        elif kind in {"commit", "rollback"}:
            binlog.query(f"XA {kind.upper()} {XID}")
        else:
            binlog.query(f"XA START {XID}" if kind == "prepare" else "BEGIN")
            binlog.table_map()
            binlog.write([self._gno, number])
            if kind == "prepare":
                binlog.query(f"XA END {XID}")
                binlog.xa_prepare(b"1")
            else:
                binlog.xid()


def shown(step: object) -> Any:
    return (step.table, step.version_id, step.batch.to_pylist()) if isinstance(step, ChangeBatch) else repr(step)


def decoded(paths: list[str], tracked: TrackedFiles, *, knows: bool, skip_corrupt: bool) -> list[Any]:
    """What decoding gives, with and without what is known of the files, and its fault last."""
    found: list[Any] = []
    plain = tracked.plain if knows else None
    try:
        steps = decode_files(
            paths, tracked.versions, "s", wanted=lambda _: True, skip_corrupt=skip_corrupt, plain=plain
        )
        found.extend(shown(step) for step in steps if not isinstance(step, Watermark))
    except StrataError as error:
        found.append(str(error))
    return found


@given(drawn=files, damage=st.none() | st.tuples(st.integers(0, 2), st.floats(0, 1)), skip_corrupt=st.booleans())
@settings(max_examples=150, deadline=None)
def test_rows_are_the_same_whether_files_are_known_to_be_plain(
    drawn: list[list[tuple[str, int]]],
    damage: tuple[int, float] | None,
    skip_corrupt: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    written = Files()
    for one in drawn:
        written.add(one)
    folder, paths = tmp_path_factory.mktemp("files"), []
    for number, content in enumerate(written.binlogs):
        changed = bytearray(content)
        if damage is not None and damage[0] == number:
            at = 150 + int(damage[1] * (len(content) - 151))
            changed[min(at, len(content) - 1)] ^= 0x55
        path = folder / f"binlog.{number + 1:06}"
        path.write_bytes(changed)
        paths.append(str(path))
    tracked = track_in_memory(paths, "s", None, skip_corrupt=skip_corrupt)
    known = decoded(paths, tracked, knows=True, skip_corrupt=skip_corrupt)
    assert known == decoded(paths, tracked, knows=False, skip_corrupt=skip_corrupt)


def file_of(tmp_path: Path, *kinds: str) -> Path:
    written = Files()
    written.add([(kind, 0) for kind in kinds])
    path = tmp_path / "binlog.000001"
    path.write_bytes(written.binlogs[0])
    return path


@pytest.mark.parametrize(
    ("kinds", "is_plain"),
    [
        (("rows", "ddl", "anonymous"), True),
        (("rows", "again"), False),
        (("rows", "without time"), False),
        (("prepare", "commit"), False),
    ],
)
def test_which_files_are_plain(tmp_path: Path, kinds: tuple[str, ...], is_plain: bool) -> None:
    path = str(file_of(tmp_path, *kinds))
    assert (path in track_in_memory([path], "s", None).plain) is is_plain


def test_a_file_that_has_grown_is_read_again(tmp_path: Path) -> None:
    """A server may write to it meanwhile: what is new may have to do with XA."""
    path = file_of(tmp_path, "rows", "prepare")
    whole = path.read_bytes()
    first = file_of(tmp_path, "rows").read_bytes()
    path.write_bytes(first)
    tracked = track_in_memory([str(path)], "s", None)
    assert tracked.plain
    path.write_bytes(whole)
    rows = decoded([str(path)], tracked, knows=True, skip_corrupt=False)
    assert rows == decoded([str(path)], tracked, knows=False, skip_corrupt=False)
    assert any(str(row).startswith("UndecidedRows") for row in rows)


def test_files_without_a_store_are_walked_over_twice(tmp_path: Path) -> None:
    """Once to track them and once to decode them: headers and checksums each time, transactions the first time, rows
    the second time."""
    path = file_of(tmp_path, *["rows"] * 400)
    with counted_walks() as walks:
        tracked = track_in_memory([str(path)], "s", None)
        assert sum(1 for _ in decode_files([str(path)], tracked.versions, "s", wanted=bool, plain=tracked.plain))
    # Beside them the heads of files and single statements are read.
    assert walks.of(path.stat().st_size) == pytest.approx((2, 2, 1, 1), abs=0.1)
